//! Version items of an attached table.
//!
//! ```text
//! PK  SK           RequestId  Stream       RecordedAt  RecordedBy  Image
//! …   v0000000001  …42#old    2026-11-22…  …           stream      {…}    Baseline: true
//! …   v0000000002  …42        2026-11-22…  …           stream      {…}
//! …   v0000000003  …77        2026-11-22…  …           stream      {key}  Deleted: true, Actor, Reason
//! ```
//!
//! A version 1 that a [backfill](baseline) read from the table itself has the `Stream` and `RecordedBy` `backfill`, and no place in
//! the order of changes, so it comes before all of them.
//!
//! The user's item is inside `Image`, or in another attribute if it is nested too deeply or compressed, see [`layout`]. So its attributes are
//! never mistaken for those around it. A reader gets one flat item: an attribute of the user whose name is one of ours is shown as
//! `item:<name>`, and so is one whose name begins with `item:`.

use std::collections::HashMap;

use super::{
    change::{Place, Principal},
    definition::AttachedTable,
    digits,
};
use crate::domain::{
    AttributeValue, Item, attributes::text, compression::Compression, entity::EntityId, keys::LATEST_KEY, layout,
    marks::MARKS, names, recorded_at::RecordedAt, tombstone::is_deleted, version::Version,
    version_item::RECORDED_BY_STREAM,
};

/// Label of the stream.
pub const STREAM: &str = "Stream";
/// `true` on the state with which history begins.
pub const BASELINE: &str = "Baseline";
/// `true` on a state of which history got no record.
pub const MISSED: &str = "Missed";
/// `true` on a state that is older than the version before it.
pub const LATE: &str = "Late";
/// Value of the writers' own version attribute.
pub const ITEM_VERSION: &str = "ItemVersion";
/// `Stream` and `RecordedBy` of a state that a backfill read from the table.
pub const BACKFILL: &str = "backfill";
/// Reason of a deletion by TTL.
pub const TTL_REASON: &str = "TTL";

/// Prefix of an attribute of the user whose name is one of ours.
const PREFIX: &str = "item:";
/// Names that have a meaning in the items of the library.
const OURS: [&str; 31] = [
    names::PK,
    names::SK,
    names::LATEST,
    names::TTL,
    names::TOMBSTONE_EXPIRES,
    names::REQUEST_ID,
    names::REQUEST_PAYLOAD,
    names::RECENT_REQUESTS,
    names::REQUESTS_SINCE,
    names::REQUESTS_CHECKPOINT,
    names::PINNED,
    names::FLOOR,
    names::DELETED,
    names::ACTOR,
    names::REASON,
    names::SENDER,
    names::RESTORED_FROM,
    names::RECORDED_AT,
    names::RECORDED_BY,
    names::RECORDED_TICK,
    names::RECORDED_VERSION,
    names::PURGED_AT,
    layout::IMAGE,
    layout::IMAGE_JSON,
    layout::IMAGE_DEFLATE,
    STREAM,
    BASELINE,
    MISSED,
    LATE,
    ITEM_VERSION,
    "Version",
];

/// State of an item, which becomes a version.
#[derive(Clone, PartialEq)]
pub struct State {
    /// Place of the state.
    pub place: Place,
    /// Creation time of the stream record in microseconds since 1970.
    pub created_micros: Option<i64>,
    /// The item, or the key attributes of a deleted one.
    pub image: Item,
    /// `true` if the item was deleted.
    pub is_deleted: bool,
    /// Principal that deleted it.
    pub deleted_by: Option<Principal>,
    /// Reason why history has the state.
    pub origin: StateOrigin,
}

impl StateOrigin {
    /// Returns the name of the attribute that marks such a state.
    pub fn mark(self) -> Option<&'static str> {
        match self {
            Self::Record => None,
            Self::Baseline => Some(BASELINE),
            Self::Missed => Some(MISSED),
            Self::Late => Some(LATE),
        }
    }
}

/// Reason why history has a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateOrigin {
    /// A record, in its order.
    Record,
    /// The first record of the item: the state before it.
    Baseline,
    /// The state before a record is not the last one of history.
    Missed,
    /// A record that is older than the last state of history.
    Late,
}

// The image holds attribute values, which logs must not contain.
impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("place", &self.place)
            .field("is_deleted", &self.is_deleted)
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

/// Returns the item that the history table stores for a state. `None` if it cannot be serialized.
pub fn stored(
    table: &AttachedTable,
    entity: &EntityId,
    version: Version,
    state: State,
    compression: Compression,
) -> Option<Item> {
    let mut members = HashMap::from([
        (names::REQUEST_ID, s(&state.place.request_id())),
        (STREAM, s(&state.place.stream)),
        (names::RECORDED_BY, s(RECORDED_BY_STREAM)),
    ]);
    if let Some(created) = state.created_micros {
        let recorded = RecordedAt::of_stream_record(created, version);
        members.insert(names::RECORDED_AT, recorded.value());
    }
    let mark = state.origin.mark();
    let deleted = state.is_deleted.then_some(names::DELETED);
    for mark in mark.into_iter().chain(deleted) {
        members.insert(mark, AttributeValue::Bool(true));
    }
    if let Some(principal) = &state.deleted_by {
        members.insert(names::ACTOR, s(&principal.id));
        if principal.is_ttl {
            members.insert(names::REASON, s(TTL_REASON));
        }
    }
    version_item(table, (entity, version), members, state.image, compression)
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
    let members = HashMap::from([
        (names::REQUEST_ID, s(&format!("{BACKFILL}#{read_at}"))),
        (STREAM, s(BACKFILL)),
        (names::RECORDED_BY, s(BACKFILL)),
        (names::RECORDED_AT, read_at.value()),
        (BASELINE, AttributeValue::Bool(true)),
    ]);
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
    members.insert(names::SK, s(&digits().version_key(version)));
    let is_deleted = members.contains_key(names::DELETED);
    let own = table.version_attribute().filter(|_| !is_deleted);
    if let Some(own) = own.and_then(|name| image.get(name)) {
        members.insert(ITEM_VERSION, own.clone());
    }
    let members = members.into_iter().map(|(name, value)| (name.to_owned(), value));
    layout::add_image(members.collect(), image, compression)
}

fn s(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

/// Version that history has.
#[derive(Clone, PartialEq)]
pub struct Recorded {
    /// Number of the version.
    pub version: Version,
    /// Place of its state, `None` if it does not come from a stream record.
    pub place: Option<Place>,
    /// `true` if it is older than the version before it.
    pub is_late: bool,
    /// Time up to which the item was read, if the version is the [baseline] of a backfill.
    pub backfilled_at: Option<RecordedAt>,
    /// The item, `None` if it was deleted.
    pub state: Option<Item>,
}

impl Recorded {
    /// Reads a stored version item. `None` if it is another item.
    pub fn of(mut item: Item) -> Option<Self> {
        let version = digits().version_of_item(&item)?;
        let image = layout::take_image(&mut item).unwrap_or_default();
        Some(Self::new(version, &item, image))
    }

    /// Reads a version item whose attributes are [flat]. `None` if it is another item.
    pub fn of_flat(item: Item) -> Option<Self> {
        let version = digits().version_of_item(&item)?;
        let (outer, image) = split_flat(item);
        Some(Self::new(version, &outer, image))
    }

    fn new(version: Version, outer: &Item, image: Item) -> Self {
        Self {
            state: (!is_deleted(outer)).then_some(image),
            ..Self::of_outer(version, outer)
        }
    }

    /// Returns the version with these attributes around its image, without its state.
    pub(super) fn of_outer(version: Version, outer: &Item) -> Self {
        let stream = text(outer, STREAM);
        Self {
            version,
            place: stream
                .zip(text(outer, names::REQUEST_ID))
                .and_then(|(stream, id)| Place::parse(stream, id)),
            is_late: outer.get(LATE) == Some(&AttributeValue::Bool(true)),
            backfilled_at: stream
                .filter(|stream| *stream == BACKFILL)
                .and_then(|_| RecordedAt::of(outer)),
            state: None,
        }
    }

    /// Returns the version that a state becomes.
    pub fn of_state(version: Version, state: State) -> Self {
        Self {
            version,
            place: Some(state.place),
            is_late: state.origin == StateOrigin::Late,
            backfilled_at: None,
            state: (!state.is_deleted).then_some(state.image),
        }
    }
}

// The state holds attribute values, which logs must not contain.
impl std::fmt::Debug for Recorded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorded")
            .field("version", &self.version)
            .field("place", &self.place)
            .field("is_late", &self.is_late)
            .finish_non_exhaustive()
    }
}

/// Converts a stored version item to one whose attributes are flat. Other items stay as they are.
#[must_use]
pub fn flat(mut item: Item) -> Item {
    let Some(image) = layout::take_image(&mut item) else {
        return item;
    };
    item.extend(
        HashMap::from(image)
            .into_iter()
            .map(|(name, value)| (shown(name), value)),
    );
    item
}

/// Splits a flat item into the attributes of the library and those of the user under their own names.
pub fn split_flat(item: Item) -> (Item, Item) {
    let attributes: HashMap<String, AttributeValue> = item.into();
    let (outer, image): (HashMap<_, _>, HashMap<_, _>) = attributes
        .into_iter()
        .partition(|(name, _)| OURS.contains(&name.as_str()));
    (Item::from(outer), as_written(Item::from(image)))
}

/// Returns the attributes of the user in a flat item under their own names.
#[must_use]
pub fn as_written(attributes: Item) -> Item {
    let own_name = |name: String| name.strip_prefix(PREFIX).map(str::to_owned).unwrap_or(name);
    let attributes: HashMap<String, AttributeValue> = attributes.into();
    let attributes = attributes.into_iter().map(|(name, value)| (own_name(name), value));
    Item::from(attributes.collect::<HashMap<_, _>>())
}

/// Returns the latest item that the newest version of an entity stands for: its flat attributes, with `Latest`. `newest` is the
/// greatest version, which differs if that is late.
#[must_use]
pub fn latest(mut flat: Item, newest: Version) -> Item {
    for mark in MARKS {
        flat.remove(mark);
    }
    let number = AttributeValue::N(newest.to_string());
    flat.insert(names::SK.to_owned(), AttributeValue::S(LATEST_KEY.to_owned()));
    flat.insert(names::RECORDED_VERSION.to_owned(), number.clone());
    flat.insert(names::LATEST.to_owned(), number);
    flat
}

/// Stream record behind a version of an attached table.
#[derive(Clone, PartialEq)]
pub struct StreamChange {
    /// Label of the stream.
    pub stream: String,
    /// Reason why history has the state.
    pub origin: StateOrigin,
    /// Value of the writers' own version attribute.
    pub item_version: Option<AttributeValue>,
}

impl StreamChange {
    /// Removes the attributes of the stream record from a flat item. `None` if the version does not come from one.
    pub fn take(flat: &mut Item) -> Option<Self> {
        let mut is = |name| flat.remove(name) == Some(AttributeValue::Bool(true));
        let origin = match (is(BASELINE), is(MISSED), is(LATE)) {
            (true, ..) => StateOrigin::Baseline,
            (_, true, _) => StateOrigin::Missed,
            (.., true) => StateOrigin::Late,
            _ => StateOrigin::Record,
        };
        let item_version = flat.remove(ITEM_VERSION);
        match flat.remove(STREAM) {
            Some(AttributeValue::S(stream)) => Some(Self {
                stream,
                origin,
                item_version,
            }),
            _ => None,
        }
    }
}

fn shown(name: String) -> String {
    match OURS.contains(&name.as_str()) || name.starts_with(PREFIX) {
        true => format!("{PREFIX}{name}"),
        false => name,
    }
}

#[cfg(test)]
mod tests;
