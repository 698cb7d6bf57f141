//! Version items of an attached table.
//!
//! ```text
//! PK  SK           RequestId  Stream       RecordedAt  RecordedBy  Image
//! …   v0000000001  …42#old    2026-11-22…  …           stream      {…}    Baseline: true
//! …   v0000000002  …42        2026-11-22…  …           stream      {…}
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
//! A state that fits into no version item is [omitted](Omission): its version has the key attributes and `Omitted`.
//!
//! A version 1 that a [backfill](baseline) read from the table itself has the `Stream` and `RecordedBy` `backfill`, and no place in
//! the order of changes, so it comes before all of them.
//!
//! The user's item is inside `Image`, or in another attribute if it is nested too deeply or compressed, see [`layout`]. So its attributes are
//! never mistaken for those around it. A reader gets one flat item: an attribute of the user whose name is one of ours is shown as
//! `item:<name>`, and so is one whose name begins with `item:`.

use std::collections::HashMap;

use super::{
    change::{Place, Principal, STREAM},
    definition::AttachedTable,
    digits,
};
use crate::domain::{
    AttributeValue, Item, attributes::text, attribution, compression::Compression, entity::EntityId, keys::LATEST_KEY,
    layout, marks::MARKS, names, number::Decimal, recorded_at::RecordedAt, size, tombstone::is_deleted,
    version::Version, version_item::RECORDED_BY_STREAM,
};

/// `true` on the state with which history begins.
pub const BASELINE: &str = "Baseline";
/// `true` on a state of which history got no record.
pub const MISSED: &str = "Missed";
/// `true` on a state that is older than the version before it.
pub const LATE: &str = "Late";
/// Number of a version before a late one, by place.
pub const AFTER: &str = "After";
/// Number of the last version that is not late, in a late version.
pub const IN_ORDER: &str = "InOrder";
/// `RecordedAt` of that version.
pub const IN_ORDER_AT: &str = "InOrderAt";
/// Why a version has no state, see [`Omission`].
pub const OMITTED: &str = "Omitted";
/// Prefix of the sort key of a [late entry](late_entry).
pub const LATE_PREFIX: &str = "late#";
/// Number of the late version, in its late entry.
pub const VERSION: &str = "Version";
/// Value of the writers' own version attribute.
pub const ITEM_VERSION: &str = "ItemVersion";
/// `Stream` and `RecordedBy` of a state that a backfill read from the table.
pub const BACKFILL: &str = "backfill";
/// Reason of a deletion by TTL.
pub const TTL_REASON: &str = "TTL";

/// Prefix of an attribute of the user whose name is one of ours.
const PREFIX: &str = "item:";
/// Names that have a meaning in the items of the library.
const OURS: [&str; 38] = [
    names::PK,
    names::SK,
    names::LATEST,
    names::TTL,
    names::REQUEST_ID,
    names::REQUEST_PAYLOAD,
    names::RECENT_REQUESTS,
    names::REQUESTS_SINCE,
    names::REQUESTS_DROPPED,
    names::REQUESTS_AHEAD,
    names::PINNED,
    names::FLOOR,
    names::DELETED,
    names::ACTOR,
    names::REASON,
    names::SENDER,
    names::RESTORED_FROM,
    names::RECORDED_AT,
    names::RECORDED_BY,
    names::RECORDED_SINCE,
    names::RECORDED_TICK,
    names::RECORDED_VERSION,
    names::INCARNATION,
    names::PURGED,
    names::PURGED_AT,
    layout::IMAGE,
    layout::IMAGE_DEFLATE,
    names::PARTS,
    STREAM,
    BASELINE,
    MISSED,
    LATE,
    AFTER,
    IN_ORDER,
    IN_ORDER_AT,
    OMITTED,
    ITEM_VERSION,
    VERSION,
];
/// Number of digits of a sequence number in the key of a late entry. They have up to 40, see
/// [StreamRecord](https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_streams_StreamRecord.html).
const NUMBER_DIGITS: usize = 40;

/// State of an item, which becomes a version.
#[derive(Clone, PartialEq)]
pub struct State {
    /// Place of the state.
    pub place: Place,
    /// Time of the version. Not before that of any version with a lower place.
    pub recorded_at: Option<RecordedAt>,
    /// The item, or the key attributes of a deleted or omitted one.
    pub image: Item,
    /// `true` if the item was deleted.
    pub is_deleted: bool,
    /// Principal that deleted it.
    pub deleted_by: Option<Principal>,
    /// Reason why history has the state.
    pub origin: StateOrigin,
    /// Versions around a late state.
    pub around: Option<Around>,
    /// Reason why the version has no state.
    pub omission: Option<Omission>,
}

impl State {
    /// Replaces the image by the key attributes. Returns `false` if it has no others.
    pub fn omit(&mut self, table: &AttachedTable, reason: OmissionReason) -> bool {
        let bytes = size::of_item(&self.image);
        let before = self.image.len();
        let is_key = |name: &String| table.keys().any(|key| key.name == *name);
        let image: HashMap<String, AttributeValue> = std::mem::take(&mut self.image).into();
        let keys = image.into_iter().filter(|(name, _)| is_key(name));
        self.image = Item::from(keys.collect::<HashMap<_, _>>());
        let is_omitted = self.omission.is_none() && self.image.len() < before;
        if is_omitted {
            self.omission = Some(Omission { bytes, reason });
        }
        is_omitted
    }
}

/// Versions around a late state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Around {
    /// Number of the version before it by place, `None` if it is the first one.
    pub after: Option<Version>,
    /// Number of the last version that is not late.
    pub in_order: Version,
    /// Time of that version.
    pub in_order_at: Option<RecordedAt>,
}

/// Reason why a version has no state, and the size of the state in bytes. The record is in quarantine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Omission {
    /// Size of the item.
    pub bytes: usize,
    /// Reason.
    pub reason: OmissionReason,
}

/// Reason why a state is not part of its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OmissionReason {
    /// The version item would be larger than DynamoDB allows, also compressed.
    TooLarge,
    /// DynamoDB rejected the version item.
    Rejected,
}

impl OmissionReason {
    /// Returns the stored text.
    pub fn name(self) -> &'static str {
        match self {
            Self::TooLarge => "TooLarge",
            Self::Rejected => "Rejected",
        }
    }
}

impl Omission {
    /// Returns the omission of a version, `None` if it has its state.
    pub fn of(outer: &Item) -> Option<Self> {
        let AttributeValue::M(members) = outer.get(OMITTED)? else {
            return None;
        };
        let bytes = match members.get("Bytes") {
            Some(AttributeValue::N(bytes)) => Decimal::parse(bytes).ok().and_then(|bytes| bytes.to_u64()),
            _ => None,
        };
        let is_rejected = members.get("Reason") == Some(&s(OmissionReason::Rejected.name()));
        Some(Self {
            bytes: bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or_default(),
            reason: match is_rejected {
                true => OmissionReason::Rejected,
                false => OmissionReason::TooLarge,
            },
        })
    }

    /// Returns `{"Bytes": 409590, "Reason": "TooLarge"}`.
    pub fn to_json(self) -> serde_json::Value {
        serde_json::json!({"Bytes": self.bytes, "Reason": self.reason.name()})
    }

    fn value(self) -> AttributeValue {
        AttributeValue::M(HashMap::from([
            ("Bytes".to_owned(), AttributeValue::N(self.bytes.to_string())),
            ("Reason".to_owned(), s(self.reason.name())),
        ]))
    }
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
    if let Some(recorded) = state.recorded_at {
        members.insert(names::RECORDED_AT, recorded.value());
    }
    if let Some(around) = state.around {
        members.extend(around.after.map(|after| (AFTER, n(after))));
        members.insert(IN_ORDER, n(around.in_order));
        members.extend(around.in_order_at.map(|time| (IN_ORDER_AT, time.value())));
    }
    if let Some(omission) = state.omission {
        members.insert(OMITTED, omission.value());
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

/// Returns the item by which a late version is found, `None` for another one, or if its time is not known. Such items sort by time,
/// and then by place.
pub fn late_entry(entity: &EntityId, version: Version, state: &State) -> Option<Item> {
    let recorded_at = state.recorded_at.filter(|_| state.origin == StateOrigin::Late)?;
    let members = [
        (names::PK, s(entity.as_str())),
        (names::SK, s(&late_key(recorded_at, &state.place))),
        (VERSION, n(version)),
        (STREAM, s(&state.place.stream)),
        (names::REQUEST_ID, s(&state.place.request_id())),
    ];
    let members = members.into_iter().map(|(name, value)| (name.to_owned(), value));
    Some(Item::from(members.collect::<HashMap<_, _>>()))
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
    Some((version_in(item, VERSION)?, Place::of(item)?))
}

/// Returns the number of the version in an attribute.
fn version_in(item: &Item, name: &str) -> Option<Version> {
    match item.get(name)? {
        AttributeValue::N(number) => Version::new(Decimal::parse(number).ok()?.to_u64()?),
        _ => None,
    }
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

fn n(version: Version) -> AttributeValue {
    AttributeValue::N(version.to_string())
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
    /// Time of the version.
    pub recorded_at: Option<RecordedAt>,
    /// `true` if the version is the [baseline] of a backfill, which read the item until that time.
    pub is_backfilled: bool,
    /// State of the item.
    pub state: KnownState,
}

/// State of an item in a version.
#[derive(Clone, PartialEq)]
pub enum KnownState {
    /// The item exists.
    Item(Item),
    /// The item was deleted.
    Deleted,
    /// The item exists, but the version does not have its state, see [`Omission`].
    Unknown,
}

impl KnownState {
    /// Returns the item. `None` if it was deleted, or is not known.
    pub fn item(&self) -> Option<&Item> {
        match self {
            Self::Item(item) => Some(item),
            Self::Deleted | Self::Unknown => None,
        }
    }
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
        let recorded = Self::of_outer(version, outer);
        Self {
            state: match recorded.state {
                KnownState::Item(_) => KnownState::Item(image),
                other => other,
            },
            ..recorded
        }
    }

    /// Returns the version with these attributes around its image, with an empty item.
    pub fn of_outer(version: Version, outer: &Item) -> Self {
        let stream = text(outer, STREAM);
        Self {
            version,
            place: Place::of(outer),
            is_late: outer.get(LATE) == Some(&AttributeValue::Bool(true)),
            recorded_at: RecordedAt::of(outer),
            is_backfilled: stream == Some(BACKFILL),
            state: match (is_deleted(outer), outer.contains_key(OMITTED)) {
                (true, _) => KnownState::Deleted,
                (false, true) => KnownState::Unknown,
                (false, false) => KnownState::Item(Item::default()),
            },
        }
    }

    /// Returns the version that a state becomes.
    pub fn of_state(version: Version, state: State) -> Self {
        Self {
            version,
            place: Some(state.place),
            is_late: state.origin == StateOrigin::Late,
            recorded_at: state.recorded_at,
            is_backfilled: false,
            state: match (state.is_deleted, state.omission) {
                (true, _) => KnownState::Deleted,
                (false, Some(_)) => KnownState::Unknown,
                (false, None) => KnownState::Item(state.image),
            },
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

/// Returns the number and the time of the version that divides the history at a version: its own, or those of the last version before
/// it that is not late.
pub fn dividing(version: Version, flat: &Item) -> (Version, Option<RecordedAt>) {
    match version_in(flat, IN_ORDER).filter(|_| flat.contains_key(LATE)) {
        Some(in_order) => {
            let time = text(flat, IN_ORDER_AT).and_then(|time| RecordedAt::parse(time).ok());
            (in_order, time)
        }
        None => (version, RecordedAt::of(flat)),
    }
}

/// Returns the latest item that a version of an entity stands for: its flat attributes, with `Latest`.
#[must_use]
pub fn latest(mut flat: Item, version: Version) -> Item {
    for mark in MARKS {
        flat.remove(mark);
    }
    // The attributes in the version of a deletion are not the state before the deletion.
    if is_deleted(&flat) {
        attribution::pack_tombstone(&mut flat);
    }
    let number = n(version);
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
    /// Version before a late one, by place.
    pub after: Option<Version>,
    /// Reason why the version has no state.
    pub omission: Option<Omission>,
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
        let (after, omission) = (version_in(flat, AFTER), Omission::of(flat));
        for name in [AFTER, IN_ORDER, IN_ORDER_AT, OMITTED] {
            flat.remove(name);
        }
        match flat.remove(STREAM) {
            Some(AttributeValue::S(stream)) => Some(Self {
                stream,
                origin,
                after,
                omission,
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
