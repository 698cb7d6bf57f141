//! Limits of an update: names and values that DynamoDB can store, and sizes of the update and of its version item.

use std::collections::HashMap;

use shared::domain::{
    AttributeValue,
    change::Change,
    incarnation::Incarnation,
    names,
    size::{self, OverLimit},
};

use crate::update::{InvalidUpdate, Update, nested, payload::SHORT};

/// Maximum number of attributes of one update. In an [update of a map](nested), a member counts as the names of its path, and the
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
    let count = nested::count(&update.changes);
    if count > MAX_ATTRIBUTES {
        return Err(InvalidUpdate::TooManyAttributes { count });
    }
    let sender = update.sender.as_ref().map(|sender| names::SENDER.len() + sender.len());
    let record = names::REQUEST_ID.len() + update.request_id.as_str().len() + RECORD_BYTES + sender.unwrap_or(0);
    // The version item also has at least its keys.
    let mut stored = names::PK.len() + update.entity.as_str().len() + names::SK.len() + "v1".len() + record;
    // DynamoDB checks the size of the update before that of the item.
    let mut sent = (4 + usize::from(sender.is_some())) * SET_BYTES + record;
    for (name, change) in &update.changes {
        let (sets, bytes, removed, checked) = match change {
            Change::Set(value) => (
                1,
                name.len() + size::of_value(value),
                0,
                size::check_attribute(name, value),
            ),
            Change::Remove => (0, 0, REMOVE_BYTES + name.len(), size::check_name(name)),
            Change::Update(members) => {
                nested::check(name, members)?;
                let value = nested::new_members(members);
                let (bytes, removed) = (name.len() + size::of_value(&value), nested::removed_bytes(members));
                (
                    nested::count(members),
                    bytes,
                    removed,
                    size::check_attribute(name, &value),
                )
            }
        };
        stored += bytes;
        sent += sets * SET_BYTES + bytes + removed;
        checked.map_err(|source| match source {
            OverLimit::EmptyName if name.is_empty() => InvalidUpdate::EmptyName,
            OverLimit::Name { bytes } if bytes == name.len() => InvalidUpdate::LongName { bytes },
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
        true => Err(InvalidUpdate::TooManyBytes { bytes: sent }),
        false => Ok(()),
    }
}

/// Returns the error of an attribute that DynamoDB cannot store.
pub(super) fn attribute(name: &str, source: OverLimit) -> InvalidUpdate {
    let name = name.to_owned();
    InvalidUpdate::Attribute { name, source }
}
