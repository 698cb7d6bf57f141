//! The latest items of a part of the table: `Scan` with a filter, page by page. What the filter leaves out is read all the
//! same, and costs as much.

use aws_sdk_dynamodb::{operation::scan::builders::ScanInputBuilder, types::AttributeValue as Sent};

use crate::{
    domain::{
        Item,
        entity::EntityId,
        keys::{VersionDigits, partition_key_of},
        names,
        time::EpochMillis,
        version::Version,
        version_item::latest_of,
        view::{is_deleted, time_of},
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        read::{query_items::Cursor, scan_segment::Segment},
        s,
    },
};

const OPERATION: &str = "Scan";

/// Which latest items.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LatestFilter {
    /// How the entity's partition key begins.
    pub prefix: String,
    /// Tombstones alone, or all but tombstones. Both, where it is not said.
    pub deleted: Option<bool>,
}

/// What a latest item says in short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatestItem {
    /// Whose it is.
    pub entity: EntityId,
    /// The latest version, `None` where something else than a writer wrote it.
    pub version: Option<Version>,
    /// Whether that is a tombstone.
    pub deleted: bool,
    /// When it was made, as far as its attributes tell.
    pub time: Option<EpochMillis>,
}

/// One page.
#[derive(Debug, Clone, PartialEq)]
pub struct LatestPage {
    /// In the order of the table, which is none.
    pub items: Vec<LatestItem>,
    /// How many items of all kinds were read.
    pub read: u64,
    /// Where the next page begins, if there may be one.
    pub next: Option<Cursor>,
}

impl Store {
    /// Reads one page of a segment: at most `limit` items of all kinds.
    pub async fn scan_latest(
        &self,
        segment: Segment,
        filter: &LatestFilter,
        start: Option<Cursor>,
        limit: Option<i32>,
    ) -> Result<LatestPage, ServiceError> {
        let request = request(segment, filter, start, limit, &self.table, self.digits);
        let answer = request.send_with(&self.client).await;
        let page = answer.map_err(|error| ServiceError::new(OPERATION, &error))?;
        let items = page.items.unwrap_or_default().into_iter().map(Item::from);
        Ok(LatestPage {
            items: items.filter_map(|item| latest_item(&item)).collect(),
            read: u64::try_from(page.scanned_count).unwrap_or_default(),
            next: page.last_evaluated_key.filter(|key| !key.is_empty()),
        })
    }
}

/// The request for one page. It may be a moment old.
pub fn request(
    segment: Segment,
    filter: &LatestFilter,
    start: Option<Cursor>,
    limit: Option<i32>,
    table: &str,
    digits: VersionDigits,
) -> ScanInputBuilder {
    let mut request = ScanInputBuilder::default()
        .table_name(table)
        .segment(i32::try_from(segment.index).unwrap_or(i32::MAX))
        .total_segments(i32::try_from(segment.total).unwrap_or(i32::MAX))
        .set_limit(limit)
        .set_exclusive_start_key(start)
        .projection_expression("#pk, #latest, #deleted, #time, #timestamp")
        .expression_attribute_names("#sk", names::SK)
        .expression_attribute_names("#pk", names::PK)
        .expression_attribute_names("#latest", names::LATEST)
        .expression_attribute_names("#deleted", names::DELETED)
        .expression_attribute_names("#time", names::TIME)
        .expression_attribute_names("#timestamp", names::TIMESTAMP)
        .expression_attribute_values(":sk", s(digits.latest_key()));
    let mut expression = "#sk = :sk".to_owned();
    if !filter.prefix.is_empty() {
        expression.push_str(" AND begins_with(#pk, :prefix)");
        request = request.expression_attribute_values(":prefix", s(&filter.prefix));
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

fn latest_item(item: &Item) -> Option<LatestItem> {
    Some(LatestItem {
        entity: EntityId::new(partition_key_of(item)?).ok()?,
        version: latest_of(item).ok(),
        deleted: is_deleted(item),
        time: time_of(item).ok(),
    })
}
