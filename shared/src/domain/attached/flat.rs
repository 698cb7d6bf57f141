//! Flat version items of an attached table, as readers get them.
//!
//! An attribute of the user whose name is one of the library's is shown as `item:<name>`, and so is one whose name begins with
//! `item:`. So it is never mistaken for those around the image.

use std::collections::HashMap;

use super::{
    change::STREAM,
    names::{ACTOR_UNCHANGED, AFTER, BASELINE, IN_ORDER, IN_ORDER_AT, ITEM_VERSION, LATE, MISSED, OMITTED, VERSION},
    state::{Omission, StateOrigin},
};
use crate::domain::{
    AttributeValue, Item,
    attributes::{self, n, s, text},
    attribution,
    keys::LATEST_KEY,
    layout,
    marks::MARKS,
    names,
    recorded_at::RecordedAt,
    tombstone::is_deleted,
    version::Version,
};

/// Prefix added to a user's attribute if its name is reserved.
const PREFIX: &str = "item:";
/// Names that have a meaning in the items of the library, besides the [bookkeeping](attribution::bookkeeping) attributes.
const OURS: [&str; 17] = [
    names::FLOOR,
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
    ACTOR_UNCHANGED,
    VERSION,
];

/// Returns all names that have a meaning in the items of the library.
pub(super) fn ours() -> impl Iterator<Item = &'static str> {
    OURS.into_iter().chain(attribution::besides_attributes())
}

fn is_ours(name: &str) -> bool {
    ours().any(|own| own == name)
}

/// Converts a stored version item to one whose attributes are flat. Other items stay as they are.
#[must_use]
pub fn flat(mut item: Item) -> Item {
    match layout::take_image(&mut item) {
        Some(image) => join_flat(item, image),
        None => item,
    }
}

/// Joins the library's attributes and the user's attributes, the inverse of [`split_flat`].
#[must_use]
pub fn join_flat(mut outer: Item, image: Item) -> Item {
    let image = HashMap::<String, AttributeValue>::from(image).into_iter();
    outer.extend(image.map(|(name, value)| (shown(name), value)));
    outer
}

/// Splits a flat item into the library's attributes and the user's attributes. The user's attributes get their original names.
pub fn split_flat(item: Item) -> (Item, Item) {
    let attributes = HashMap::<String, AttributeValue>::from(item).into_iter();
    let (outer, image): (HashMap<_, _>, _) = attributes.partition(|(name, _)| is_ours(name));
    (Item::from(outer), as_written(Item::from(image)))
}

/// Returns the attributes of the user in a flat item under their own names.
#[must_use]
pub fn as_written(attributes: Item) -> Item {
    let own_name = |name: String| name.strip_prefix(PREFIX).map(str::to_owned).unwrap_or(name);
    let attributes = HashMap::<String, AttributeValue>::from(attributes).into_iter();
    let attributes = attributes.map(|(name, value)| (own_name(name), value));
    Item::from(attributes.collect::<HashMap<_, _>>())
}

/// Returns where a version is in the order of history: its own number and time. A late version has the number and the time of the last
/// version before it that is not late.
pub fn dividing(version: Version, flat: &Item) -> (Version, Option<RecordedAt>) {
    match attributes::version(flat, IN_ORDER).filter(|_| flat.contains_key(LATE)) {
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
    // Readers of the latest item see what was erased.
    for mark in MARKS.into_iter().filter(|mark| *mark != names::ERASED) {
        flat.remove(mark);
    }
    // The attributes in the version of a deletion are not the state before the deletion.
    if is_deleted(&flat) {
        attribution::pack_tombstone(&mut flat);
    }
    let number = n(version);
    flat.insert(names::SK.to_owned(), s(LATEST_KEY));
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
        let (after, omission) = (attributes::version(flat, AFTER), Omission::of(flat));
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
    match is_ours(&name) || name.starts_with(PREFIX) {
        true => format!("{PREFIX}{name}"),
        false => name,
    }
}
