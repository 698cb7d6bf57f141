//! The latest item that a version item stands for.

use shared::domain::{
    Item, attributes::n, attribution::pack_tombstone, names, recorded_at::RecordedAt, tombstone::is_deleted,
    version::Version,
};

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
    use shared::domain::attribution::{Writer, of_version, state_names};

    use shared::domain::attributes::s;

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
        assert_eq!(Writer::of(&again, version), Writer::Own);
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
            (Writer::of(&again, version), RecordedAt::of(&again)),
            (Writer::Other, None)
        );
    }
}
