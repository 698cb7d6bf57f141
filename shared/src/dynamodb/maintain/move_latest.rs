//! Repair of a latest item at a padded key, such as `v00`: one transaction that puts it at `v0` and deletes it there.

use aws_sdk_dynamodb::{
    error::BuildError,
    operation::transact_write_items::{TransactWriteItemsError, builders::TransactWriteItemsInputBuilder},
    types::{Delete, Put, TransactWriteItem},
};

use crate::{
    domain::{AttributeValue, Item, keys::sort_key_of, names},
    dynamodb::{Store, client::error::ServiceError, s},
};

const OPERATION: &str = "TransactWriteItems";

impl Store {
    /// Moves a latest item, on condition that its counter has not changed and that there is none at `v0`. Returns `false` if a
    /// condition failed.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn move_latest(&self, padded: &Item, latest: &Item) -> Result<bool, ServiceError> {
        let request = request(padded, latest, &self.table).map_err(|_| ServiceError::not_built(OPERATION))?;
        match request.send_with(&self.client).await {
            Ok(_) => Ok(true),
            Err(error) => match error.as_service_error() {
                Some(TransactWriteItemsError::TransactionCanceledException(cancelled))
                    if (cancelled.cancellation_reasons().iter())
                        .any(|reason| reason.code() == Some("ConditionalCheckFailed")) =>
                {
                    Ok(false)
                }
                _ => Err(ServiceError::new(OPERATION, &error)),
            },
        }
    }
}

/// Builds the request.
///
/// # Errors
///
/// Returns [`BuildError`] if the SDK rejects a part.
pub fn request(padded: &Item, latest: &Item, table: &str) -> Result<TransactWriteItemsInputBuilder, BuildError> {
    let key = |name: &str| padded.get(name).cloned().unwrap_or(AttributeValue::Null(true));
    let put = Put::builder()
        .table_name(table)
        .set_item(Some(latest.clone().into()))
        .condition_expression("attribute_not_exists(#pk)")
        .expression_attribute_names("#pk", names::PK);
    let delete = Delete::builder()
        .table_name(table)
        .key(names::PK, key(names::PK).into())
        .key(names::SK, s(sort_key_of(padded).unwrap_or_default()));
    let delete = match padded.get(names::LATEST) {
        Some(number) => delete
            .condition_expression("#latest = :read")
            .expression_attribute_names("#latest", names::LATEST)
            .expression_attribute_values(":read", number.clone().into()),
        None => delete
            .condition_expression("attribute_exists(#pk) AND attribute_not_exists(#latest)")
            .expression_attribute_names("#pk", names::PK)
            .expression_attribute_names("#latest", names::LATEST),
    };
    Ok(TransactWriteItemsInputBuilder::default()
        .transact_items(TransactWriteItem::builder().put(put.build()?).build())
        .transact_items(TransactWriteItem::builder().delete(delete.build()?).build()))
}
