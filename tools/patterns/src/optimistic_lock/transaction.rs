//! Saves, updates and deletions in a transaction.
//!
//! The SDK sends all attempts of a call with one
//! [client request token](https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html), so that
//! DynamoDB detects a retry after a lost response. Unlike the methods for one item, they need no further detection.

use aws_sdk_dynamodb::{
    error::SdkError,
    operation::transact_write_items::{TransactWriteItemsError, builders::TransactWriteItemsInputBuilder},
    types::{CancellationReason, Delete, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update},
};
use serde::{Serialize, de::DeserializeOwned};
use shared::{domain::Item, dynamodb::client::error::ServiceError};

use super::{Check, Locked, SaveError, conflict};

/// Save, update or deletion, prepared for a transaction.
pub struct Prepared<T> {
    /// Part of the transaction.
    pub item: TransactWriteItem,
    /// Stored value if the transaction succeeds, `None` for a deletion.
    pub value: Option<T>,
}

impl<T: Serialize + DeserializeOwned> Locked<T> {
    /// Prepares a save for a transaction.
    ///
    /// # Errors
    ///
    /// Returns [`SaveError`], see its variants.
    pub fn prepare_save(&self, value: &T, check: Check) -> Result<Prepared<T>, SaveError<T>> {
        let (next, current) = self.next(value)?;
        let put = Put::builder()
            .table_name(&self.table)
            .set_item(Some(next.clone().into()))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let condition = self.condition(current, check);
        let put = put
            .set_condition_expression(condition.expression)
            .set_expression_attribute_names(condition.names)
            .set_expression_attribute_values(condition.values);
        let put = put.build().map_err(|_| ServiceError::not_built("TransactWriteItems"))?;
        Ok(Prepared {
            item: TransactWriteItem::builder().put(put).build(),
            value: Some(serde_dynamo::from_item(next)?),
        })
    }

    /// Prepares an update for a transaction. Its value has the fields as the argument has them, because a transaction does not
    /// return the stored item.
    ///
    /// # Errors
    ///
    /// Returns [`SaveError`], see its variants.
    pub fn prepare_update(&self, value: &T, check: Check) -> Result<Prepared<T>, SaveError<T>> {
        let changes = self.changes(value)?;
        let update = Update::builder()
            .table_name(&self.table)
            .set_key(Some(changes.key.clone().into()))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let update = self.update_expression(&changes, check).apply_to_transaction(update);
        let update = update
            .build()
            .map_err(|_| ServiceError::not_built("TransactWriteItems"))?;
        Ok(Prepared {
            item: TransactWriteItem::builder().update(update).build(),
            value: Some(serde_dynamo::from_item(changes.next)?),
        })
    }

    /// Prepares a deletion for a transaction.
    ///
    /// # Errors
    ///
    /// Returns [`SaveError`], see its variants.
    pub fn prepare_delete(&self, value: &T, check: Check) -> Result<Prepared<T>, SaveError<T>> {
        let item: Item = serde_dynamo::to_item(value)?;
        let delete = Delete::builder()
            .table_name(&self.table)
            .set_key(Some(self.key_of(&item)?.into()))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let condition = self.condition(self.version_of(&item)?, check);
        let delete = delete
            .set_condition_expression(condition.expression)
            .set_expression_attribute_names(condition.names)
            .set_expression_attribute_values(condition.values);
        let delete = delete
            .build()
            .map_err(|_| ServiceError::not_built("TransactWriteItems"))?;
        Ok(Prepared {
            item: TransactWriteItem::builder().delete(delete).build(),
            value: None,
        })
    }

    /// Saves several values in one transaction, and returns the stored values.
    ///
    /// # Errors
    ///
    /// Returns [`SaveError`], see its variants.
    pub async fn save_all(&self, values: &[&T], check: Check) -> Result<Vec<T>, SaveError<T>> {
        let prepared: Vec<_> = values
            .iter()
            .map(|value| self.prepare_save(value, check))
            .collect::<Result<_, _>>()?;
        let (items, saved): (Vec<_>, Vec<_>) = prepared
            .into_iter()
            .map(|prepared| (prepared.item, prepared.value))
            .unzip();
        let request = TransactWriteItemsInputBuilder::default().set_transact_items(Some(items));
        match request.send_with(&self.client).await {
            Ok(_) => Ok(saved.into_iter().flatten().collect()),
            Err(error) => match failed_condition(&error) {
                Some(reason) => conflict(reason.item.map(Item::from)),
                None => Err(ServiceError::new("TransactWriteItems", &error).into()),
            },
        }
    }
}

/// Returns the first failed condition of a cancelled transaction.
fn failed_condition<R>(error: &SdkError<TransactWriteItemsError, R>) -> Option<CancellationReason> {
    let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) = error.as_service_error() else {
        return None;
    };
    let mut reasons = cancelled.cancellation_reasons().iter();
    reasons
        .find(|reason| reason.code() == Some("ConditionalCheckFailed"))
        .cloned()
}
