//! Versions that a request created: `Scan` with a filter on `RequestId`, page by page. No index has request IDs, so all items that
//! are read consume capacity.

use aws_sdk_dynamodb::operation::scan::builders::ScanInputBuilder;

use crate::segments::scan::Segment;
use shared::{
    domain::{
        Item,
        attribution::Writer,
        entity::EntityId,
        keys::{LATEST_KEY, partition_key_of, sort_key_of},
        layout, names,
        version::Version,
        version_item::latest_of,
    },
    dynamodb::{Store, client::error::ServiceError, read::query_items::Cursor, s},
};

const OPERATION: &str = "Scan";

/// Page of the versions that a request created.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestPage {
    /// Versions, in no particular order. A version can occur twice: as the latest item, and as a version item.
    pub versions: Vec<(EntityId, Version)>,
    /// Number of items of all kinds that were read.
    pub read: u64,
    /// Cursor of the next page, if there may be one.
    pub next: Option<Cursor>,
}

/// Reads one page of a segment of one of the store's [tables](Store::tables), of at most `limit` items of all kinds.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn scan_request(
    store: &Store,
    table: &str,
    segment: Segment,
    request_id: &str,
    start: Option<Cursor>,
    limit: Option<i32>,
) -> Result<RequestPage, ServiceError> {
    // A history table has the attributes of a version in a map, or compressed beside the id.
    let is_nested = table != store.latest_table();
    let request = request(segment, request_id, is_nested, start, limit, table);
    let output = request.send_with(store.client()).await;
    let page = output.map_err(|error| ServiceError::new(OPERATION, &error))?;
    let items = page.items.unwrap_or_default().into_iter().map(Item::from);
    Ok(RequestPage {
        versions: items.filter_map(|item| version_of_request(store, &item)).collect(),
        read: u64::try_from(page.scanned_count).unwrap_or_default(),
        next: page.last_evaluated_key.filter(|key| !key.is_empty()),
    })
}

fn version_of_request(store: &Store, item: &Item) -> Option<(EntityId, Version)> {
    let version = match sort_key_of(item)? {
        // The request of an older version remains on a latest item that another program wrote.
        LATEST_KEY => latest_of(item)
            .ok()
            .filter(|latest| Writer::of(item, *latest) == Writer::Own)?,
        _ => store.digits().version_of_item(item)?,
    };
    Some((EntityId::new(partition_key_of(item)?).ok()?, version))
}

/// Builds the eventually consistent request for one page.
pub fn request(
    segment: Segment,
    request_id: &str,
    is_nested: bool,
    start: Option<Cursor>,
    limit: Option<i32>,
    table: &str,
) -> ScanInputBuilder {
    let request = ScanInputBuilder::default()
        .table_name(table)
        .segment(i32::try_from(segment.index).unwrap_or(i32::MAX))
        .total_segments(i32::try_from(segment.total).unwrap_or(i32::MAX))
        .set_limit(limit)
        .set_exclusive_start_key(start)
        .projection_expression("#pk, #sk, #latest, #recorded_version")
        .expression_attribute_names("#pk", names::PK)
        .expression_attribute_names("#sk", names::SK)
        .expression_attribute_names("#latest", names::LATEST)
        .expression_attribute_names("#recorded_version", names::RECORDED_VERSION)
        .expression_attribute_names("#request", names::REQUEST_ID)
        .expression_attribute_values(":request", s(request_id));
    match is_nested {
        false => request.filter_expression("#request = :request"),
        true => request
            .expression_attribute_names("#image", layout::IMAGE)
            .filter_expression("#image.#request = :request OR #request = :request"),
    }
}
