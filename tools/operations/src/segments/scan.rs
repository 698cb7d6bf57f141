//! Segments of a table, which can be read in parallel: `Scan`, page by page.

use aws_sdk_dynamodb::operation::scan::builders::ScanInputBuilder;
use serde::{Deserialize, Serialize};

use shared::{
    domain::Item,
    dynamodb::{Store, client::error::ServiceError, read::query_items::Cursor},
};

/// Segment of a parallel scan. All items of an entity are in the same segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Index, from 0.
    pub index: u32,
    /// Number of segments.
    pub total: u32,
}

/// Page of a scan.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// What was found, in no particular order.
    pub items: Vec<T>,
    /// Number of items of all kinds that were read. Items that a filter excludes consume capacity too.
    pub read: u64,
    /// Cursor of the next page, if there may be one.
    pub next: Option<Cursor>,
}

/// Reads one page of a segment of one of the store's tables, and returns the cursor of the next page if there may be one.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn scan_segment(
    store: &Store,
    table: &str,
    segment: Segment,
    start: Option<Cursor>,
    limit: Option<i32>,
    consistent: bool,
) -> Result<(Vec<Item>, Option<Cursor>), ServiceError> {
    let request = request(Some(segment), start, limit, table).consistent_read(consistent);
    let page = page(store, request, Some).await?;
    Ok((store.flat_all(page.items, table).await?, page.next))
}

/// Sends a request for one page, and returns what `find` finds in its items.
///
/// # Errors
///
/// Returns [`ServiceError`] if the request fails.
pub(crate) async fn page<T>(
    store: &Store,
    request: ScanInputBuilder,
    find: impl Fn(Item) -> Option<T>,
) -> Result<Page<T>, ServiceError> {
    let output = request.send_with(store.client()).await;
    let page = output.map_err(|error| ServiceError::new("Scan", &error))?;
    let items = page.items.unwrap_or_default().into_iter().map(Item::from);
    Ok(Page {
        items: items.filter_map(find).collect(),
        read: u64::try_from(page.scanned_count).unwrap_or_default(),
        next: page.last_evaluated_key.filter(|key| !key.is_empty()),
    })
}

/// Builds the request for one page of a table, or of a segment of it.
pub fn request(segment: Option<Segment>, start: Option<Cursor>, limit: Option<i32>, table: &str) -> ScanInputBuilder {
    let number = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
    ScanInputBuilder::default()
        .table_name(table)
        .set_segment(segment.map(|segment| number(segment.index)))
        .set_total_segments(segment.map(|segment| number(segment.total)))
        .set_limit(limit)
        .set_exclusive_start_key(start)
}
