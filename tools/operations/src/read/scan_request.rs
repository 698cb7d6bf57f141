//! Versions that a request created: `Scan` with a filter on `RequestId`, page by page. No index has request IDs, so all items that
//! are read consume capacity.

use aws_sdk_dynamodb::operation::scan::builders::ScanInputBuilder;

use crate::segments::scan::{self, Page, Segment, page};
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

/// Reads one page of a segment of one of the store's [tables](Store::tables), of at most `limit` items of all kinds. A version can
/// occur twice: as the latest item, and as a version item.
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
) -> Result<Page<(EntityId, Version)>, ServiceError> {
    // A history table has the attributes of a version in a map, or compressed beside the id.
    let is_nested = table != store.latest_table();
    let scan = scan::request(Some(segment), start, limit, table);
    page(store, of_request(scan, request_id, is_nested), |item| {
        version_of_request(store, &item)
    })
    .await
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

/// Adds the filter to a scan.
pub fn of_request(scan: ScanInputBuilder, request_id: &str, is_nested: bool) -> ScanInputBuilder {
    let scan = scan
        .projection_expression("#pk, #sk, #latest, #recorded_version")
        .expression_attribute_names("#pk", names::PK)
        .expression_attribute_names("#sk", names::SK)
        .expression_attribute_names("#latest", names::LATEST)
        .expression_attribute_names("#recorded_version", names::RECORDED_VERSION)
        .expression_attribute_names("#request", names::REQUEST_ID)
        .expression_attribute_values(":request", s(request_id));
    match is_nested {
        false => scan.filter_expression("#request = :request"),
        true => scan
            .expression_attribute_names("#image", layout::IMAGE)
            .filter_expression("#image.#request = :request OR #request = :request"),
    }
}
