//! Items of an attached table that have a history: `Scan` of the history table, page by page. Deleted items are among them.
//!
//! The versions of an item are adjacent and in their order, so the last version of a page that is not late has the item's state, except for
//! the item at which a page ends. Its state is read by its key, and the next page starts after its versions, however many there are.

use aws_sdk_dynamodb::operation::scan::builders::ScanInputBuilder;
use shared::{
    domain::{
        Item,
        attached::item::LATE,
        entity::EntityId,
        keys::{LATEST_KEY, partition_key_of, sort_key_of},
        marks::is_expired,
        names,
        recorded_at::RecordedAt,
        tombstone::is_deleted,
    },
    dynamodb::{Store, client::error::ServiceError, read::query_items::Cursor, s},
};

use super::scans::{AFTER_VERSIONS, LatestFilter, LatestItem, latest_item, projected};
use crate::segments::scan::{self, Page, Segment, page};

const OF_VERSION: [&str; 6] = [
    names::PK,
    names::SK,
    names::DELETED,
    names::RECORDED_AT,
    names::TTL,
    LATE,
];

/// Reads one page of a segment of the history, of at most `limit` items of all kinds.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn scan_histories(
    store: &Store,
    segment: Segment,
    filter: &LatestFilter,
    start: Option<Cursor>,
    limit: Option<i32>,
) -> Result<Page<LatestItem>, ServiceError> {
    let scan = scan::request(Some(segment), start, limit, store.history_table());
    let page = page(store, of_versions(scan, filter), Some).await?;
    let entity_of = |item: &Item| EntityId::new(partition_key_of(item)?).ok();
    let (now, mut items) = (store.clock().now(), Vec::<LatestItem>::new());
    for item in page.items.into_iter().filter(|item| !is_expired(item, now)) {
        let (Some(entity), Some(version)) = (entity_of(&item), store.digits().version_of_item(&item)) else {
            continue;
        };
        let before = items.pop_if(|last| last.entity == entity);
        items.push(match before {
            Some(before) if item.contains_key(LATE) => before,
            _ => LatestItem {
                version: Some(version),
                deleted: is_deleted(&item),
                recorded_at: RecordedAt::of(&item),
                entity,
            },
        });
    }
    let mut next = page.next;
    let last = next.clone().map(Item::from);
    let last = last.filter(|last| sort_key_of(last) < Some(AFTER_VERSIONS));
    if let (Some(cursor), Some(entity)) = (&mut next, last.as_ref().and_then(entity_of)) {
        cursor.insert(names::SK.to_owned(), s(AFTER_VERSIONS));
        items.pop_if(|last| last.entity == entity);
        if entity.as_str().contains(&filter.text) {
            let latest = store.get(&entity, LATEST_KEY, false).await?;
            items.extend(latest.as_ref().and_then(latest_item));
        }
    }
    items.retain(|item| filter.deleted.is_none_or(|deleted| item.deleted == deleted));
    Ok(Page {
        items,
        read: page.read,
        next,
    })
}

/// Adds the filter to a scan. Only the last version of an item shows whether it was deleted.
pub fn of_versions(scan: ScanInputBuilder, filter: &LatestFilter) -> ScanInputBuilder {
    let request = projected(scan, &OF_VERSION).expression_attribute_values(":v", s("v"));
    if filter.text.is_empty() {
        return request.filter_expression("begins_with(#sk, :v)");
    }
    request
        .filter_expression("begins_with(#sk, :v) AND contains(#pk, :text)")
        .expression_attribute_values(":text", s(&filter.text))
}
