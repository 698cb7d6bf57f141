//! Change of one item of an attached table: a restore, an undelete, or changes of attributes.
//!
//! Other programs write the table, so a change touches as little as possible, and is made only if the item is as it was read:
//!
//! ```text
//! newest versions, item ─▶ wanted item ─▶ one UpdateItem or DeleteItem, if no attribute that was read has changed
//! ```
//!
//! An attribute that another client adds at the same time stays, if the change does not set it. An undo compares only the attributes that
//! it changes, so those that others change at the same time stay, too. The change comes back through the stream as a new version.

mod wanted;

use std::collections::{BTreeMap, BTreeSet};

use attach::agreement::{agrees, tail_in_order};
use shared::{
    domain::{
        AttributeValue, Item,
        attached::{
            AttachedTable,
            decision::{Tail, is_same},
            item::{KnownState, Recorded},
            key,
        },
        attributes::same_value,
        change::Change,
        entity::EntityId,
        erased::{Erased, keep},
        version::Version,
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        expression::{Expression, MAX_BYTES, MAX_OPERATORS},
        write::Write,
    },
};

use crate::{error::OperationError, read::attached_items::attached_item, table::settings::ttl};

/// Changes of attributes, which can depend on the item, or the reason why there are none.
pub type ChangesOf<'a> = dyn Fn(Option<&Item>) -> Result<BTreeMap<String, Change>, String> + Send + Sync + 'a;

/// State that an item gets.
#[derive(Clone, Copy)]
pub enum Wanted<'a> {
    /// The state of a version. That of a tombstone deletes the item.
    Version(Version),
    /// The last state before the item was deleted.
    BeforeDeletion,
    /// This state, as if it were that of a version. `None` deletes the item.
    State(Option<&'a Item>),
    /// The item with these changes. An item that does not exist is created.
    Changed(&'a ChangesOf<'a>),
}

/// Options of a change of an item.
#[derive(Debug, Clone, Default)]
pub struct ItemOptions {
    /// Author of the change. A deleted item has none.
    pub actor: Option<String>,
    pub reason: Option<String>,
    /// Set of changes to which the change belongs.
    pub change_set: Option<String>,
    /// `true` to set a time to live that has passed.
    pub allow_expired: bool,
    /// `true` to compare only the attributes that change in an item that exists, and the version attribute, so that other clients can
    /// change the others at the same time.
    pub only_changed: bool,
}

/// Change of an item that is ready to be sent.
#[derive(Clone)]
pub struct ItemChange {
    pub(crate) key: Item,
    /// Item in the table, `None` if it does not exist.
    pub item: Option<Item>,
    /// Item after the change, `None` if it is deleted.
    pub wanted: Option<Item>,
    /// Newest version in history before the change, 0 if there is none.
    pub(crate) newest: u64,
    /// `true` to compare only the attributes that change, and the version attribute.
    pub(crate) only_changed: bool,
    /// Values that were erased from the version that is restored. They stay as they are in the item.
    pub erased: Erased,
}

/// Reads an item and its history, and plans a change. `key` has the key attributes of the item.
///
/// # Errors
///
/// - [`OperationError::NoVersion`]: history has no such version, or none at all.
/// - [`OperationError::Omitted`]: the version has no state.
/// - [`OperationError::NothingBefore`]: history has only tombstones.
/// - [`OperationError::Differs`]: the item is not in its newest state in history.
/// - [`OperationError::Refused`]: the item to undelete exists.
/// - [`OperationError::Expired`]: the item would expire at once, which the options can allow.
/// - [`OperationError::Invalid`]: the changes are not for this item, its table has no attribute for the author, the reason or the change
///   set, or one request cannot make them.
/// - [`OperationError::Service`]: a request fails.
pub async fn plan_item_change(
    store: &Store,
    key: Item,
    wanted: Wanted<'_>,
    options: &ItemOptions,
) -> Result<ItemChange, OperationError> {
    let table = store.attached_table().ok_or(OperationError::NotAttached)?;
    let attribution = options.attribution(table)?;
    let entity = key::of_item(table, &key)?;
    let mut erased = Erased::default();
    let old = match wanted {
        Wanted::Version(version) => {
            let old = store.get(&entity, &store.digits().version_key(version), true).await?;
            let old = old.and_then(Recorded::of_flat).ok_or(OperationError::NoVersion)?;
            erased = old.erased;
            Some(old.state)
        }
        Wanted::State(state) => Some(state.map_or(KnownState::Deleted, |state| KnownState::Item(state.clone()))),
        Wanted::BeforeDeletion | Wanted::Changed(_) => None,
    };
    let mut tail = tail_in_order(store, &entity, true).await?;
    // Read after history, which is older than the item if they differ.
    let item = attached_item(store, &key).await?;
    let wanted = match wanted {
        Wanted::Changed(changes) => {
            let changes = changes(item.as_ref()).map_err(OperationError::Invalid)?;
            Some(wanted::changed(table, &key, item.as_ref(), &changes)?)
        }
        Wanted::BeforeDeletion if item.is_some() => {
            return Err(OperationError::Refused(
                "the item exists, so there is nothing to undelete: restore a version by its number".to_owned(),
            ));
        }
        Wanted::Version(_) | Wanted::State(_) | Wanted::BeforeDeletion => {
            let state = tail.last().ok_or(OperationError::NoVersion)?;
            if !agrees(state, item.as_ref(), table.ignored()) {
                return Err(OperationError::Differs);
            }
            let (tombstone, newest_erased) = (state.version, state.erased.clone());
            let last = match &item {
                Some(_) => None,
                None => last_state(store, &entity, &mut tail).await?,
            };
            if let (None, Some(last)) = (&old, &last) {
                erased = last.erased.clone();
            }
            let last = last.map(|last| last.state);
            match old.or_else(|| last.clone()) {
                Some(KnownState::Item(mut old)) => {
                    if let Some(item) = &item {
                        // The item can still have what was erased from its history.
                        keep(&mut old, item, erased.paths().chain(newest_erased.paths()));
                    }
                    let last = last.as_ref().and_then(KnownState::item);
                    Some(wanted::restored(table, &key, &old, item.as_ref(), last)?)
                }
                Some(KnownState::Deleted) => None,
                Some(KnownState::Unknown | KnownState::Forgotten) => return Err(OperationError::Omitted),
                None => return Err(OperationError::NothingBefore { tombstone }),
            }
        }
    };
    let mut change = ItemChange {
        key,
        item,
        wanted,
        newest: tail.newest(),
        only_changed: options.only_changed,
        erased: erased.of_attributes(),
    };
    if !change.is_unchanged()
        && let Some(wanted) = &mut change.wanted
    {
        wanted.extend(attribution.into_iter().map(|(_, name, value)| (name, value)));
    }
    if !options.allow_expired {
        change.check_time_to_live(store).await?;
    }
    let (expression, operators) = change.expression(table);
    let bytes = expression.bytes();
    match change.is_unchanged() || (operators <= MAX_OPERATORS && bytes <= MAX_BYTES) {
        true => Ok(change),
        false => Err(OperationError::Invalid(format!(
            "the change needs {operators} operators and an expression of {bytes} bytes, and {MAX_OPERATORS} and {MAX_BYTES} are \
             allowed: the item has too many attributes"
        ))),
    }
}

/// Reads the last state in which an item existed.
async fn last_state(store: &Store, entity: &EntityId, tail: &mut Tail) -> Result<Option<Recorded>, ServiceError> {
    loop {
        let last = tail.in_order().find(|version| version.state != KnownState::Deleted);
        if last.is_some() || tail.is_complete {
            return Ok(last.cloned());
        }
        store.extend_tail(entity, tail, true).await?;
    }
}

/// Sends a planned change.
///
/// # Errors
///
/// Returns [`OperationError::Changed`] if another client changed the item since it was read, and [`OperationError::Service`] if the
/// request fails.
pub async fn change_item(store: &Store, change: &ItemChange) -> Result<(), OperationError> {
    let table = store.attached_table().ok_or(OperationError::NotAttached)?;
    if change.is_unchanged() {
        return Ok(());
    }
    let (key, expression) = (change.key.clone(), change.expression(table).0);
    let write = match change.wanted {
        None => Write::delete(table.table(), key, expression),
        // An item of key attributes only is created without an update expression.
        Some(_) => Write::update(table.table(), key, expression),
    };
    let Err(failed) = write.send(store.client()).await? else {
        return Ok(());
    };
    // The response to an earlier attempt was lost, or another client made the same change.
    let is_done = match (&change.wanted, failed.stored) {
        (Some(wanted), Some(stored)) => {
            let changed = change.attributes();
            let mut names = change.compared(table).into_iter();
            names.all(|name| {
                (failed.was_unanswered && !changed.contains_key(name)) || is_equal(Some(&stored), wanted, name)
            })
        }
        (None, None) => attached_item(store, &change.key).await?.is_none(),
        _ => false,
    };
    is_done.then_some(()).ok_or(OperationError::Changed)
}

/// Returns the number of the version that history has of a change that was sent. `None` if it has none yet.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn recorded_version(
    store: &Store,
    entity: &EntityId,
    change: &ItemChange,
) -> Result<Option<Version>, ServiceError> {
    let (tail, attributes) = (tail_in_order(store, entity, true).await?, change.attributes());
    let mut newer = tail.in_order().filter(|version| version.version.get() > change.newest);
    // Another client can have added attributes.
    let recorded = newer.find(|version| match (&version.state, &change.wanted) {
        (KnownState::Item(state), Some(wanted)) => attributes.keys().all(|name| is_equal(Some(state), wanted, name)),
        (state, wanted) => wanted.is_none() == (*state == KnownState::Deleted),
    });
    Ok(recorded.map(|version| version.version))
}

impl ItemOptions {
    /// Returns the attributes of an item that have the author, the reason and the change set, each after the option of its value.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::Invalid`] for a value that the items have no attribute for.
    pub fn attribution(
        &self,
        table: &AttachedTable,
    ) -> Result<Vec<(&'static str, String, AttributeValue)>, OperationError> {
        let (settings, name) = (table.settings(), table.table());
        let values = [
            ("--actor", &self.actor, &settings.actor_attribute),
            ("--reason", &self.reason, &settings.reason_attribute),
            ("--change-set", &self.change_set, &settings.change_set_attribute),
        ];
        let values = values.into_iter().filter_map(|(option, value, attribute)| {
            let value = AttributeValue::S(value.clone()?);
            let missing = format!(
                "{option}: no attribute of the items has it; `vzero attach {name} {option}-attribute NAME` defines one"
            );
            let attribute = attribute.clone().ok_or(OperationError::Invalid(missing));
            Some(attribute.map(|attribute| (option, attribute, value)))
        });
        values.collect()
    }
}

impl ItemChange {
    /// Returns `true` if the item is as it is wanted.
    pub fn is_unchanged(&self) -> bool {
        match (&self.item, &self.wanted) {
            (Some(_), Some(_)) => self.attributes().is_empty(),
            (item, wanted) => item.is_none() && wanted.is_none(),
        }
    }

    /// Returns `true` if the change makes a version: attributes change that are not ignored.
    pub fn makes_version(&self, table: &AttachedTable) -> bool {
        match (&self.item, &self.wanted) {
            (Some(item), Some(wanted)) => !is_same(item, wanted, table.ignored()),
            (item, wanted) => item.is_some() || wanted.is_some(),
        }
    }

    /// Returns the names of all attributes besides the key.
    fn names(&self) -> BTreeSet<&String> {
        let items = self.item.iter().chain(&self.wanted);
        let names = items.flat_map(|item| item.keys());
        names.filter(|name| !self.key.contains_key(*name)).collect()
    }

    /// Returns the names of the attributes that the condition compares.
    fn compared(&self, table: &AttachedTable) -> BTreeSet<&String> {
        let (mut names, changed) = (self.names(), self.attributes());
        if self.only_changed && self.item.is_some() && self.wanted.is_some() {
            names.retain(|name| changed.contains_key(*name) || table.version_attribute() == Some(name));
        }
        names
    }

    /// Returns the changes of attributes, none if the item is deleted.
    fn attributes(&self) -> BTreeMap<String, Change> {
        let Some(wanted) = &self.wanted else {
            return BTreeMap::new();
        };
        let is_other = |name: &&String| !is_equal(self.item.as_ref(), wanted, name);
        let change = |name: &String| match wanted.get(name) {
            Some(value) => (name.clone(), Change::Set(value.clone())),
            None => (name.clone(), Change::Remove),
        };
        self.names().into_iter().filter(is_other).map(change).collect()
    }

    /// Returns the change, on condition that the compared attributes are as they were read, and the number of its operators and functions.
    fn expression(&self, table: &AttachedTable) -> (Expression, usize) {
        let (mut expression, attributes) = (Expression::default(), self.attributes());
        expression.name("#pk", table.keys().next().map_or("", |key| &key.name));
        let Some(item) = &self.item else {
            expression.condition("attribute_not_exists(#pk)").changes(&attributes);
            return (expression, attributes.len().max(1));
        };
        expression.condition("attribute_exists(#pk)");
        let (known, new): (Vec<_>, Vec<_>) = self
            .compared(table)
            .into_iter()
            .partition(|name| item.contains_key(*name));
        expression.compare(known.iter().filter_map(|name| Some((*name, item.get(*name)?))));
        for (index, name) in new.iter().enumerate() {
            expression
                .condition(format!("attribute_not_exists(#n{index})"))
                .name(format!("#n{index}"), *name);
        }
        expression.changes(&attributes);
        (expression, attributes.len().max(1 + 2 * (known.len() + new.len())))
    }

    /// Returns an error if the change sets the attribute of time to live to a time that has passed.
    async fn check_time_to_live(&self, store: &Store) -> Result<(), OperationError> {
        let now = i128::from(store.clock().now().as_secs());
        let mut past = self.attributes();
        past.retain(|_, change| match change {
            Change::Set(AttributeValue::N(text)) => {
                let seconds = text.split('.').next().and_then(|whole| whole.parse::<i128>().ok());
                seconds.is_some_and(|seconds| seconds <= now)
            }
            _ => false,
        });
        // Without such a number, the name of the attribute does not matter.
        if past.is_empty() {
            return Ok(());
        }
        match ttl(store).await {
            Ok(Some(attribute)) if past.contains_key(&attribute) => Err(OperationError::Expired { attribute }),
            Err(error) if !error.is_unsupported => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// Returns `true` if two items have the same value of an attribute, or none.
fn is_equal(item: Option<&Item>, other: &Item, name: &str) -> bool {
    match (item.and_then(|item| item.get(name)), other.get(name)) {
        (Some(value), Some(other)) => same_value(value, other),
        (value, other) => value.is_none() && other.is_none(),
    }
}
