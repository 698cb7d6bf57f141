//! A part of the table, for several to read at once: `Scan` by segments, page by page.

use aws_sdk_dynamodb::operation::scan::builders::ScanInputBuilder;
use serde::{Deserialize, Serialize};

use crate::{
    domain::Item,
    dynamodb::{Store, client::error::ServiceError, read::query_items::Cursor},
};

const OPERATION: &str = "Scan";

/// One of the parts that a table is read in. The items of one entity are all in one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Which, from 0.
    pub index: u32,
    /// Of how many.
    pub total: u32,
}

impl Store {
    /// Reads one page of a segment, and where the next one begins if there may be one.
    pub async fn scan_segment(
        &self,
        segment: Segment,
        start: Option<Cursor>,
        limit: Option<i32>,
        consistent: bool,
    ) -> Result<(Vec<Item>, Option<Cursor>), ServiceError> {
        let request = request(segment, start, limit, consistent, &self.table);
        let answer = request.send_with(&self.client).await;
        let page = answer.map_err(|error| ServiceError::new(OPERATION, &error))?;
        let items = page.items.unwrap_or_default().into_iter().map(Item::from).collect();
        Ok((items, page.last_evaluated_key.filter(|key| !key.is_empty())))
    }
}

/// The request for one page.
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
