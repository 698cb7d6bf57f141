//! Puts several history items in one transaction, if all their keys are free. The items are the parts of a version, a late version with
//! its entry, or the parts of a quarantined record. The transaction stores all of them or none, and a second delivery stores nothing.

use aws_sdk_dynamodb::{operation::execute_transaction::ExecuteTransactionError, types::CancellationReason};

use crate::{
    domain::{Item, quarantine::QuarantinedRecord},
    dynamodb::{
        Store,
        client::error::{ErrorKind, ServiceError},
        put::insert_versions::{Insert, Inserted},
        write::{Write, send_together},
    },
};

const INSERT: &str = "ExecuteTransaction";

impl Store {
    /// Puts a record into quarantine. Returns `false` if it was there already: its first copy stays.
    ///
    /// A transaction has at most 4 MB, so a record that is longer needs several: the item by which readers find it is put last.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if the request fails.
    pub async fn quarantine(&self, record: &QuarantinedRecord) -> Result<bool, ServiceError> {
        let mut is_put = false;
        for group in record.groups() {
            // An earlier delivery can have put a group: with the same text, as the hash in its keys shows.
            is_put = self.put_together(&group).await?;
        }
        Ok(is_put)
    }

    /// Puts items into the table of history. Returns `false` if a key is taken; then none is stored.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if the request fails.
    pub(crate) async fn put_together(&self, items: &[Item]) -> Result<bool, ServiceError> {
        if self.has_own_history() {
            // The names of the attributes are short.
            let inserts = items.iter().filter_map(|item| Insert::new(item, self.history_table()));
            let inserts: Vec<_> = inserts.collect();
            return self.insert_together(&inserts).await?;
        }
        let inserts = items.iter().map(|item| Write::insert(&self.table, item.clone()));
        send_together(&self.client, inserts).await
    }

    /// Inserts items in one transaction of statements: the only writes to a table of history that IAM can restrict to new items. The
    /// statements determine the outcome. The error belongs to the request.
    pub(super) async fn insert_together(&self, inserts: &[Insert<'_>]) -> Result<Inserted, ServiceError> {
        let statements = inserts.iter().map(Insert::in_transaction).collect::<Result<_, _>>();
        let statements = statements.map_err(|_| ServiceError::not_built(INSERT))?;
        let transaction = self.client.execute_transaction();
        let Err(error) = transaction.set_transact_statements(Some(statements)).send().await else {
            return Ok(Ok(true));
        };
        let failed = ServiceError::new(INSERT, &error);
        let reasons = match error.as_service_error() {
            Some(ExecuteTransactionError::TransactionCanceledException(cancelled)) => cancelled.cancellation_reasons(),
            _ => &[],
        };
        let is_invalid = |reason: &&CancellationReason| reason.code() == Some("ValidationError");
        if reasons.iter().any(is_duplicate) {
            return Ok(Ok(false));
        }
        match reasons.iter().find(is_invalid) {
            Some(reason) => {
                let failed = failed.with_reason(ErrorKind::Rejected, "ValidationError", reason.message());
                Ok(Err(failed))
            }
            None if !reasons.is_empty() => Ok(Err(failed)),
            None => Err(failed),
        }
    }
}

fn is_duplicate(reason: &CancellationReason) -> bool {
    // DynamoDB Local gives no code of its own.
    let is_local = reason.message() == Some("Duplicate primary key exists in table");
    let codes = ["DuplicateItem", "ConditionalCheckFailed"].map(Some);
    is_local || codes.contains(&reason.code())
}
