//! Segments of the table, which can be read in parallel: `Scan`, page by page.

use aws_sdk_dynamodb::operation::scan::builders::ScanInputBuilder;
use serde::{Deserialize, Serialize};

use shared::{
    domain::Item,
    dynamodb::{Store, client::error::ServiceError, read::query_items::Cursor},
};

const OPERATION: &str = "Scan";

/// Segment of a parallel scan. All items of an entity are in the same segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Index, from 0.
    pub index: u32,
    /// Number of segments.
    pub total: u32,
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
    let request = request(segment, start, limit, consistent, table);
    let output = request.send_with(store.client()).await;
    let page = output.map_err(|error| ServiceError::new(OPERATION, &error))?;
    let items = store.flat_all(page.items.into_iter().flatten(), table).await?;
    Ok((items, page.last_evaluated_key.filter(|key| !key.is_empty())))
}

/// Builds the request for one page.
pub fn request(
    segment: Segment,
    start: Option<Cursor>,
    limit: Option<i32>,
    consistent: bool,
    table: &str,
) -> ScanInputBuilder {
    ScanInputBuilder::default()
        .table_name(table)
        .segment(i32::try_from(segment.index).unwrap_or(i32::MAX))
        .total_segments(i32::try_from(segment.total).unwrap_or(i32::MAX))
        .set_limit(limit)
        .consistent_read(consistent)
        .set_exclusive_start_key(start)
}
