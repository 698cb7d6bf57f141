//! Tombstones: versions that mark an entity as deleted. They stay until a purge.

use std::collections::HashMap;

use super::{
    AttributeValue, Item, entity::EntityId, keys::LATEST_KEY, names, recorded_at::RecordedAt, version::Version,
};

/// Returns `true` if an item is a tombstone.
pub fn is_deleted(item: &Item) -> bool {
    item.get(names::DELETED) == Some(&AttributeValue::Bool(true))
}

/// Returns a tombstone without attributes, for an entity whose state is not known.
pub fn without_state(entity: &EntityId, version: Version, now: RecordedAt) -> Item {
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let number = AttributeValue::N(version.to_string());
    let members = [
        (names::PK, text(entity.as_str())),
        (names::SK, text(LATEST_KEY)),
        (names::LATEST, number.clone()),
        (names::DELETED, AttributeValue::Bool(true)),
        (names::RECORDED_AT, text(&now.to_string())),
        (names::RECORDED_VERSION, number),
    ];
    Item::from(HashMap::from(members.map(|(name, value)| (name.to_owned(), value))))
}
