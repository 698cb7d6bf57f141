//! Limits of an update: names and values that DynamoDB can store, and sizes of the update and of its version item.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use shared::domain::{
    AttributeValue, attribution,
    change::Change,
    incarnation::Incarnation,
    names,
    size::{self, OverLimit},
};

use crate::update::{InvalidUpdate, Update, payload::SHORT};

/// Maximum number of attributes of one update. In an [update of a map](super::nested), a member counts as the names of its path, and the
/// map counts too. An update expression has at most 300 operators and functions, see
/// [Constraints](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html), and the bookkeeping
/// attributes use some of them.
pub const MAX_ATTRIBUTES: usize = 275;
/// Bytes that DynamoDB adds to the name and value of each attribute that an update sets, when it checks the size of the
/// update (measured).
pub(super) const SET_BYTES: usize = 19;
/// Bytes that DynamoDB adds to the name of each attribute that an update removes.
const REMOVE_BYTES: usize = 1;

/// Size of `RecordedAt`, `RequestPayload` and `V0Id`, with their names.
pub(super) const RECORD_BYTES: usize = names::RECORDED_AT.len()
    + 30
    + names::REQUEST_PAYLOAD.len()
    + SHORT
    + names::INCARNATION.len()
    + Incarnation::BYTES;

/// See [`Update::check`].
pub(super) fn check(update: &Update) -> Result<(), InvalidUpdate> {
    let names = count(&update.changes);
    if names > MAX_ATTRIBUTES {
        return Err(InvalidUpdate::TooManyAttributes(names));
    }
    let sender = update.sender.as_ref().map(|sender| names::SENDER.len() + sender.len());
    let record = names::REQUEST_ID.len() + update.request_id.as_str().len() + RECORD_BYTES + sender.unwrap_or(0);
    // The version item also has at least its keys.
    let mut stored = names::PK.len() + update.entity.as_str().len() + names::SK.len() + "v1".len() + record;
    // DynamoDB checks the size of the update before that of the item.
    let mut sent = (4 + usize::from(sender.is_some())) * SET_BYTES + record;
    for (name, change) in &update.changes {
        let (sets, value) = match change {
            Change::Set(value) => (1, Some(Cow::Borrowed(value))),
            Change::Remove => {
                sent += REMOVE_BYTES + name.len();
                (0, None)
            }
            Change::Update(members) => {
                check_map(name, members)?;
                (count(members), Some(Cow::Owned(new_members(members, &mut sent))))
            }
        };
        let bytes = value.as_ref().map_or(0, |value| name.len() + size::of_value(value));
        stored += bytes;
        sent += sets * SET_BYTES + bytes;
        let checked = match value {
            Some(value) => size::check_attribute(name, &value),
            None => size::check_name(name),
        };
        checked.map_err(|source| match source {
            OverLimit::EmptyName if name.is_empty() => InvalidUpdate::EmptyName,
            OverLimit::Name(bytes) if bytes == name.len() => InvalidUpdate::LongName(bytes),
            source => attribute(name, source),
        })?;
    }
    if update.deleted {
        // The latest item has the state of a tombstone in a map.
        let state = update.new_state().map(|(name, value)| (name.clone(), value.clone()));
        let state: HashMap<_, _> = state.collect();
        sent += names::TOMBSTONE_STATE.len() + 3 + state.len();
        let checked = size::check_attribute(names::TOMBSTONE_STATE, &AttributeValue::M(state));
        checked.map_err(|source| attribute(names::TOMBSTONE_STATE, source))?;
    }
    size::check_version_bytes(stored)?;
    match sent > size::MAX_ITEM_BYTES {
        true => Err(InvalidUpdate::TooManyBytes(sent)),
        false => Ok(()),
    }
}

/// Returns the error of an attribute that DynamoDB cannot store.
fn attribute(name: &str, source: OverLimit) -> InvalidUpdate {
    InvalidUpdate::Attribute(name.to_owned(), source)
}

/// Number of attributes as which a map counts: its condition is as long.
pub(super) const OF_MAP: usize = 4;

/// Returns the number of attributes as which changes count: one for each attribute; for each member of a map, the number of names
/// in its path; and [`OF_MAP`] for each map.
pub(super) fn count(changes: &BTreeMap<String, Change>) -> usize {
    fn of(changes: &BTreeMap<String, Change>, depth: usize) -> usize {
        let of_change = |change: &Change| match change {
            Change::Set(_) | Change::Remove => depth,
            Change::Update(members) => OF_MAP + of(members, depth + 1),
        };
        changes.values().map(of_change).sum()
    }
    of(changes, 1)
}

/// Checks the rules for one map: it has members to change, their names are not empty, and the map does not describe one version.
fn check_map(name: &str, members: &BTreeMap<String, Change>) -> Result<(), InvalidUpdate> {
    if attribution::OF_CLIENT.contains(&name) {
        return Err(InvalidUpdate::UpdateOfRecord(name.to_owned()));
    }
    if members.is_empty() {
        return Err(InvalidUpdate::NoMembers(name.to_owned()));
    }
    for (member, change) in members {
        size::check_name(member).map_err(|source| attribute(name, source))?;
        if let Change::Update(members) = change {
            check_map(name, members)?;
        }
    }
    Ok(())
}

/// Returns a map with the members that are set: the least that the map contains after the update. Adds the names of those that are
/// removed to `removed`.
fn new_members(members: &BTreeMap<String, Change>, removed: &mut usize) -> AttributeValue {
    let set = members.iter().filter_map(|(name, change)| match change {
        Change::Set(value) => Some((name.clone(), value.clone())),
        Change::Remove => {
            *removed += name.len();
            None
        }
        Change::Update(members) => Some((name.clone(), new_members(members, removed))),
    });
    AttributeValue::M(set.collect())
}
