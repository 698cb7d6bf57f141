//! Puts a stream record into quarantine, and removes it: one transaction, because the text of a record can need several items.
//!
//! The put is conditional, so that a record that is delivered again is quarantined once, and its first copy stays.

use aws_sdk_dynamodb::{
    error::BuildError,
    operation::transact_write_items::builders::TransactWriteItemsInputBuilder,
    types::{Delete, TransactWriteItem},
};

use crate::{
    domain::{names, quarantine::QuarantinedRecord},
    dynamodb::{Store, client::error::ServiceError, s, write::cancellation},
};

const OPERATION: &str = "TransactWriteItems";

impl Store {
    /// Puts a record into quarantine. Returns `false` if it was there already.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if the request fails.
    pub async fn quarantine(&self, record: &QuarantinedRecord) -> Result<bool, ServiceError> {
        self.put_together(&record.items()).await
    }

    /// Removes a record from quarantine.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if the request fails.
    pub async fn delete_quarantined(&self, record: &QuarantinedRecord) -> Result<(), ServiceError> {
        let request = delete_request(record, self.history_table()).map_err(|_| ServiceError::not_built(OPERATION))?;
        let output = request.send_with(&self.client).await;
        output.map_err(|error| cancellation::service_error(&error))?;
        Ok(())
    }
}

/// Builds the request that removes a record from quarantine.
///
/// # Errors
///
/// Returns [`BuildError`] if the SDK rejects a part.
pub fn delete_request(record: &QuarantinedRecord, table: &str) -> Result<TransactWriteItemsInputBuilder, BuildError> {
    let mut request = TransactWriteItemsInputBuilder::default();
    for key in record.sort_keys() {
        let delete = Delete::builder()
            .table_name(table)
            .key(names::PK, s(record.entity.as_str()))
            .key(names::SK, s(key))
            .build()?;
        request = request.transact_items(TransactWriteItem::builder().delete(delete).build());
    }
    Ok(request)
}
