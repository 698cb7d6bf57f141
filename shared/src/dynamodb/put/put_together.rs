//! Puts several items of history in one transaction, if all their keys are free: the items of a version in parts, or those of a
//! record in quarantine. So either all of them are stored or none, and an item that is delivered again is stored once.

use aws_sdk_dynamodb::{
    error::BuildError,
    operation::{
        execute_transaction::{ExecuteTransactionError, builders::ExecuteTransactionInputBuilder},
        transact_write_items::builders::TransactWriteItemsInputBuilder,
    },
    types::{CancellationReason, Put, TransactWriteItem},
};

use crate::{
    domain::{Item, names},
    dynamodb::{
        Store, cancellation,
        client::error::{ErrorKind, ServiceError},
        put::insert_versions::Insert,
    },
};

const OPERATION: &str = "TransactWriteItems";
const INSERT: &str = "ExecuteTransaction";

impl Store {
    /// Puts items into the table of history. Returns `false` if a key is taken; then none is stored.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if the request fails.
    pub(crate) async fn put_together(&self, items: &[Item]) -> Result<bool, ServiceError> {
        if self.has_own_history() {
            return self.insert_together(items).await;
        }
        let request = put_request(items, &self.table).map_err(|_| ServiceError::not_built(OPERATION))?;
        match request.send_with(&self.client).await {
            Ok(_) => Ok(true),
            Err(error) if cancellation::condition_failed(&error) => Ok(false),
            Err(error) => Err(cancellation::service_error(&error)),
        }
    }

    /// As [`Self::put_together`], by statements: the only writes to a table of history that IAM can restrict to new items.
    async fn insert_together(&self, items: &[Item]) -> Result<bool, ServiceError> {
        let request = insert_request(items, self.history_table()).map_err(|_| ServiceError::not_built(INSERT))?;
        let Err(error) = request.send_with(&self.client).await else {
            return Ok(true);
        };
        let failed = ServiceError::new(INSERT, &error);
        let Some(ExecuteTransactionError::TransactionCanceledException(cancelled)) = error.as_service_error() else {
            return Err(failed);
        };
        let reasons = cancelled.cancellation_reasons();
        if reasons.iter().any(is_duplicate) {
            return Ok(false);
        }
        let is_invalid = |reason: &&CancellationReason| reason.code() == Some("ValidationError");
        Err(match reasons.iter().find(is_invalid) {
            Some(reason) => failed.with_reason(ErrorKind::Rejected, "ValidationError", reason.message()),
            None => failed,
        })
    }
}

/// Builds the request for a table in which conditions protect history.
///
/// # Errors
///
/// Returns [`BuildError`] if the SDK rejects a part.
pub fn put_request(items: &[Item], table: &str) -> Result<TransactWriteItemsInputBuilder, BuildError> {
    let mut request = TransactWriteItemsInputBuilder::default();
    for item in items {
        request = request.transact_items(TransactWriteItem::builder().put(put(item, table)?).build());
    }
    Ok(request)
}

/// Returns the put of one item, if its key is free.
///
/// # Errors
///
/// Returns [`BuildError`] if the SDK rejects a part.
pub fn put(item: &Item, table: &str) -> Result<Put, BuildError> {
    Put::builder()
        .table_name(table)
        .set_item(Some(item.clone().into()))
        .condition_expression("attribute_not_exists(#pk)")
        .expression_attribute_names("#pk", names::PK)
        .build()
}

/// Builds the request for a table of history. The names of the items' attributes are short.
///
/// # Errors
///
/// Returns [`BuildError`] if the SDK rejects a statement.
pub fn insert_request(items: &[Item], table: &str) -> Result<ExecuteTransactionInputBuilder, BuildError> {
    let mut request = ExecuteTransactionInputBuilder::default();
    for insert in items.iter().filter_map(|item| Insert::new(item, table)) {
        request = request.transact_statements(insert.in_transaction()?);
    }
    Ok(request)
}

fn is_duplicate(reason: &CancellationReason) -> bool {
    // DynamoDB Local gives no code of its own.
    let is_local = reason.message() == Some("Duplicate primary key exists in table");
    let codes = ["DuplicateItem", "ConditionalCheckFailed"].map(Some);
    is_local || codes.contains(&reason.code())
}
