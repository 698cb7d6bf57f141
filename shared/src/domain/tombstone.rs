//! Tombstones: versions that mark an entity as deleted. They stay until a purge.

use super::{AttributeValue, Item, names};

/// Returns `true` if an item is a tombstone.
pub fn is_deleted(item: &Item) -> bool {
    item.get(names::DELETED) == Some(&AttributeValue::Bool(true))
}
