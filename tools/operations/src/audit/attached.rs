//! The newest state that history has of an attached table's item, and its comparison with the item in the table.

use std::collections::HashMap;

use shared::domain::{
    Item,
    attached::{
        AttachedTable, digits,
        item::{self, KnownState, Recorded},
    },
    version::Version,
};

use crate::audit::collection::Collection;
use attach::{agreement::agrees, selection::Selection};

/// The newest state of an item in history that is not late.
pub(super) struct Newest {
    pub(super) version: Version,
    recorded: Recorded,
    /// The item, or the key attributes of a deleted or omitted one.
    image: Item,
}

impl Newest {
    /// Returns the newest state of a history.
    pub(super) fn of_history(history: &Collection) -> Option<Self> {
        let flat = history.newest.as_ref()?;
        Some(Self::of(digits().version_of_item(flat)?, flat.clone()))
    }

    pub(super) fn of(version: Version, flat: Item) -> Self {
        let (outer, image) = item::split_flat(flat);
        let recorded = Recorded::of_parts(version, &outer, image.clone());
        Self {
            version,
            recorded,
            image,
        }
    }

    /// Returns the key attributes of the item. `None` if the image does not have them.
    pub(super) fn key(&self, table: &AttachedTable) -> Option<Item> {
        let value = |name: &String| Some((name.clone(), self.image.get(name)?.clone()));
        let key: Option<HashMap<_, _>> = table.keys().map(|key| value(&key.name)).collect();
        key.map(Item::from)
    }

    /// Returns `true` if the item in the table is in another state, and its change should be part of history. Ignored attributes
    /// are not compared.
    pub(super) fn differs(&self, table: &AttachedTable, selection: &Selection, item: Option<&Item>) -> bool {
        let state = (self.recorded.state != KnownState::Deleted).then_some(&self.image);
        !agrees(&self.recorded, item, table.ignored()) && selection.has_change(state, item)
    }
}

#[cfg(test)]
mod tests;
