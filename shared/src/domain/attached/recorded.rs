//! Versions that the history of an attached table's item has.

use super::{
    change::{Place, STREAM},
    digits,
    flat::split_flat,
    names::{BACKFILL, LATE, OMITTED},
    state::{State, StateOrigin},
};
use crate::domain::{
    AttributeValue, Item, attributes::text, erased::Erased, layout, recorded_at::RecordedAt, tombstone::is_deleted,
    version::Version,
};

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
    /// `true` if the version is the [baseline](super::item::baseline) of a backfill, which read the item until that time.
    pub is_backfilled: bool,
    /// State of the item.
    pub state: KnownState,
    /// Erased values of the state.
    pub erased: Erased,
}

/// State of an item in a version.
#[derive(Clone, PartialEq)]
pub enum KnownState {
    /// The item exists.
    Item(Item),
    /// The item was deleted.
    Deleted,
    /// The item exists, but the version does not have its state, see [`Omission`](super::item::Omission).
    Unknown,
    /// The item exists, and its state was not kept, see [`Decision::ReadMore`](super::decision::Decision::ReadMore).
    Forgotten,
}

impl KnownState {
    fn new(is_deleted: bool, is_omitted: bool, image: Item) -> Self {
        match (is_deleted, is_omitted) {
            (true, _) => Self::Deleted,
            (false, true) => Self::Unknown,
            (false, false) => Self::Item(image),
        }
    }

    /// Returns the item. `None` if it was deleted, or is not known.
    pub fn item(&self) -> Option<&Item> {
        match self {
            Self::Item(item) => Some(item),
            Self::Deleted | Self::Unknown | Self::Forgotten => None,
        }
    }

    /// Returns the item, or `none` if it was deleted. `None` if it is not known.
    pub(super) fn known<'a>(&'a self, none: &'a Item) -> Option<&'a Item> {
        match self {
            Self::Item(item) => Some(item),
            Self::Deleted => Some(none),
            Self::Unknown | Self::Forgotten => None,
        }
    }
}

impl Recorded {
    /// Reads a stored version item. `None` if it is another item.
    pub fn of(mut item: Item) -> Option<Self> {
        let version = digits().version_of_item(&item)?;
        let image = layout::take_image(&mut item).unwrap_or_default();
        Some(Self::of_parts(version, &item, image))
    }

    /// Reads a version item whose attributes are [flat](super::item::flat). `None` if it is another item.
    pub fn of_flat(item: Item) -> Option<Self> {
        let version = digits().version_of_item(&item)?;
        let (outer, image) = split_flat(item);
        Some(Self::of_parts(version, &outer, image))
    }

    /// Returns the version with this image and these attributes around it.
    pub fn of_parts(version: Version, outer: &Item, image: Item) -> Self {
        Self {
            version,
            place: Place::of(outer),
            is_late: outer.get(LATE) == Some(&AttributeValue::Bool(true)),
            recorded_at: RecordedAt::of(outer),
            is_backfilled: text(outer, STREAM) == Some(BACKFILL),
            state: KnownState::new(is_deleted(outer), outer.contains_key(OMITTED), image),
            erased: Erased::of(outer),
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
            state: KnownState::new(state.is_deleted, state.omission.is_some(), state.image),
            erased: state.erased,
        }
    }
}

// The state holds attribute values, which logs must not contain.
crate::domain::redacted::redacted!(Recorded, version, place, is_late);
