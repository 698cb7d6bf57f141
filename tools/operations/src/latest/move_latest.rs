//! Repair of a latest item at a padded key, such as `v00`: one transaction that puts it at `v0` and deletes it there.

use std::fmt::Write as _;

use aws_sdk_dynamodb::{
    error::BuildError,
    operation::transact_write_items::builders::TransactWriteItemsInputBuilder,
    types::{Delete, Put, TransactWriteItem},
};
use shared::{
    domain::{AttributeValue, Item, keys::sort_key_of, names},
    dynamodb::{Store, cancellation, client::error::ServiceError, s},
};

const OPERATION: &str = "TransactWriteItems";
/// Maximum number of attributes that are compared: an expression is at most 4 KB long.
const MAX_COMPARED: usize = 250;

/// Moves a latest item, on condition that its counter has not changed and that there is none at `v0`. Returns `false` if a
/// condition failed.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn move_latest(store: &Store, padded: &Item, latest: &Item) -> Result<bool, ServiceError> {
    store.check_writable(OPERATION)?;
    let request = request(padded, latest, store.latest_table()).map_err(|_| ServiceError::not_built(OPERATION))?;
    match request.send_with(store.client()).await {
        Ok(_) => Ok(true),
        Err(error) if cancellation::condition_failed(&error) => Ok(false),
        Err(error) => Err(ServiceError::new(OPERATION, &error)),
    }
}

fn request(padded: &Item, latest: &Item, table: &str) -> Result<TransactWriteItemsInputBuilder, BuildError> {
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
    let delete = delete.expression_attribute_names("#latest", names::LATEST);
    let delete = if let Some(number) = padded.get(names::LATEST) {
        delete
            .condition_expression("#latest = :read")
            .expression_attribute_values(":read", number.clone().into())
    } else {
        // Without a counter, a change by another program shows only in the attributes.
        let mut condition = "attribute_exists(#pk) AND attribute_not_exists(#latest)".to_owned();
        let mut delete = delete.expression_attribute_names("#pk", names::PK);
        let others = padded
            .iter()
            .filter(|(name, _)| ![names::PK, names::SK].contains(&name.as_str()));
        for (index, (name, value)) in others.take(MAX_COMPARED).enumerate() {
            let _ = write!(condition, " AND #{index}=:{index}");
            delete = delete
                .expression_attribute_names(format!("#{index}"), name)
                .expression_attribute_values(format!(":{index}"), value.clone().into());
        }
        delete.condition_expression(condition)
    };
    Ok(TransactWriteItemsInputBuilder::default()
        .transact_items(TransactWriteItem::builder().put(put.build()?).build())
        .transact_items(TransactWriteItem::builder().delete(delete.build()?).build()))
}
