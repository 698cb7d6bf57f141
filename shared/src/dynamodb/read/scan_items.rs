//! All items of a table: `Scan`, page by page.

use std::collections::HashMap;

use aws_sdk_dynamodb::{operation::scan::builders::ScanInputBuilder, types::AttributeValue};

/// Builds the request for one page.
pub fn request(table: &str, start: Option<HashMap<String, AttributeValue>>) -> ScanInputBuilder {
    ScanInputBuilder::default()
        .table_name(table)
        .consistent_read(true)
        .set_exclusive_start_key(start)
}
