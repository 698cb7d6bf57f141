//! Attributes of a latest item that describe one version: who wrote it, why, when, and with which request.
//!
//! ```text
//! v0: State, Qty, …            state: stays until an update changes it
//!     Actor, Reason, Time, …   one version: an update that does not name them removes them
//!     RecordedVersion          the version to which they belong
//! ```
//!
//! If another program increments `Latest` and leaves these attributes alone, they still describe an older version.
//! `RecordedVersion` shows it: then they are not part of the new version. A program that writes the latest item itself and
//! names its own author removes `RecordedVersion` in the same update.
//!
//! A deletion ends the state. Attributes that it set itself are in the map `TombstoneState`, so every other attribute of state that
//! is still on the tombstone has ended, and is not part of the version: an update expression has no room for the names of all
//! attributes, so they can be removed later. Of a tombstone of another program, all attributes are part of the version.

use std::collections::HashMap;

use super::{
    AttributeValue, Item, attributes, names, recorded_at::RecordedAt, time_index, tombstone::is_deleted,
    version::Version,
};

/// Attributes that an update names for one version.
pub const OF_CLIENT: [&str; 5] = [
    names::ACTOR,
    names::REASON,
    names::CHANGE_SET,
    names::TIME,
    names::TIMESTAMP,
];
/// Attributes that the writer sets for one version, if they apply.
pub const OF_WRITER: [&str; 3] = [names::SENDER, names::RESTORED_FROM, names::CHANGE_SET_SIZE];
/// Attributes of the request that created a version.
pub const OF_REQUEST: [&str; 2] = [names::REQUEST_ID, names::REQUEST_PAYLOAD];
/// Attributes that only latest items keep: a version does not take them from its image.
pub const OF_LATEST: [&str; 13] = [
    names::LATEST,
    names::TOMBSTONE_STATE,
    names::TOMBSTONE_STAGED,
    names::RECENT_REQUESTS,
    names::REQUESTS_SINCE,
    names::REQUESTS_DROPPED,
    names::REQUESTS_AHEAD,
    names::RECORDED_VERSION,
    names::RECORDED_TICK,
    names::TTL,
    names::ERASED,
    time_index::PARTITION,
    time_index::INSERTED_AT,
];

/// Attributes of latest items and version items that are neither state nor listed above.
const OF_ITEM: [&str; 7] = [
    names::PK,
    names::SK,
    names::DELETED,
    names::INCARNATION,
    names::RECORDED_AT,
    names::RECORDED_BY,
    names::RECORDED_SINCE,
];

/// Returns `true` if an attribute with this name is state: it stays until an update changes it, or a deletion ends it.
pub fn is_state(name: &str) -> bool {
    let lists: [&[&str]; 5] = [&OF_CLIENT, &OF_WRITER, &OF_REQUEST, &OF_LATEST, &OF_ITEM];
    !lists.into_iter().flatten().any(|other| *other == name)
}

/// Returns the names of the attributes that describe a version and are not part of what a client reads as its attributes.
pub fn besides_attributes() -> impl Iterator<Item = &'static str> {
    let of_client = [names::ACTOR, names::REASON, names::CHANGE_SET, names::PINNED].into_iter();
    let is_own = |name: &&str| ![names::TOMBSTONE_STATE, names::TOMBSTONE_STAGED].contains(name);
    let of_latest = OF_LATEST.into_iter().filter(is_own);
    of_client
        .chain(OF_WRITER)
        .chain(OF_REQUEST)
        .chain(of_latest)
        .chain(OF_ITEM)
}

/// Returns the names of the attributes of state that an item has, sorted.
pub fn state_names(item: &Item) -> Vec<String> {
    let mut names: Vec<_> = item.keys().filter(|name| is_state(name)).cloned().collect();
    names.sort_unstable();
    names
}

/// Returns the names of the attributes that a tombstone still has although their state has ended, sorted. Empty for any other
/// latest item.
pub fn ended_names(latest: &Item, current: Version) -> Vec<String> {
    match is_deleted(latest) && WrittenBy::of(latest, current) == WrittenBy::Own {
        true => state_names(latest),
        false => Vec::new(),
    }
}

/// Replaces the attributes of a tombstone by its state. Does nothing to any other latest item.
pub fn resolve_tombstone(latest: &mut Item, current: Version) {
    if !is_deleted(latest) {
        return;
    }
    for name in ended_names(latest, current) {
        latest.remove(name.as_str());
    }
    if let Some(AttributeValue::M(state)) = latest.remove(names::TOMBSTONE_STATE) {
        for (name, value) in state {
            latest.insert(name, value);
        }
    }
}

/// Moves the state of a tombstone to the attribute that has it on a latest item.
pub fn pack_tombstone(item: &mut Item) {
    let names = state_names(item).into_iter();
    let state: HashMap<_, _> = names.filter_map(|name| item.remove_entry(name.as_str())).collect();
    if !state.is_empty() {
        item.insert(names::TOMBSTONE_STATE.to_owned(), AttributeValue::M(state));
    }
}

/// Writer of a latest item's current version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrittenBy {
    /// This project. The attributes describe the current version.
    Own,
    /// Another program, which left the attributes of this older version unchanged.
    Stale(Version),
    /// Another program. Its attributes describe the current version.
    Other,
}

impl WrittenBy {
    /// Returns the writer of a latest item's current version, which is `Latest`.
    pub fn of(latest: &Item, current: Version) -> Self {
        match attributes::version(latest, names::RECORDED_VERSION) {
            None => Self::Other,
            Some(version) if version == current => Self::Own,
            Some(version) => Self::Stale(version),
        }
    }
}

/// Returns the attributes of a latest item's current version, which is `Latest`. If another program wrote it, they have no
/// `RecordedAt`, and the second value is the time of an older version, if one is known.
pub fn of_version(mut latest: Item, current: Version) -> (Item, Option<RecordedAt>) {
    let (writer, recorded) = (WrittenBy::of(&latest, current), RecordedAt::of_latest(&latest));
    resolve_tombstone(&mut latest, current);
    for name in OF_LATEST {
        latest.remove(name);
    }
    latest.remove(names::RECORDED_AT);
    latest.remove(names::RECORDED_BY);
    if let WrittenBy::Stale(_) = writer {
        for name in OF_CLIENT.into_iter().chain(OF_WRITER).chain(OF_REQUEST) {
            latest.remove(name);
        }
    }
    match (writer, recorded) {
        (WrittenBy::Own, Some(recorded)) => {
            latest.insert(names::RECORDED_AT.to_owned(), recorded.value());
            (latest, None)
        }
        (_, recorded) => (latest, recorded),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::test_values::{item, names as names_of};

    fn latest(recorded_version: Option<u64>) -> Item {
        let mut latest = json!({
            "PK": {"S": "E"}, "SK": {"S": "v0"}, "State": {"S": "x"}, "Actor": {"S": "amy"}, "Time": {"S": "2026-01-01"},
            "Sender": {"S": "AIDA"}, "RequestId": {"S": "r"}, "RequestPayload": {"S": "p"}, "ChangeSet": {"S": "c"}, "Latest": {"N": "4"},
            "ChangeSetSize": {"N": "2"},
            "RecordedAt": {"S": "2026-11-22T06:24:48.123456000Z"}, "RecordedTick": {"N": "2"},
            "RequestsSince": {"N": "1"}, "RequestsDropped": {"L": []}, "RecentRequests": {"M": {}},
        });
        if let Some(version) = recorded_version {
            latest["RecordedVersion"] = json!({"N": version.to_string()});
        }
        item(latest)
    }

    #[test]
    fn attributes_of_an_older_version_are_not_part_of_the_new_one() {
        let state = json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "State": {"S": "x"}});
        let named = json!({
            "PK": {"S": "E"}, "SK": {"S": "v0"}, "State": {"S": "x"}, "Actor": {"S": "amy"}, "Time": {"S": "2026-01-01"},
            "Sender": {"S": "AIDA"}, "RequestId": {"S": "r"}, "RequestPayload": {"S": "p"}, "ChangeSet": {"S": "c"},
            "ChangeSetSize": {"N": "2"},
        });
        let version = Version::new(4).unwrap();
        let mut own = named.clone();
        own["RecordedAt"] = json!({"S": "2026-11-22T06:24:48.123456002Z"});
        for (recorded_version, expected) in [(Some(4), own), (Some(3), state), (None, named)] {
            let (made, before) = of_version(latest(recorded_version), version);
            assert_eq!(serde_json::to_value(&made).unwrap(), expected, "{recorded_version:?}");
            assert_eq!(before.is_some(), recorded_version != Some(4));
        }
    }

    /// A tombstone from which not all attributes are removed yet, with state of its own.
    fn tombstone(recorded_version: Option<u64>) -> Item {
        let mut tombstone = latest(recorded_version);
        tombstone.insert(names::DELETED.to_owned(), AttributeValue::Bool(true));
        let state = item(json!({"Note": {"S": "n"}, "Depth": {"M": {}}}));
        tombstone.insert(names::TOMBSTONE_STATE.to_owned(), AttributeValue::M(state.into()));
        tombstone
    }

    #[test]
    fn a_tombstone_has_only_the_state_that_its_deletion_set() {
        let version = Version::new(4).unwrap();
        let (own, _) = of_version(tombstone(Some(4)), version);
        let record =
            "Actor ChangeSet ChangeSetSize Deleted Depth Note PK RecordedAt RequestId RequestPayload SK Sender Time";
        assert_eq!(names_of(&own).join(" "), record);
        assert_eq!(ended_names(&tombstone(Some(4)), version), ["State"]);
        // It is the same version after the other attributes were removed.
        let mut removed = tombstone(Some(4));
        removed.remove("State");
        assert!(of_version(removed.clone(), version).0 == own && ended_names(&removed, version).is_empty());
        // Nothing that another program wrote is left out.
        for recorded_version in [None, Some(3)] {
            let (other, _) = of_version(tombstone(recorded_version), version);
            assert!(
                other.contains_key("State") && other.contains_key("Note"),
                "{recorded_version:?}"
            );
            assert_eq!(ended_names(&tombstone(recorded_version), version), Vec::<String>::new());
        }
        assert_eq!(ended_names(&latest(Some(4)), version), Vec::<String>::new());
    }
}
