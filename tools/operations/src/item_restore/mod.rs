//! Puts an old state of an item back into the attached table: one `UpdateItem` or `DeleteItem`, if the item is still as it was
//! read.
//!
//! ```text
//! version N ─▶ newest state ─▶ item, if it is in that state ─▶ plan ─▶ one request, if no attribute that was read has changed
//! ```
//!
//! An attribute that another client adds at the same time stays. The change comes back through the stream as a new version.

pub mod change;

use std::fmt::Write as _;

use aws_sdk_dynamodb::{
    operation::{
        delete_item::{DeleteItemError, builders::DeleteItemInputBuilder},
        update_item::{UpdateItemError, builders::UpdateItemInputBuilder},
    },
    types::ReturnValuesOnConditionCheckFailure,
};
use thiserror::Error;

use crate::item_restore::change::{ItemChange, Restore, plan};
use shared::{
    domain::{
        self, Item,
        attached::{
            AttachedTable,
            decision::{Tail, agrees},
            item::{KnownState, Recorded},
        },
        entity::EntityId,
        version::Version,
    },
    dynamodb::{Store, client::error::ServiceError},
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
    pub(crate) change: Restore,
}

/// Outcome of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemRestored {
    /// The item was changed, or created again.
    Restored,
    /// The item was deleted.
    Deleted,
    /// The item was in the old state already.
    Unchanged,
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

impl ItemRestore {
    /// Returns the planned change.
    pub fn change(&self) -> &Restore {
        &self.change
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
    let mut tail = Tail::default();
    let newest = loop {
        store.extend_tail(entity, &mut tail, true).await?;
        let newest = tail.last();
        if newest.is_some() || tail.is_complete {
            break newest.map(|newest| newest.state.clone());
        }
    };
    let newest = newest.ok_or(ItemRestoreError::NoVersion)?;
    let item = crate::read::attached_items::attached_item(store, &key).await?;
    if !agrees(&newest, item.as_ref(), table.ignored()) {
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
    check_limits(table, &restore)?;
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
pub async fn restore_item(store: &Store, restore: &ItemRestore) -> Result<ItemRestored, ItemRestoreError> {
    let table = store.attached_table().ok_or(ItemRestoreError::NotAttached)?;
    match &restore.change {
        Restore::Unchanged => Ok(ItemRestored::Unchanged),
        Restore::Delete => {
            let request = delete_request(table, restore);
            match request.send_with(store.client()).await {
                Ok(_) => Ok(ItemRestored::Deleted),
                Err(error) => match error.as_service_error() {
                    // The response to an earlier attempt was lost, or another client deleted it.
                    Some(DeleteItemError::ConditionalCheckFailedException(failed)) => match &failed.item {
                        None => deleted(store, restore).await,
                        Some(_) => Err(ItemRestoreError::Changed),
                    },
                    _ => Err(ServiceError::new("DeleteItem", &error).into()),
                },
            }
        }
        Restore::Update(change) => {
            let request = update_request(table, restore, change);
            match request.send_with(store.client()).await {
                Ok(_) => Ok(ItemRestored::Restored),
                Err(error) => match error.as_service_error() {
                    Some(UpdateItemError::ConditionalCheckFailedException(failed)) => {
                        let item = failed.item.clone().map(Item::from);
                        // The response to an earlier attempt was lost.
                        match item.is_some_and(|item| change.is_applied(&item)) {
                            true => Ok(ItemRestored::Restored),
                            false => Err(ItemRestoreError::Changed),
                        }
                    }
                    _ => Err(ServiceError::new("UpdateItem", &error).into()),
                },
            }
        }
    }
}

async fn deleted(store: &Store, restore: &ItemRestore) -> Result<ItemRestored, ItemRestoreError> {
    match crate::read::attached_items::attached_item(store, &restore.key).await? {
        None => Ok(ItemRestored::Deleted),
        Some(_) => Err(ItemRestoreError::Changed),
    }
}

/// Expression with its number of operators and functions.
#[derive(Default)]
struct Expression {
    text: String,
    operators: usize,
}

/// Names and values of the attributes in the expressions of a request.
#[derive(Default)]
struct Placeholders {
    names: Vec<(String, String)>,
    values: Vec<(String, domain::AttributeValue)>,
}

impl Placeholders {
    fn name(&mut self, name: &str) -> String {
        if let Some((placeholder, _)) = self.names.iter().find(|(_, known)| known == name) {
            return placeholder.clone();
        }
        let placeholder = format!("#{}", self.names.len());
        self.names.push((placeholder.clone(), name.to_owned()));
        placeholder
    }

    fn value(&mut self, value: &domain::AttributeValue) -> String {
        let placeholder = format!(":{}", self.values.len());
        self.values.push((placeholder.clone(), value.clone()));
        placeholder
    }
}

/// Returns the condition that the item is as it was read.
fn condition(table: &AttachedTable, restore: &ItemRestore, placeholders: &mut Placeholders) -> Expression {
    let partition_key = table.keys().next().map_or("", |key| &key.name);
    let partition_key = placeholders.name(partition_key);
    let Some(item) = &restore.item else {
        return Expression {
            text: format!("attribute_not_exists({partition_key})"),
            operators: 1,
        };
    };
    let mut attributes: Vec<_> = item
        .iter()
        .filter(|(name, _)| !restore.key.contains_key(*name))
        .collect();
    attributes.sort_unstable_by_key(|(name, _)| *name);
    let mut condition = Expression {
        text: format!("attribute_exists({partition_key})"),
        operators: 1 + 2 * attributes.len(),
    };
    for (name, value) in attributes {
        let (name, value) = (placeholders.name(name), placeholders.value(value));
        let _ = write!(condition.text, " AND {name} = {value}");
    }
    condition
}

/// Returns the update of the item.
fn update(change: &ItemChange, placeholders: &mut Placeholders) -> Expression {
    let mut set: Vec<_> = Vec::new();
    for (name, value) in &change.set {
        set.push(format!("{} = {}", placeholders.name(name), placeholders.value(value)));
    }
    if let Some((name, number)) = &change.counted {
        let (name, number) = (placeholders.name(name), placeholders.value(number));
        let one = placeholders.value(&domain::AttributeValue::N("1".to_owned()));
        set.push(format!("{name} = {number} + {one}"));
    }
    let removed: Vec<_> = change.removed.iter().map(|name| placeholders.name(name)).collect();
    let clauses = [("SET", &set), ("REMOVE", &removed)];
    let clauses = clauses.into_iter().filter(|(_, actions)| !actions.is_empty());
    let clauses: Vec<_> = clauses
        .map(|(clause, actions)| format!("{clause} {}", actions.join(", ")))
        .collect();
    Expression {
        text: clauses.join(" "),
        operators: set.len() + removed.len() + usize::from(change.counted.is_some()),
    }
}

fn check_limits(table: &AttachedTable, restore: &ItemRestore) -> Result<(), ItemRestoreError> {
    let mut placeholders = Placeholders::default();
    let condition = condition(table, restore, &mut placeholders);
    let update = match &restore.change {
        Restore::Unchanged => return Ok(()),
        Restore::Delete => Expression::default(),
        Restore::Update(change) => update(change, &mut placeholders),
    };
    let operators = condition.operators.max(update.operators);
    let bytes = condition.text.len().max(update.text.len());
    match operators > MAX_OPERATORS || bytes > MAX_EXPRESSION_BYTES {
        true => Err(ItemRestoreError::TooManyAttributes { operators, bytes }),
        false => Ok(()),
    }
}

/// Builds the request that changes the item, or creates it again.
fn update_request(table: &AttachedTable, restore: &ItemRestore, change: &ItemChange) -> UpdateItemInputBuilder {
    let mut placeholders = Placeholders::default();
    let condition = condition(table, restore, &mut placeholders);
    let update = update(change, &mut placeholders);
    let mut request = UpdateItemInputBuilder::default()
        .table_name(table.table())
        .set_key(Some(restore.key.clone().into()))
        .condition_expression(condition.text)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    // An item of key attributes only is created without an expression.
    if !update.text.is_empty() {
        request = request.update_expression(update.text);
    }
    for (placeholder, name) in placeholders.names {
        request = request.expression_attribute_names(placeholder, name);
    }
    for (placeholder, value) in placeholders.values {
        request = request.expression_attribute_values(placeholder, value.into());
    }
    request
}

/// Builds the request that deletes the item.
fn delete_request(table: &AttachedTable, restore: &ItemRestore) -> DeleteItemInputBuilder {
    let mut placeholders = Placeholders::default();
    let condition = condition(table, restore, &mut placeholders);
    let mut request = DeleteItemInputBuilder::default()
        .table_name(table.table())
        .set_key(Some(restore.key.clone().into()))
        .condition_expression(condition.text)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    for (placeholder, name) in placeholders.names {
        request = request.expression_attribute_names(placeholder, name);
    }
    for (placeholder, value) in placeholders.values {
        request = request.expression_attribute_values(placeholder, value.into());
    }
    request
}
