//! Tombstones that expire: `DynamoDB` deletes the latest item some days after the entity was deleted. History stays.
//!
//! ```text
//! PK      SK   Latest  Deleted  TTL         TombstoneExpires
//! User#2  v0   4       true     1722362700                     deleted by DynamoDB when the TTL has passed
//! User#2  v4           true                 1722362700         stays, and shows that v0 has expired
//! ```
//!
//! From the second of the `TTL` on, the latest item is treated as absent, whether `DynamoDB` has deleted it yet or not.

use std::{collections::HashMap, time::Duration};

use super::{
    AttributeValue, Item, entity::EntityId, keys::LATEST_KEY, marks, names, recorded_at::RecordedAt, version::Version,
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

/// Returns the expiry of a latest item that is a tombstone.
pub fn expiry_of(latest: &Item) -> Option<&AttributeValue> {
    latest.get(names::TTL).filter(|_| is_deleted(latest))
}

/// Returns `true` if a latest item with this version item was a tombstone that has expired.
pub fn has_expired(version_item: &Item, now: Duration) -> bool {
    expiry_in_history(version_item).is_some_and(|expiry| is_past(expiry, now))
}

/// Returns the expiry of the tombstone with this version item.
pub fn expiry_in_history(version_item: &Item) -> Option<&AttributeValue> {
    version_item
        .get(names::TOMBSTONE_EXPIRES)
        .filter(|_| is_deleted(version_item))
}

/// Returns `true` from the second of an expiry on.
pub fn is_past(expiry: &AttributeValue, now: Duration) -> bool {
    let marked = HashMap::from([(names::TTL.to_owned(), expiry.clone())]);
    marks::is_expired(&Item::from(marked), now)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::{keys::VersionDigits, repair::revived, version_item::VersionItem};

    fn item(json: Value) -> Item {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn the_version_of_a_tombstone_shows_its_expiry_but_does_not_expire() {
        let latest = |deleted: bool| {
            item(json!({
                "PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": "4"}, "TTL": {"N": "100"}, "Deleted": {"BOOL": deleted},
            }))
        };
        let version = |latest: &Item| VersionItem::from_image(latest.clone(), VersionDigits::default()).unwrap();
        let made = version(&latest(true));
        assert!(!made.item().contains_key("TTL"));
        assert_eq!(made.item()["TombstoneExpires"], AttributeValue::N("100".to_owned()));
        assert!(!has_expired(made.item(), Duration::from_secs(99)));
        assert!(has_expired(made.item(), Duration::from_secs(100)));
        // A TTL that another program set on a live item is not part of the version.
        let live = version(&latest(false));
        assert!(!live.item().contains_key("TTL") && !live.item().contains_key("TombstoneExpires"));
        // The latest item that is made from the version has the same image.
        let again = revived(made.item(), made.version());
        assert_eq!(expiry_of(&again), Some(&AttributeValue::N("100".to_owned())));
        assert!(version(&again).is_same_as(made.item()));
    }
}
