//! Puts an old state of an item back into the attached table: one `UpdateItem` or `DeleteItem`, if the item is still as it was
//! read.
//!
//! ```text
//! version N ─▶ newest state ─▶ item, if it is in that state ─▶ plan ─▶ one request, if no attribute that was read has changed
//! ```
//!
//! An attribute that another client adds at the same time stays. The change comes back through the stream as a new version.

pub mod change;

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
    dynamodb::{
        Store,
        client::error::ServiceError,
        expression::{Expression, MAX_BYTES, MAX_OPERATORS},
        n,
        write::Write,
    },
};

use crate::{
    error::OperationError,
    item_restore::change::{Restore, plan},
    read::attached_items::attached_item,
};

/// Restore of an item that is ready to be sent.
#[derive(Clone)]
pub struct ItemRestore {
    pub(crate) key: Item,
    /// Item in the table.
    pub(crate) item: Option<Item>,
    /// Change of the item, and its outcome.
    pub change: Restore,
}

/// Reads an item and its history, and plans the restore of a version. `key` has the key attributes of the item.
///
/// # Errors
///
/// Returns [`OperationError::NoVersion`] without such a version, [`OperationError::Omitted`] if it has no state,
/// [`OperationError::Differs`] if the item is not in its newest state in history, [`OperationError::TooManyConditions`] if one request
/// cannot make the change, and [`OperationError::Service`] if a request fails.
pub async fn plan_item_restore(
    store: &Store,
    entity: &EntityId,
    key: Item,
    version: Version,
) -> Result<ItemRestore, OperationError> {
    let table = store.attached_table().ok_or(OperationError::NotAttached)?;
    let sort_key = store.digits().version_key(version);
    let old = store.get(entity, &sort_key, true).await?.and_then(Recorded::of_flat);
    let old = match old.ok_or(OperationError::NoVersion)?.state {
        KnownState::Item(item) => Some(item),
        KnownState::Deleted => None,
        KnownState::Unknown => return Err(OperationError::Omitted),
    };
    let mut tail = tail_in_order(store, entity, true).await?;
    let newest = tail.last().ok_or(OperationError::NoVersion)?;
    let item = attached_item(store, &key).await?;
    if !agrees(&newest.state, item.as_ref(), table.ignored()) {
        return Err(OperationError::Differs);
    }
    let last = match (&item, &old, table.version_attribute()) {
        (None, Some(_), Some(_)) => last_state(store, entity, &mut tail).await?,
        _ => None,
    };
    let change = plan(table, old.as_ref(), item.as_ref(), last.as_ref());
    let restore = ItemRestore { key, item, change };
    let (operators, bytes) = (restore.operators(), restore.expression(table).bytes());
    match restore.change {
        Restore::Delete | Restore::Update(_) if operators > MAX_OPERATORS || bytes > MAX_BYTES => {
            Err(OperationError::TooManyConditions { operators, bytes })
        }
        _ => Ok(restore),
    }
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
/// Returns [`OperationError::Changed`] if another client changed the item since it was read, and [`OperationError::Service`] if the
/// request fails.
pub async fn restore_item(store: &Store, restore: &ItemRestore) -> Result<(), OperationError> {
    let table = store.attached_table().ok_or(OperationError::NotAttached)?;
    let (key, expression) = (restore.key.clone(), restore.expression(table));
    let write = match restore.change {
        Restore::Unchanged => return Ok(()),
        Restore::Delete => Write::delete(table.table(), key, expression),
        // An item of key attributes only is created without an update expression.
        Restore::Update(_) => Write::update(table.table(), key, expression),
    };
    let Err(failed) = write.send(store.client()).await? else {
        return Ok(());
    };
    // The response to an earlier attempt was lost, or another client made the same change.
    let is_done = match (&restore.change, failed.stored) {
        (Restore::Update(change), Some(item)) => change.is_applied(&item),
        (Restore::Delete, None) => attached_item(store, &restore.key).await?.is_none(),
        _ => false,
    };
    is_done.then_some(()).ok_or(OperationError::Changed)
}

impl ItemRestore {
    /// Returns the change, on condition that the item is as it was read.
    fn expression(&self, table: &AttachedTable) -> Expression {
        let mut expression = Expression::default();
        expression.name("#pk", table.keys().next().map_or("", |key| &key.name));
        expression.condition(match self.item {
            Some(_) => "attribute_exists(#pk)",
            None => "attribute_not_exists(#pk)",
        });
        let mut compared: Vec<_> = self.compared().collect();
        compared.sort_unstable_by_key(|(name, _)| *name);
        expression.compare(compared);
        if let Restore::Update(change) = &self.change {
            expression.changes(&change.changes);
            if let Some((name, number)) = &change.counted {
                expression
                    .set("#n=:n+:one")
                    .name("#n", name)
                    .value(":n", number.clone().into())
                    .value(":one", n(1));
            }
        }
        expression
    }

    /// Returns the attributes that must not have changed.
    fn compared(&self) -> impl Iterator<Item = (&String, &AttributeValue)> {
        let attributes = self.item.iter().flat_map(|item| item.iter());
        attributes.filter(|(name, _)| !self.key.contains_key(*name))
    }

    /// Returns the number of operators and functions of the longer expression.
    fn operators(&self) -> usize {
        let changed = match &self.change {
            Restore::Update(change) => change.changes.len() + 2 * usize::from(change.counted.is_some()),
            Restore::Unchanged | Restore::Delete => 0,
        };
        changed.max(1 + 2 * self.compared().count())
    }
}
