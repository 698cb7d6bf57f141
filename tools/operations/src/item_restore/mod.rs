//! Puts an old state of an item back into the attached table: one `UpdateItem` or `DeleteItem`, if the item is still as it was
//! read.
//!
//! ```text
//! version N ─▶ newest state ─▶ item, if it is in that state ─▶ plan ─▶ one request, if no attribute that was read has changed
//! ```
//!
//! An attribute that another client adds at the same time stays. The change comes back through the stream as a new version.

pub mod change;

use std::{collections::HashMap, fmt::Write as _};

use aws_sdk_dynamodb::{
    operation::{delete_item::builders::DeleteItemInputBuilder, update_item::builders::UpdateItemInputBuilder},
    types::{AttributeValue as Sent, ReturnValuesOnConditionCheckFailure},
};
use thiserror::Error;

use crate::{
    attached::agreement::{agrees, tail_in_order},
    condition::outcome,
    item_restore::change::{ItemChange, Restore, plan},
    read::attached_items::attached_item,
};
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
        Expressions::new(table, &restore).check()?;
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
pub async fn restore_item(store: &Store, restore: &ItemRestore) -> Result<ItemRestored, ItemRestoreError> {
    let table = store.attached_table().ok_or(ItemRestoreError::NotAttached)?;
    let expressions = Expressions::new(table, restore);
    let (names, values) = expressions.placeholders();
    match &restore.change {
        Restore::Unchanged => Ok(ItemRestored::Unchanged),
        Restore::Delete => {
            let request = DeleteItemInputBuilder::default()
                .table_name(table.table())
                .set_key(Some(restore.key.clone().into()))
                .condition_expression(expressions.condition)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(values)
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
            match outcome("DeleteItem", request.send_with(store.client()).await)? {
                Ok(_) => Ok(ItemRestored::Deleted),
                // The response to an earlier attempt was lost, or another client deleted it.
                Err(None) if attached_item(store, &restore.key).await?.is_none() => Ok(ItemRestored::Deleted),
                Err(_) => Err(ItemRestoreError::Changed),
            }
        }
        Restore::Update(change) => {
            let request = UpdateItemInputBuilder::default()
                .table_name(table.table())
                .set_key(Some(restore.key.clone().into()))
                // An item of key attributes only is created without an expression.
                .set_update_expression(Some(expressions.update).filter(|update| !update.is_empty()))
                .condition_expression(expressions.condition)
                .set_expression_attribute_names(names)
                .set_expression_attribute_values(values)
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
            match outcome("UpdateItem", request.send_with(store.client()).await)? {
                Ok(_) => Ok(ItemRestored::Restored),
                // The response to an earlier attempt was lost.
                Err(Some(item)) if change.is_applied(&item) => Ok(ItemRestored::Restored),
                Err(_) => Err(ItemRestoreError::Changed),
            }
        }
    }
}

type Placeholders<T> = Option<HashMap<String, T>>;

/// Expressions of a request, with the names and values of their attributes.
#[derive(Default)]
struct Expressions {
    condition: String,
    update: String,
    /// Greatest number of operators and functions of one expression.
    operators: usize,
    names: Vec<String>,
    values: Vec<AttributeValue>,
}

impl Expressions {
    fn new(table: &AttachedTable, restore: &ItemRestore) -> Self {
        let mut expressions = Self::default();
        expressions.require_unchanged(table, restore);
        if let Restore::Update(change) = &restore.change {
            expressions.apply(change);
        }
        expressions
    }

    /// Adds the condition that the item is as it was read.
    fn require_unchanged(&mut self, table: &AttachedTable, restore: &ItemRestore) {
        let partition_key = self.name(table.keys().next().map_or("", |key| &key.name));
        self.operators = 1;
        let Some(item) = &restore.item else {
            self.condition = format!("attribute_not_exists({partition_key})");
            return;
        };
        self.condition = format!("attribute_exists({partition_key})");
        let attributes = item.iter().filter(|(name, _)| !restore.key.contains_key(*name));
        let mut attributes: Vec<_> = attributes.collect();
        attributes.sort_unstable_by_key(|(name, _)| *name);
        self.operators += 2 * attributes.len();
        for (name, value) in attributes {
            let (name, value) = (self.name(name), self.value(value));
            let _ = write!(self.condition, " AND {name} = {value}");
        }
    }

    /// Adds the update of the item.
    fn apply(&mut self, change: &ItemChange) {
        let mut set: Vec<_> = Vec::new();
        for (name, value) in &change.set {
            set.push(format!("{} = {}", self.name(name), self.value(value)));
        }
        if let Some((name, number)) = &change.counted {
            let (name, number) = (self.name(name), self.value(number));
            let one = self.value(&AttributeValue::N("1".to_owned()));
            set.push(format!("{name} = {number} + {one}"));
        }
        let removed: Vec<_> = change.removed.iter().map(|name| self.name(name)).collect();
        let operators = set.len() + removed.len() + usize::from(change.counted.is_some());
        self.operators = self.operators.max(operators);
        let clauses = [("SET", set), ("REMOVE", removed)].into_iter();
        let clauses = clauses.filter(|(_, actions)| !actions.is_empty());
        let clauses: Vec<_> = clauses
            .map(|(clause, actions)| format!("{clause} {}", actions.join(", ")))
            .collect();
        self.update = clauses.join(" ");
    }

    fn name(&mut self, name: &str) -> String {
        let known = self.names.iter().position(|known| known == name);
        let index = known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        format!("#{index}")
    }

    fn value(&mut self, value: &AttributeValue) -> String {
        self.values.push(value.clone());
        format!(":{}", self.values.len() - 1)
    }

    /// Returns the names and values by their placeholders. `None` without values.
    fn placeholders(&self) -> (Placeholders<String>, Placeholders<Sent>) {
        let names = (0..).zip(&self.names);
        let names = names.map(|(index, name): (usize, _)| (format!("#{index}"), name.clone()));
        let values = (0..).zip(&self.values);
        let values = values.map(|(index, value): (usize, _)| (format!(":{index}"), value.clone().into()));
        let values: HashMap<_, _> = values.collect();
        (Some(names.collect()), Some(values).filter(|values| !values.is_empty()))
    }

    fn check(&self) -> Result<(), ItemRestoreError> {
        let (operators, bytes) = (self.operators, self.condition.len().max(self.update.len()));
        match operators > MAX_OPERATORS || bytes > MAX_EXPRESSION_BYTES {
            true => Err(ItemRestoreError::TooManyAttributes { operators, bytes }),
            false => Ok(()),
        }
    }
}
