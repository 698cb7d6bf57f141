//! Version items of an attached table.
//!
//! ```text
//! PK  SK           RequestId  Stream       RecordedAt  RecordedBy  Image
//! …   v0000000001  …42#old    2026-11-22…  …           stream      {…}    Baseline: true
//! …   v0000000002  …42        2026-11-22…  …           stream      {…}    Actor, Reason, ChangeSet, ActorUnchanged: true
//! …   v0000000003  …77        2026-11-22…  …           stream      {key}  Deleted: true, Actor, Reason
//! ```
//!
//! `RecordedAt` never decreases along the [places](Place) of an item's versions: the creation time of the record, or that of the
//! version before if it is later.
//!
//! A late version is in the middle of the order, although its number is the greatest. `After` is the number of a version before it by
//! place, and `InOrder` with `InOrderAt` the last version that is not late, which divides the history in its stead. An item of
//! its own, the [late entry](late_entry), finds it by its time and place:
//!
//! ```text
//! PK  SK                                            Version  Stream       RequestId
//! …   late#2026-11-22T06:24:48.000004000Z#2026-…#…  4        2026-11-22…  …40
//! ```
//!
//! A version 1 that a [backfill](baseline) read from the table itself has the `Stream` and `RecordedBy` `backfill`, and no place in
//! the order of changes, so it comes before all of them.
//!
//! The user's item is inside `Image`, or in another attribute if it is nested too deeply or compressed, see [`layout`]. So its attributes are
//! never mistaken for those around it. A reader gets one [flat] item.

use std::collections::HashMap;

use super::{
    change::{Place, STREAM},
    definition::AttachedTable,
    digits,
};
pub use super::{
    flat::{StreamChange, as_written, dividing, flat, join_flat, latest, split_flat},
    names::*,
    recorded::{KnownState, Recorded},
    state::{Around, ChangedBy, Omission, OmissionReason, State, StateOrigin, author_of_deletion, author_of_item},
};
use crate::domain::{
    AttributeValue, Item,
    attributes::{self, n, s},
    compression::Compression,
    entity::EntityId,
    layout, names,
    recorded_at::RecordedAt,
    size, time_index,
    version::Version,
    version_item::RECORDED_BY_STREAM,
};

/// Number of digits of a sequence number in the key of a late entry. They have up to 40, see
/// [StreamRecord](https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_streams_StreamRecord.html).
const NUMBER_DIGITS: usize = 40;

/// Returns the item that the history table stores for a state. `None` if it cannot be serialized.
pub fn stored(
    table: &AttachedTable,
    entity: &EntityId,
    version: Version,
    state: State,
    compression: Compression,
) -> Option<Item> {
    let mut members = HashMap::from([
        (names::REQUEST_ID, s(state.place.request_id())),
        (STREAM, s(state.place.stream)),
        (names::RECORDED_BY, s(RECORDED_BY_STREAM)),
    ]);
    if let Some(recorded) = state.recorded_at {
        members.insert(names::RECORDED_AT, recorded.value());
    }
    if let Some(around) = state.around {
        members.extend(around.after.map(|after| (AFTER, n(after))));
        members.insert(IN_ORDER, n(around.in_order));
        members.extend(around.in_order_at.map(|time| (IN_ORDER_AT, time.value())));
    }
    members.extend(state.erased.value().map(|erased| (names::ERASED, erased)));
    if let Some(omission) = state.omission {
        members.insert(OMITTED, serde_dynamo::to_attribute_value(omission).ok()?);
    }
    let mark = state.origin.mark();
    let deleted = state.is_deleted.then_some(names::DELETED);
    for mark in mark.into_iter().chain(deleted) {
        members.insert(mark, AttributeValue::Bool(true));
    }
    members.extend(state.changed_by);
    version_item(table, (entity, version), members, state.image, compression)
}

/// Returns the item by which a late version is found, `None` for another one, or if its time is not known. Such items sort by time,
/// and then by place.
pub fn late_entry(entity: &EntityId, version: Version, state: &State) -> Option<Item> {
    let recorded_at = state.recorded_at.filter(|_| state.origin == StateOrigin::Late)?;
    let members = [
        (names::PK, s(entity.as_str())),
        (names::SK, s(late_key(recorded_at, &state.place))),
        (VERSION, n(version)),
        (STREAM, s(&state.place.stream)),
        (names::REQUEST_ID, s(state.place.request_id())),
    ];
    Some(HashMap::from(members.map(|(name, value)| (name.to_owned(), value))).into())
}

/// Returns the sort key of the late entry of a version item, `None` for one that has none.
pub fn late_key_of(item: &Item) -> Option<String> {
    let is_late = item.contains_key(LATE);
    Some(late_key(RecordedAt::of(item).filter(|_| is_late)?, &Place::of(item)?))
}

fn late_key(recorded_at: RecordedAt, Place { stream, number, .. }: &Place) -> String {
    format!(
        "{LATE_PREFIX}{recorded_at}#{stream}#{:0>NUMBER_DIGITS$}",
        number.as_str()
    )
}

/// Returns the sort keys from the first late entry to the last one of a time.
pub fn late_entries_until(time: RecordedAt) -> (String, String) {
    (LATE_PREFIX.to_owned(), format!("{LATE_PREFIX}{time}#~"))
}

/// Returns the number and the place of the version that a late entry names. `None` if it is another item.
pub fn late_entry_of(item: &Item) -> Option<(Version, Place)> {
    Some((attributes::version(item, VERSION)?, Place::of(item)?))
}

/// Returns the version 1 that the history table stores for an item that has no history, and was read from the table at a time or
/// before. `None` if it cannot be serialized.
pub fn baseline(
    table: &AttachedTable,
    entity: &EntityId,
    image: Item,
    read_at: RecordedAt,
    compression: Compression,
) -> Option<Item> {
    let mut members = HashMap::from([
        (names::REQUEST_ID, s(format!("{BACKFILL}#{read_at}"))),
        (STREAM, s(BACKFILL)),
        (names::RECORDED_BY, s(BACKFILL)),
        (names::RECORDED_AT, read_at.value()),
        (BASELINE, AttributeValue::Bool(true)),
    ]);
    members.extend(author_of_item(table, &image, None));
    version_item(table, (entity, Version::FIRST), members, image, compression)
}

fn version_item(
    table: &AttachedTable,
    (entity, version): (&EntityId, Version),
    mut members: HashMap<&'static str, AttributeValue>,
    image: Item,
    compression: Compression,
) -> Option<Item> {
    members.insert(names::PK, s(entity.as_str()));
    members.insert(names::SK, s(digits().version_key(version)));
    let is_deleted = members.contains_key(names::DELETED);
    let own = table.version_attribute().filter(|_| !is_deleted);
    if let Some(own) = own.and_then(|name| image.get(name)) {
        members.insert(ITEM_VERSION, own.clone());
    }
    let members = members.into_iter().map(|(name, value)| (name.to_owned(), value));
    let mut item = layout::add_image(members.collect(), image, compression)?;
    if size::check_version_bytes(size::of_item(&item) + time_index::BYTES).is_err() {
        for name in [names::ACTOR, names::REASON, names::CHANGE_SET, ACTOR_UNCHANGED] {
            item.remove(name);
        }
    }
    Some(item)
}

/// Returns the item that the history table stores for a flat version item that was changed. `None` if it cannot be serialized.
pub fn stored_flat(flat: Item, compression: Compression) -> Option<Item> {
    let (outer, image) = split_flat(flat);
    layout::add_image(outer.into(), image, compression)
}

#[cfg(test)]
mod tests;
