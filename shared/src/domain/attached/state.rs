//! State of an item of an attached table, which becomes a version.
//!
//! A state that fits into no version item is [omitted](Omission): its version has the key attributes and `Omitted`.

use serde::{Deserialize, Serialize};

use super::{
    change::{Place, Principal},
    definition::AttachedTable,
    names::{ACTOR_UNCHANGED, BASELINE, LATE, MISSED, OMITTED, TTL_REASON},
};
use crate::domain::{
    AttributeValue, Item,
    attributes::{s, same_value},
    erased::Erased,
    names,
    recorded_at::RecordedAt,
    size,
    version::Version,
};

/// Maximum size in bytes of a value of [`ChangedBy`]: a larger one is in the image only.
const MAX_VALUE_BYTES: usize = 1024;

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
    /// Author, reason and change set.
    pub changed_by: ChangedBy,
    /// Reason why history has the state.
    pub origin: StateOrigin,
    /// Versions around a late state.
    pub around: Option<Around>,
    /// Reason why the version has no state.
    pub omission: Option<Omission>,
    /// Erased values of the image and the author.
    pub erased: Erased,
}

impl State {
    /// Replaces the image by the key attributes. Returns `false` if it has no others.
    pub fn omit(&mut self, table: &AttachedTable, reason: OmissionReason) -> bool {
        let (bytes, before) = (size::of_item(&self.image), self.image.len());
        self.image.retain(|name, _| table.keys().any(|key| key.name == *name));
        let is_omitted = self.omission.is_none() && self.image.len() < before;
        if is_omitted {
            self.omission = Some(Omission { bytes, reason });
        }
        is_omitted
    }
}

/// Attributes of a version item that name its author: `Actor`, `Reason`, `ActorUnchanged` and `ChangeSet`. Empty for a deletion by a
/// client.
pub type ChangedBy = Vec<(&'static str, AttributeValue)>;

/// Returns the author that an item names. `before` is the state before it, empty if the item did not exist, `None` if it is not known:
/// with the same author, another write can have made the change. Only a change of its value makes a version part of a change set.
pub fn author_of_item(table: &AttachedTable, item: &Item, before: Option<&Item>) -> ChangedBy {
    let settings = table.settings();
    let is_small = |value: &&AttributeValue| size::of_value(value) <= MAX_VALUE_BYTES;
    let value = |item: &Item, name: &Option<String>| item.get(name.as_deref()?).filter(is_small).cloned();
    let actor = value(item, &settings.actor_attribute);
    let old = before.and_then(|before| value(before, &settings.actor_attribute));
    let set_of = |item: &Item| item.get(settings.change_set_attribute.as_deref()?).cloned();
    let is_in = |item: &Item, set: &AttributeValue| set_of(item).is_some_and(|old| same_value(set, &old));
    let is_new = |set: &AttributeValue| before.is_some_and(|before| !is_in(before, set));
    let change_set = value(item, &settings.change_set_attribute).filter(is_new);
    let unchanged = actor
        .as_ref()
        .zip(old.as_ref())
        .filter(|(actor, old)| same_value(actor, old));
    let members = [
        (ACTOR_UNCHANGED, unchanged.map(|_| AttributeValue::Bool(true))),
        (names::ACTOR, actor),
        (names::REASON, value(item, &settings.reason_attribute)),
        (names::CHANGE_SET, change_set),
    ];
    members
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
}

/// Returns the principal of a deletion, which is a service.
pub fn author_of_deletion(principal: Principal) -> ChangedBy {
    let reason = principal.is_ttl.then(|| (names::REASON, s(TTL_REASON)));
    [(names::ACTOR, s(principal.id))].into_iter().chain(reason).collect()
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

/// Reason why a version has no state, and the size of the state in bytes: `{"Bytes": 409590, "Reason": "TooLarge"}`. The record is in
/// quarantine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Omission {
    /// Size of the item.
    pub bytes: usize,
    /// Reason.
    pub reason: OmissionReason,
}

/// Reason why a state is not part of its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OmissionReason {
    /// The version item would be larger than DynamoDB allows, also compressed.
    TooLarge,
    /// DynamoDB rejected the version item.
    Rejected,
}

impl Omission {
    /// Returns the omission of a version, `None` if it has its state.
    pub fn of(outer: &Item) -> Option<Self> {
        serde_dynamo::from_attribute_value(outer.get(OMITTED)?.clone()).ok()
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

// The image holds attribute values, which logs must not contain.
crate::domain::redacted::redacted!(State, place, is_deleted, origin);
