//! Puts a stream record into quarantine, and removes it: one transaction, because the text of a record can need several items.
//!
//! The put is conditional, so that a record that is delivered again is quarantined once, and its first copy stays.

use aws_sdk_dynamodb::{
    error::BuildError,
    operation::{
        execute_transaction::{ExecuteTransactionError, builders::ExecuteTransactionInputBuilder},
        transact_write_items::builders::TransactWriteItemsInputBuilder,
    },
    types::{CancellationReason, Delete, Put, TransactWriteItem},
};

use crate::{
    domain::{names, quarantine::QuarantinedRecord},
    dynamodb::{Store, client::error::ServiceError, put::insert_versions::Insert, s, write::cancellation},
};

const OPERATION: &str = "TransactWriteItems";
const INSERT: &str = "ExecuteTransaction";

impl Store {
    /// Puts a record into quarantine. Returns `false` if it was there already.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if the request fails.
    pub async fn quarantine(&self, record: &QuarantinedRecord) -> Result<bool, ServiceError> {
        if self.has_own_history() {
            return self.insert_quarantined(record).await;
        }
        let request = put_request(record, &self.table).map_err(|_| ServiceError::not_built(OPERATION))?;
        match request.send_with(&self.client).await {
            Ok(_) => Ok(true),
            Err(error) if cancellation::condition_failed(&error) => Ok(false),
            Err(error) => Err(cancellation::service_error(&error)),
        }
    }

    async fn insert_quarantined(&self, record: &QuarantinedRecord) -> Result<bool, ServiceError> {
        let request = insert_request(record, self.history_table()).map_err(|_| ServiceError::not_built(INSERT))?;
        match request.send_with(&self.client).await {
            Ok(_) => Ok(true),
            Err(error) => match error.as_service_error() {
                Some(ExecuteTransactionError::TransactionCanceledException(cancelled))
                    if cancelled.cancellation_reasons().iter().any(is_duplicate) =>
                {
                    Ok(false)
                }
                _ => Err(ServiceError::new(INSERT, &error)),
            },
        }
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

/// Builds the request that puts a record into quarantine.
///
/// # Errors
///
/// Returns [`BuildError`] if the SDK rejects a part.
pub fn put_request(record: &QuarantinedRecord, table: &str) -> Result<TransactWriteItemsInputBuilder, BuildError> {
    let mut request = TransactWriteItemsInputBuilder::default();
    for item in record.items() {
        let put = Put::builder()
            .table_name(table)
            .set_item(Some(item.into()))
            .condition_expression("attribute_not_exists(#pk)")
            .expression_attribute_names("#pk", names::PK)
            .build()?;
        request = request.transact_items(TransactWriteItem::builder().put(put).build());
    }
    Ok(request)
}

/// Builds the request that inserts a record into the quarantine of a table of history.
///
/// # Errors
///
/// Returns [`BuildError`] if the SDK rejects a statement.
pub fn insert_request(record: &QuarantinedRecord, table: &str) -> Result<ExecuteTransactionInputBuilder, BuildError> {
    let mut request = ExecuteTransactionInputBuilder::default();
    for item in record.items() {
        // The names of its attributes are short.
        let Some(insert) = Insert::new(&item, table) else {
            continue;
        };
        request = request.transact_statements(insert.in_transaction()?);
    }
    Ok(request)
}

fn is_duplicate(reason: &CancellationReason) -> bool {
    ["DuplicateItem", "ConditionalCheckFailed"]
        .map(Some)
        .contains(&reason.code())
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
