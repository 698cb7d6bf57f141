//! Scans of a segment of the table with a filter, page by page: its latest items. No index has them, so items that the filter excludes
//! consume capacity too. A page starts after the versions of the entity at which the one before ended, however many there are.

use aws_sdk_dynamodb::{operation::scan::builders::ScanInputBuilder, types::AttributeValue as Sent};
use shared::{
    domain::{
        Item,
        attribution::WrittenBy,
        entity::EntityId,
        keys::{LATEST_KEY, partition_key_of},
        names,
        recorded_at::RecordedAt,
        tombstone::is_deleted,
        version::Version,
        version_item::latest_of,
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        read::{batch_get_items::projection, query_items::Cursor},
        s,
    },
};

use crate::segments::scan::{self, Page, Segment, page};

/// Attributes of a latest item in its summary.
const OF_LATEST: [&str; 7] = [
    names::PK,
    names::LATEST,
    names::DELETED,
    names::RECORDED_AT,
    names::RECORDED_TICK,
    names::RECORDED_VERSION,
    names::TTL,
];

/// Sort key after the sort keys of all versions.
pub(super) const AFTER_VERSIONS: &str = "w";

/// Filter of latest items.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LatestFilter {
    /// Part of the partition key.
    pub text: String,
    /// `true` for tombstones only, `false` for no tombstones, `None` for both.
    pub deleted: Option<bool>,
}

/// Summary of a latest item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatestItem {
    /// Entity.
    pub entity: EntityId,
    /// Latest version, `None` if it is missing or invalid.
    pub version: Option<Version>,
    /// `true` if the latest version is a tombstone.
    pub deleted: bool,
    /// Time at which the latest version was recorded. `None` if another program or an older release wrote it.
    pub recorded_at: Option<RecordedAt>,
}

/// Reads one page of a segment, of at most `limit` items of all kinds.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn scan_latest(
    store: &Store,
    segment: Segment,
    filter: &LatestFilter,
    start: Option<Cursor>,
    limit: Option<i32>,
) -> Result<Page<LatestItem>, ServiceError> {
    let scan = scan::request(Some(segment), start, limit, store.latest_table());
    let mut page = page(store, of_latest(scan, filter), |item| latest_item(&item)).await?;
    if let Some(Sent::S(last)) = page.next.as_mut().and_then(|next| next.get_mut(names::SK))
        && (LATEST_KEY..AFTER_VERSIONS).contains(&last.as_str())
    {
        AFTER_VERSIONS.clone_into(last);
    }
    Ok(page)
}

/// Adds the filter to a scan.
pub fn of_latest(scan: ScanInputBuilder, filter: &LatestFilter) -> ScanInputBuilder {
    let mut request = projected(scan, &OF_LATEST)
        .expression_attribute_names("#sk", names::SK)
        .expression_attribute_values(":sk", s(LATEST_KEY));
    let mut expression = "#sk = :sk".to_owned();
    if !filter.text.is_empty() {
        expression.push_str(" AND contains(#pk, :text)");
        request = request.expression_attribute_values(":text", s(&filter.text));
    }
    if let Some(deleted) = filter.deleted {
        expression.push_str(if deleted {
            " AND #deleted = :true"
        } else {
            " AND (attribute_not_exists(#deleted) OR #deleted <> :true)"
        });
        request = request.expression_attribute_values(":true", Sent::Bool(true));
    }
    request.filter_expression(expression)
}

pub(super) fn latest_item(item: &Item) -> Option<LatestItem> {
    let version = latest_of(item).ok();
    // Otherwise, the time is that of an older version.
    let is_own = version.is_some_and(|version| WrittenBy::of(item, version) == WrittenBy::Own);
    Some(LatestItem {
        entity: EntityId::new(partition_key_of(item)?).ok()?,
        version,
        deleted: is_deleted(item),
        recorded_at: RecordedAt::of_latest(item).filter(|_| is_own),
    })
}

/// Requests these attributes only.
pub(super) fn projected(scan: ScanInputBuilder, shown: &[&str]) -> ScanInputBuilder {
    let (expression, names) = projection(shown);
    scan.projection_expression(expression)
        .set_expression_attribute_names(Some(names))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_time_of_an_older_version_is_not_shown() {
        let recorded_at = |recorded_version: serde_json::Value| {
            let mut latest = json!({
                "PK": {"S": "E"}, "Latest": {"N": "4"}, "RecordedAt": {"S": "2026-11-22T06:24:48.123456000Z"},
                "RecordedTick": {"N": "2"},
            });
            latest["RecordedVersion"] = recorded_version;
            let latest = latest_item(&serde_json::from_value(latest).unwrap()).unwrap();
            latest.recorded_at.map(|time| time.to_string())
        };
        let time = "2026-11-22T06:24:48.123456002Z";
        assert_eq!(recorded_at(json!({"N": "4"})).as_deref(), Some(time));
        assert_eq!(recorded_at(json!({"N": "3"})), None);
        assert_eq!(recorded_at(json!({"S": "4"})), None);
    }
}
