//! The latest item of an entity: conditional writes that give it a number, and the number that it gets.

mod requests;
pub mod write;

use shared::domain::{
    Item,
    attributes::{n, s},
    attribution::{WrittenBy, pack_tombstone},
    keys::{LATEST_KEY, VersionDigits},
    names,
    recorded_at::RecordedAt,
    tombstone::is_deleted,
    version::Version,
    version_item::{VersionItem, latest_of},
};

/// Returns the number of a latest item without `Latest`, or with one that was set back: that of the highest version if both are
/// equal, otherwise the next one. `None` if there is no higher one.
pub fn adopted(latest: &Item, highest: Option<&(Version, Item)>, digits: VersionDigits) -> Option<Version> {
    let Some((highest, top)) = highest else {
        return Some(Version::FIRST);
    };
    let same = VersionItem::from_image(numbered(latest, *highest), digits).is_ok_and(|made| made.is_same_as(top));
    match same {
        true => Some(*highest),
        false => highest.get().checked_add(1).and_then(Version::new),
    }
}

/// Returns a latest item from the padded key of version 0 as it is at `v0`, with its number: its own, if that is above the
/// highest version, otherwise that of [`adopted`].
pub fn moved(padded: &Item, highest: Option<&(Version, Item)>, digits: VersionDigits) -> Option<(Version, Item)> {
    let own = latest_of(padded).ok();
    let own = own.filter(|own| highest.is_none_or(|(highest, _)| highest < own));
    let version = own.or_else(|| adopted(padded, highest, digits))?;
    Some((version, numbered(padded, version)))
}

/// Returns a latest item as that of another version.
fn numbered(latest: &Item, version: Version) -> Item {
    let is_own = latest_of(latest).is_ok_and(|current| WrittenBy::of(latest, current) == WrittenBy::Own);
    let mut latest = latest.clone();
    latest.insert(names::SK.to_owned(), s(LATEST_KEY));
    latest.insert(names::LATEST.to_owned(), n(version));
    if is_own {
        latest.insert(names::RECORDED_VERSION.to_owned(), n(version));
    }
    latest
}

/// Returns the latest item whose current version is this version item. The next update begins another incarnation.
#[must_use]
pub fn latest_from(mut version_item: Item, version: Version) -> Item {
    version_item.remove(names::INCARNATION);
    let recorded = RecordedAt::of(&version_item);
    let is_own = !version_item.contains_key(names::RECORDED_BY);
    version_item.remove(names::RECORDED_AT);
    version_item.remove(names::RECORDED_BY);
    if let (Some(recorded), true) = (recorded, is_own) {
        version_item.insert(names::RECORDED_AT.to_owned(), recorded.without_ticks().value());
        version_item.insert(names::RECORDED_VERSION.to_owned(), n(version));
        if is_deleted(&version_item) {
            pack_tombstone(&mut version_item);
        }
        if recorded.ticks() > 0 {
            version_item.insert(names::RECORDED_TICK.to_owned(), n(recorded.ticks()));
        }
    }
    version_item.insert(names::LATEST.to_owned(), n(version));
    version_item
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use shared::domain::attribution::{of_version, state_names};

    use super::*;

    #[test]
    fn a_latest_item_from_a_version_item_is_the_same_version() {
        let version = Version::new(4).unwrap();
        let latest = json!({
            "PK": {"S": "E"}, "SK": {"S": "v0"}, "State": {"S": "x"}, "Actor": {"S": "amy"}, "RequestId": {"S": "r"},
            "Latest": {"N": "4"}, "RecordedAt": {"S": "2026-11-22T06:24:48.123456000Z"}, "RecordedTick": {"N": "2"},
            "RecordedVersion": {"N": "4"}, "RecentRequests": {"M": {}},
        });
        let latest: Item = serde_json::from_value(latest).unwrap();
        let (made, _) = of_version(latest.clone(), version);
        let again = latest_from(made.clone(), version);
        assert_eq!(RecordedAt::of_latest(&again), RecordedAt::of(&made));
        assert_eq!(WrittenBy::of(&again, version), WrittenBy::Own);
        assert!(of_version(again, version).0 == made);
        // That of a tombstone has no more than the version.
        let mut tombstone = latest;
        tombstone.insert(names::DELETED.to_owned(), shared::domain::AttributeValue::Bool(true));
        let (deleted, _) = of_version(tombstone, version);
        let again = latest_from(deleted.clone(), version);
        assert_eq!(state_names(&again), Vec::<String>::new());
        assert!(of_version(again, version).0 == deleted);
        // The time of a version of another program comes from its stream record.
        let mut other = made;
        other.insert(names::RECORDED_BY.to_owned(), s("stream"));
        let again = latest_from(other, version);
        assert_eq!(
            (WrittenBy::of(&again, version), RecordedAt::of(&again)),
            (WrittenBy::Other, None)
        );
    }
}
