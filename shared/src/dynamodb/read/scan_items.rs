//! All items of the table and of its history: `Scan`, page by page.

use std::collections::HashMap;

use aws_sdk_dynamodb::{operation::scan::builders::ScanInputBuilder, types::AttributeValue};
use thiserror::Error;

use crate::{
    domain::Item,
    dynamodb::{Store, client::error::ServiceError},
};

const OPERATION: &str = "Scan";

impl Store {
    /// Reads the whole table, and its history table if there is one, with strongly consistent reads.
    ///
    /// # Errors
    ///
    /// Returns [`ScanError`] if a request fails.
    pub async fn scan_items(&self) -> Result<Vec<Item>, ScanError> {
        let mut items = Vec::new();
        for table in self.tables() {
            let mut start = None;
            loop {
                let page = request(table, start)
                    .send_with(&self.client)
                    .await
                    .map_err(|error| ScanError(ServiceError::new(OPERATION, &error)))?;
                let found = self.flat_all(page.items.into_iter().flatten(), table).await;
                items.extend(found.map_err(ScanError)?);
                start = page.last_evaluated_key.filter(|key| !key.is_empty());
                if start.is_none() {
                    break;
                }
            }
        }
        Ok(items)
    }

    /// Returns `true` if the table is empty.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn is_empty(&self) -> Result<bool, ServiceError> {
        let output = request(&self.table, None).limit(1).send_with(&self.client).await;
        let page = output.map_err(|error| ServiceError::new(OPERATION, &error))?;
        Ok(page.items.unwrap_or_default().is_empty())
    }
}

/// Builds the request for one page.
pub fn request(table: &str, start: Option<HashMap<String, AttributeValue>>) -> ScanInputBuilder {
    ScanInputBuilder::default()
        .table_name(table)
        .consistent_read(true)
        .set_exclusive_start_key(start)
}

/// The table could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("failed to read the table")]
pub struct ScanError(#[source] pub ServiceError);
