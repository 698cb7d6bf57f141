//! Puts a stream record into quarantine, and removes it by transactions, because the text of a record can need several items. A
//! transaction has at most 4 MB, so a record that is longer needs several: the item by which readers find it is put last and
//! deleted first.
//!
//! The put is conditional, so that a record that is delivered again is quarantined once, and its first copy stays.

use aws_sdk_dynamodb::{
    error::BuildError,
    operation::transact_write_items::builders::TransactWriteItemsInputBuilder,
    types::{Delete, TransactWriteItem},
};

use crate::{
    domain::{
        entity::EntityId,
        names,
        quarantine::{self, QuarantinedRecord},
    },
    dynamodb::{Store, cancellation, client::error::ServiceError, s},
};

const OPERATION: &str = "TransactWriteItems";

impl Store {
    /// Puts a record into quarantine. Returns `false` if it was there already.
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

    /// Removes a record from quarantine.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if the request fails.
    pub async fn delete_quarantined(&self, record: &QuarantinedRecord) -> Result<(), ServiceError> {
        for keys in record.sort_keys().chunks(quarantine::MAX_TOGETHER) {
            let request = delete_request(&record.entity, keys, self.history_table());
            let request = request.map_err(|_| ServiceError::not_built(OPERATION))?;
            let output = request.send_with(&self.client).await;
            output.map_err(|error| cancellation::service_error(&error))?;
        }
        Ok(())
    }
}

/// Builds the request that removes items of a record from quarantine.
///
/// # Errors
///
/// Returns [`BuildError`] if the SDK rejects a part.
pub fn delete_request(
    entity: &EntityId,
    keys: &[String],
    table: &str,
) -> Result<TransactWriteItemsInputBuilder, BuildError> {
    let mut request = TransactWriteItemsInputBuilder::default();
    for key in keys {
        let delete = Delete::builder()
            .table_name(table)
            .key(names::PK, s(entity.as_str()))
            .key(names::SK, s(key))
            .build()?;
        request = request.transact_items(TransactWriteItem::builder().delete(delete).build());
    }
    Ok(request)
}
