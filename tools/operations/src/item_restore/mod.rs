//! Puts an old state of an item back into the attached table: one `UpdateItem` or `DeleteItem`, if the item is still as it was
//! read.
//!
//! ```text
//! version N ─▶ newest state ─▶ item, if it is in that state ─▶ plan ─▶ one request, if no attribute that was read has changed
//! ```
//!
//! An attribute that another client adds at the same time stays. The change comes back through the stream as a new version.

pub mod change;

use std::collections::BTreeMap;

use aws_sdk_dynamodb::{
    operation::{delete_item::builders::DeleteItemInputBuilder, update_item::builders::UpdateItemInputBuilder},
    types::ReturnValuesOnConditionCheckFailure,
};
use thiserror::Error;

use crate::{
    condition::outcome,
    item_restore::change::{Restore, plan},
    read::attached_items::attached_item,
};
use attach::agreement::{agrees, tail_in_order};
use shared::{
    domain::{
        AttributeValue, Item,
        attached::{
            AttachedTable,
            decision::Tail,
            item::{KnownState, Recorded},
        },
        entity::EntityId,
        version::Version,
    },
    dynamodb::{Store, client::error::ServiceError, expression::Expression, n},
};

/// Maximum length of an expression in bytes, see
/// [Constraints](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html#limits-expression-parameters).
pub const MAX_EXPRESSION_BYTES: usize = 4096;
/// Maximum number of operators and functions in an expression.
pub const MAX_OPERATORS: usize = 300;

/// Restore of an item that is ready to be sent.
#[derive(Clone)]
pub struct ItemRestore {
    pub(crate) key: Item,
    /// Item in the table.
    pub(crate) item: Option<Item>,
    /// Change of the item, and its outcome.
    pub change: Restore,
}

/// Reason why an item was not restored. No message contains a value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ItemRestoreError {
    /// The table is not attached.
    #[error("the table is not attached")]
    NotAttached,
    /// History does not have the version.
    #[error("there is no such version")]
    NoVersion,
    /// The version does not have the state of the item.
    #[error("the version has no state, because it did not fit: its record is in quarantine")]
    Omitted,
    /// The item is not in its newest state in history.
    #[error("the item differs from its newest version: its last change is not in history yet, or is missing there")]
    Differs,
    /// Another client changed the item after it was read.
    #[error("another client changed the item in the meantime, nothing is restored")]
    Changed,
    /// The item has too many attributes for one conditional request.
    #[error(
        "the restore needs {operators} operators and an expression of {bytes} bytes, and {MAX_OPERATORS} and \
         {MAX_EXPRESSION_BYTES} are allowed: the item has too many attributes"
    )]
    TooManyAttributes {
        /// Number of operators.
        operators: usize,
        /// Length of the expression.
        bytes: usize,
    },
    /// A request failed.
    #[error("failed to read or write the item")]
    Service(#[from] ServiceError),
}

// The item holds attribute values, which logs must not contain.
impl std::fmt::Debug for ItemRestore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ItemRestore").finish_non_exhaustive()
    }
}

/// Reads an item and its history, and plans the restore of a version. `key` has the key attributes of the item.
///
/// # Errors
///
/// Returns [`ItemRestoreError::NoVersion`] without such a version, [`ItemRestoreError::Omitted`] if it has no state, [`ItemRestoreError::Differs`] if the item is not in its
/// newest state in history, [`ItemRestoreError::TooManyAttributes`] if one request cannot make the change, and
/// [`ItemRestoreError::Service`] if a request fails.
pub async fn plan_item_restore(
    store: &Store,
    entity: &EntityId,
    key: Item,
    version: Version,
) -> Result<ItemRestore, ItemRestoreError> {
    let table = store.attached_table().ok_or(ItemRestoreError::NotAttached)?;
    let sort_key = store.digits().version_key(version);
    let old = store.get(entity, &sort_key, true).await?.and_then(Recorded::of_flat);
    let old = match old.ok_or(ItemRestoreError::NoVersion)?.state {
        KnownState::Item(item) => Some(item),
        KnownState::Deleted => None,
        KnownState::Unknown => return Err(ItemRestoreError::Omitted),
    };
    let mut tail = tail_in_order(store, entity, true).await?;
    let newest = tail.last().ok_or(ItemRestoreError::NoVersion)?;
    let item = attached_item(store, &key).await?;
    if !agrees(&newest.state, item.as_ref(), table.ignored()) {
        return Err(ItemRestoreError::Differs);
    }
    let last = match (&item, &old, table.version_attribute()) {
        (None, Some(_), Some(_)) => last_state(store, entity, &mut tail).await?,
        _ => None,
    };
    let restore = ItemRestore {
        change: plan(table, old.as_ref(), item.as_ref(), last.as_ref()),
        key,
        item,
    };
    if restore.change != Restore::Unchanged {
        check(table, &restore)?;
    }
    Ok(restore)
}

/// Reads the last state in which an item existed.
async fn last_state(store: &Store, entity: &EntityId, tail: &mut Tail) -> Result<Option<Item>, ServiceError> {
    loop {
        let last = tail.in_order().find_map(|version| version.state.item());
        if last.is_some() || tail.is_complete {
            return Ok(last.cloned());
        }
        store.extend_tail(entity, tail, true).await?;
    }
}

/// Sends a planned restore.
///
/// # Errors
///
/// Returns [`ItemRestoreError::Changed`] if another client changed the item since it was read, and
/// [`ItemRestoreError::Service`] if the request fails.
pub async fn restore_item(store: &Store, restore: &ItemRestore) -> Result<(), ItemRestoreError> {
    let table = store.attached_table().ok_or(ItemRestoreError::NotAttached)?;
    let update = request(table, restore);
    match &restore.change {
        Restore::Unchanged => Ok(()),
        Restore::Delete => {
            let request = DeleteItemInputBuilder::default()
                .table_name(table.table())
                .set_key(update.get_key().clone())
                .set_condition_expression(update.get_condition_expression().clone())
                .set_expression_attribute_names(update.get_expression_attribute_names().clone())
                .set_expression_attribute_values(update.get_expression_attribute_values().clone())
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
            match outcome("DeleteItem", request.send_with(store.client()).await)? {
                Ok(_) => Ok(()),
                // The response to an earlier attempt was lost, or another client deleted it.
                Err(None) if attached_item(store, &restore.key).await?.is_none() => Ok(()),
                Err(_) => Err(ItemRestoreError::Changed),
            }
        }
        Restore::Update(change) => match outcome("UpdateItem", update.send_with(store.client()).await)? {
            Ok(_) => Ok(()),
            // The response to an earlier attempt was lost.
            Err(Some(item)) if change.is_applied(&item) => Ok(()),
            Err(_) => Err(ItemRestoreError::Changed),
        },
    }
}

/// Builds the request that changes the item, on condition that it is as it was read.
fn request(table: &AttachedTable, restore: &ItemRestore) -> UpdateItemInputBuilder {
    let mut expression = Expression::default();
    expression.name("#pk", table.keys().next().map_or("", |key| &key.name));
    expression.condition(match restore.item {
        Some(_) => "attribute_exists(#pk)",
        None => "attribute_not_exists(#pk)",
    });
    for (index, (name, value)) in compared(restore).into_iter().enumerate() {
        expression
            .condition(format!("#c{index}=:c{index}"))
            .name(format!("#c{index}"), name)
            .value(format!(":c{index}"), value.clone().into());
    }
    if let Restore::Update(change) = &restore.change {
        expression.changes(&change.changes);
        if let Some((name, number)) = &change.counted {
            expression
                .set("#n=:n+:one")
                .name("#n", name)
                .value(":n", number.clone().into())
                .value(":one", n(1));
        }
    }
    let request = UpdateItemInputBuilder::default()
        .table_name(table.table())
        .set_key(Some(restore.key.clone().into()))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    // An item of key attributes only is created without an update expression.
    expression.apply_to_request(request)
}

/// Returns the attributes that must not have changed, in the order of their names.
fn compared(restore: &ItemRestore) -> BTreeMap<&String, &AttributeValue> {
    let attributes = restore.item.iter().flat_map(|item| item.iter());
    attributes
        .filter(|(name, _)| !restore.key.contains_key(*name))
        .collect()
}

/// Checks that DynamoDB accepts the expressions of a restore.
fn check(table: &AttachedTable, restore: &ItemRestore) -> Result<(), ItemRestoreError> {
    let request = request(table, restore);
    let length = |expression: &Option<String>| expression.as_ref().map_or(0, String::len);
    let bytes = length(request.get_condition_expression()).max(length(request.get_update_expression()));
    let changed = match &restore.change {
        Restore::Update(change) => change.changes.len() + 2 * usize::from(change.counted.is_some()),
        Restore::Unchanged | Restore::Delete => 0,
    };
    let operators = changed.max(1 + 2 * compared(restore).len());
    match operators > MAX_OPERATORS || bytes > MAX_EXPRESSION_BYTES {
        true => Err(ItemRestoreError::TooManyAttributes { operators, bytes }),
        false => Ok(()),
    }
}
