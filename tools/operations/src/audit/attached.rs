//! Audit of the history of an attached table's item: the newest version that is not late equals the item in the table, except
//! for ignored attributes.
//!
//! Suspected findings are read again with strongly consistent reads. The record of a change may not be processed yet, so an item
//! that differs from its history is compared again after the lag:
//!
//! | after the lag | decision |
//! |---|---|
//! | equal, and history has a newer version | lagging |
//! | different, and history has the same newest version that is not late | the item differs |
//! | different, and history has a newer version | compared again after another lag, at most five times; then lagging |
//!
//! If history has a newer version, its record showed the state before it, so no change before that can be missing unnoticed.

use std::collections::HashMap;

use shared::{
    domain::{
        Item,
        attached::{
            AttachedTable, digits,
            item::{self, KnownState, LATE, OMITTED},
        },
        entity::EntityId,
        keys::LATEST_KEY,
        tombstone::is_deleted,
        version::Version,
        version_item::latest_of,
    },
    dynamodb::client::error::ServiceError,
};

use crate::{
    audit::{
        auditor::{Auditor, Doubt, MAX_ROUNDS},
        collection::Collection,
        finding::Finding,
    },
    read::attached_items::attached_items,
    segments::entities::SeenEntity,
};
use attach::{agreement::agrees, selection::Selection};

/// The newest state of an item in history that is not late.
struct Newest {
    version: Version,
    is_deleted: bool,
    /// `true` if the version does not have the state, see [`Omission`](shared::domain::attached::item::Omission).
    is_omitted: bool,
    /// The item, or the key attributes of a deleted or omitted one.
    image: Item,
}

impl Newest {
    fn of(history: &Collection) -> Option<Self> {
        let flat = history.newest.as_ref()?;
        Some(Self::of_flat(digits().version_of_item(flat)?, flat.clone()))
    }

    fn of_flat(version: Version, flat: Item) -> Self {
        let is_deleted = is_deleted(&flat);
        let (outer, image) = item::split_flat(flat);
        Self {
            version,
            is_deleted,
            is_omitted: outer.contains_key(OMITTED),
            image,
        }
    }

    /// Returns the key attributes of the item. `None` if the image does not have them.
    fn key(&self, table: &AttachedTable) -> Option<Item> {
        let value = |name: &String| Some((name.clone(), self.image.get(name)?.clone()));
        let key: Option<HashMap<_, _>> = table.keys().map(|key| value(&key.name)).collect();
        key.map(Item::from)
    }

    /// Returns `true` if the item in the table is in another state, and its change should be part of history. Ignored attributes
    /// are not compared.
    fn differs(&self, table: &AttachedTable, selection: &Selection, item: Option<&Item>) -> bool {
        let known = match (self.is_deleted, self.is_omitted) {
            (true, _) => KnownState::Deleted,
            (false, true) => KnownState::Unknown,
            (false, false) => KnownState::Item(self.image.clone()),
        };
        let state = (!self.is_deleted).then_some(&self.image);
        !agrees(&known, item, table.ignored()) && selection.has_change(state, item)
    }
}

impl Auditor {
    /// Audits a history that was read with eventually consistent reads, as the item in the table was. An item that differs is
    /// deferred, see [`Self::settle`].
    pub(super) async fn examine_history(
        &mut self,
        entity: &EntityId,
        seen: &Collection,
        item: Option<&Item>,
    ) -> Result<Vec<Finding>, ServiceError> {
        let found = self.check(seen);
        let differs = Newest::of(seen).is_some_and(|newest| self.differs(&newest, item));
        if found.is_clean() && !differs {
            return Ok(found.findings());
        }
        let history = self.read_all(entity).await?;
        self.confirm_history(entity, &history).await
    }

    /// Returns the findings of a history that was read with strongly consistent reads, and defers an item that differs.
    pub(super) async fn confirm_history(
        &mut self,
        entity: &EntityId,
        history: &Collection,
    ) -> Result<Vec<Finding>, ServiceError> {
        let mut findings = self.check(history).findings();
        if let Some(newest) = Newest::of(history)
            && self.item_differs(&newest).await?
        {
            let version = newest.version;
            if self.lag.is_zero() {
                findings.push(Finding::Differs { version });
            } else {
                let (first, newest, rounds) = (version, version, 0);
                self.defer(entity, Doubt::Item { first, newest, rounds });
            }
        }
        Ok(findings)
    }

    /// Decides whether an item that differed still does: from version `first` on, and from `before` on when it was compared last.
    /// There are no findings if it is deferred again.
    pub(super) async fn settle_item(
        &mut self,
        entity: &EntityId,
        first: Version,
        before: Version,
        rounds: u32,
    ) -> Result<Vec<Finding>, ServiceError> {
        let latest = self.table.get(entity, LATEST_KEY).await?;
        let latest = latest.filter(|latest| !latest.contains_key(LATE));
        // A history that was purged in the meantime has no findings, nor has one of which only late versions are left.
        let Some((version, latest)) = latest.and_then(|latest| Some((latest_of(&latest).ok()?, latest))) else {
            return Ok(Vec::new());
        };
        let differs = self.item_differs(&Newest::of_flat(version, latest)).await?;
        let (through, latest) = (first.get(), version);
        let lagging = Finding::Lagging { through, latest };
        Ok(match differs {
            false if version == first => Vec::new(),
            false => vec![lagging],
            true if version == before => vec![Finding::Differs { version }],
            true if rounds >= MAX_ROUNDS => vec![lagging],
            true => {
                let (newest, rounds) = (version, rounds + 1);
                self.defer(entity, Doubt::Item { first, newest, rounds });
                Vec::new()
            }
        })
    }

    /// Reads the items of at most [`MAX_KEYS`](shared::dynamodb::read::batch_get_items::MAX_KEYS) histories, eventually consistent.
    pub(super) async fn items_of(&self, seen: &[SeenEntity]) -> Result<HashMap<EntityId, Item>, ServiceError> {
        let Some(table) = self.table.store.attached_table() else {
            return Ok(HashMap::new());
        };
        let keys = seen.iter().filter_map(|seen| Newest::of(&seen.summary)?.key(table));
        let keys: Vec<_> = keys.collect();
        self.table.send(async |store| attached_items(store, &keys).await).await
    }

    fn differs(&self, newest: &Newest, item: Option<&Item>) -> bool {
        let table = self.table.store.attached_table();
        table.is_some_and(|table| newest.differs(table, &self.selection, item))
    }

    /// Compares a state with the item, which is read with a strongly consistent read. A state without key attributes differs.
    async fn item_differs(&self, newest: &Newest) -> Result<bool, ServiceError> {
        let table = self.table.store.attached_table();
        let Some(key) = table.and_then(|table| newest.key(table)) else {
            return Ok(true);
        };
        let item = self.table.attached_item(&key).await?;
        Ok(self.differs(newest, item.as_ref()))
    }
}

#[cfg(test)]
mod tests;
