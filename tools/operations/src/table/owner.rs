//! Changes of the [owner](shared::dynamodb::read::history_owner) of a history table.

use shared::{
    domain::{Item, keys::partition_key_of},
    dynamodb::{
        Store,
        client::error::ServiceError,
        expression::Expression,
        key,
        read::{
            history_owner::{HISTORY_TABLE_ID, Owner, SORT_KEY},
            table_config::{PARTITION_KEY, TABLE_ID, TABLE_NAME},
            table_identity::TableIdentity,
        },
        s,
        write::Write,
    },
};

/// Stores the owner of a history table if it is still what was read. Returns `false` if it is not.
pub(crate) async fn store_owner(history: &Store, owner: &Owner, read: Option<&Owner>) -> Result<bool, ServiceError> {
    let mut unchanged = Expression::default();
    unchanged.name("#id", TABLE_ID).name("#history", HISTORY_TABLE_ID);
    match read {
        Some(read) => unchanged
            .condition("#id = :id AND #history = :history")
            .value(":id", s(&read.table.id))
            .value(":history", s(&read.history_id)),
        None => unchanged
            .condition(
                "NOT (attribute_type(#id, :text) AND attribute_type(#name, :text) AND attribute_type(#history, :text))",
            )
            .name("#name", TABLE_NAME)
            .value(":text", s("S")),
    };
    let put = Write::put(history.latest_table(), owner.item(), unchanged);
    Ok(put.send(history.client()).await?.is_ok())
}

/// Deletes the owner of a history table if it is this one. Without the table, there is nothing to delete.
pub(crate) async fn delete_owner(history: &Store, owner: &TableIdentity) -> Result<(), ServiceError> {
    let mut own = Expression::default();
    own.condition("#id = :id")
        .name("#id", TABLE_ID)
        .value(":id", s(&owner.id));
    let delete = Write::delete(history.latest_table(), key(PARTITION_KEY, SORT_KEY), own);
    match delete.send(history.client()).await {
        Err(error) if error.code.as_deref() != Some("ResourceNotFoundException") => Err(error),
        _ => Ok(()),
    }
}

/// Returns `true` for the owner of a history table, and for the time of its index, which belong to this table only.
pub(super) fn is_setting(item: &Item) -> bool {
    partition_key_of(item) == Some(PARTITION_KEY)
}
