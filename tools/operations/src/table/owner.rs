//! Changes of the [owner](shared::dynamodb::read::history_owner) of a history table.

use aws_sdk_dynamodb::operation::{
    delete_item::builders::DeleteItemInputBuilder, put_item::builders::PutItemInputBuilder,
};
use shared::{
    domain::{
        Item,
        keys::{partition_key_of, sort_key_of},
        names,
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        read::{
            history_owner::{HISTORY_TABLE_ID, Owner, SORT_KEY},
            table_config::{PARTITION_KEY, TABLE_ID, TABLE_NAME},
            table_identity::TableIdentity,
        },
        s,
    },
};

use crate::condition::outcome;

/// Stores the owner of a history table if it is still what was read. Returns `false` if it is not.
pub(super) async fn store_owner(history: &Store, owner: &Owner, read: Option<&Owner>) -> Result<bool, ServiceError> {
    let request = put_request(owner, read, history.latest_table());
    Ok(outcome("PutItem", request.send_with(history.client()).await)?.is_ok())
}

/// Deletes the owner of a history table if it is this one. Without the table, there is nothing to delete.
pub(super) async fn delete_owner(history: &Store, owner: &TableIdentity) -> Result<(), ServiceError> {
    let request = delete_request(owner, history.latest_table());
    match outcome("DeleteItem", request.send_with(history.client()).await) {
        Err(error) if error.code.as_deref() != Some("ResourceNotFoundException") => Err(error),
        _ => Ok(()),
    }
}

/// Returns `true` for the item of an owner.
pub(super) fn is_owner(item: &Item) -> bool {
    partition_key_of(item) == Some(PARTITION_KEY) && sort_key_of(item) == Some(SORT_KEY)
}

/// Builds the request that stores an owner if the stored one is still what was read.
pub(crate) fn put_request(owner: &Owner, read: Option<&Owner>, table: &str) -> PutItemInputBuilder {
    let request = PutItemInputBuilder::default()
        .table_name(table)
        .set_item(Some(owner.item().into()))
        .expression_attribute_names("#id", TABLE_ID)
        .expression_attribute_names("#history", HISTORY_TABLE_ID);
    match read {
        Some(read) => request
            .condition_expression("#id = :id AND #history = :history")
            .expression_attribute_values(":id", s(&read.table.id))
            .expression_attribute_values(":history", s(&read.history_id)),
        None => request
            .condition_expression(
                "NOT (attribute_type(#id, :text) AND attribute_type(#name, :text) AND attribute_type(#history, :text))",
            )
            .expression_attribute_names("#name", TABLE_NAME)
            .expression_attribute_values(":text", s("S")),
    }
}

/// Builds the request that deletes an owner.
pub(crate) fn delete_request(owner: &TableIdentity, table: &str) -> DeleteItemInputBuilder {
    DeleteItemInputBuilder::default()
        .table_name(table)
        .key(names::PK, s(PARTITION_KEY))
        .key(names::SK, s(SORT_KEY))
        .condition_expression("#id = :id")
        .expression_attribute_names("#id", TABLE_ID)
        .expression_attribute_values(":id", s(&owner.id))
}
