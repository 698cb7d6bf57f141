//! Values that were erased from versions, and the record of it.
//!
//! ```text
//! vN          Erased    {"[\"Attribute\",\"Place\",\"Street\"]": {Commitment, At, Reason}, …}   the values are gone
//! purge marker  Erasures  {"[\"Attribute\",\"Place\"]": {At, To, Reason}, …}                    what an operator erased
//! ```
//!
//! The mark `Erased` on a version item has one entry for each member that the version had. A map whose last member is erased
//! is removed too, so the members of the item and the commitments of the mark are those that were sealed. An entry without `Commitment` is
//! of a version that was stored after the erasure.
//!
//! `Erasures` are in the item of the [purge marker](super::purge_marker), so that stream-fn finds both with one read. A path covers all
//! paths below it. A version that arrives late is stored without them.
//!
//! Comparisons treat an erased path as equal to any value, also none: see [`hide`].

mod path;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;
use thiserror::Error;

pub use self::path::{ErasedPath, InvalidPath, Namespace};
use super::{
    AttributeValue, Item,
    attributes::{self, n, s},
    names,
    recorded_at::{CLOCK_TOLERANCE, RecordedAt},
    time::EpochMillis,
    version::Version,
};

type Map = HashMap<String, AttributeValue>;

const AT: &str = "At";
const REASON: &str = "Reason";
const TO: &str = "To";
const COMMITMENT: &str = "Commitment";

/// Attributes with hashes of whole updates, by which a value can be guessed. An erasure removes them from versions and from latest items.
pub const FINGERPRINTS: [&str; 2] = [names::REQUEST_PAYLOAD, names::RECENT_REQUESTS];

/// Time and reason of an erasure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErasedValue {
    /// Commitment to the value, `None` if the version was stored after the erasure.
    pub commitment: Option<[u8; 32]>,
    /// Time of the erasure.
    pub at: RecordedAt,
    /// Reason of the operator.
    pub reason: String,
}

/// Members that were erased from a version: the mark of its item.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Erased(pub BTreeMap<ErasedPath, ErasedValue>);

impl Erased {
    /// Returns the mark of a version item. Entries that another program wrote in another form are ignored.
    pub fn of(item: &Item) -> Self {
        let Some(AttributeValue::M(entries)) = item.get(names::ERASED) else {
            return Self::default();
        };
        let entry = |(path, value): (&String, &AttributeValue)| {
            let (at, reason, members) = parts(value)?;
            let commitment = match members.get(COMMITMENT) {
                Some(AttributeValue::B(bytes)) => Some(bytes.as_slice().try_into().ok()?),
                Some(_) => return None,
                None => None,
            };
            let value = ErasedValue { commitment, at, reason };
            Some((ErasedPath::parse(path).ok()?, value))
        };
        Self(entries.iter().filter_map(entry).collect())
    }

    /// Returns the attribute value, `None` without entries.
    pub fn value(&self) -> Option<AttributeValue> {
        let entry = |(path, erased): (&ErasedPath, &ErasedValue)| {
            let commitment = erased.commitment.map(|bytes| AttributeValue::B(bytes.to_vec()));
            let more = commitment.map(|bytes| (COMMITMENT, bytes));
            (path.to_string(), map(erased.at, &erased.reason, more))
        };
        (!self.0.is_empty()).then(|| AttributeValue::M(self.0.iter().map(entry).collect()))
    }

    /// Puts the mark on an item. Without entries, it removes the mark.
    pub fn put_on(&self, item: &mut Item) {
        match self.value() {
            Some(value) => item.insert(names::ERASED.to_owned(), value),
            None => item.remove(names::ERASED),
        };
    }

    /// Returns `[{"Attribute": ["Place", "Street"], "At": …, "Reason": …}]`, `None` if nothing was erased.
    pub fn to_json(&self) -> Option<Value> {
        let entry = |(path, value): (&ErasedPath, &ErasedValue)| {
            let mut json = path.to_json();
            (json[AT], json[REASON]) = (value.at.to_string().into(), value.reason.as_str().into());
            json
        };
        (!self.is_empty()).then(|| self.0.iter().map(entry).collect())
    }

    /// Returns `true` if nothing was erased.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the erased attributes: a restore or an undo of a version could bring them back.
    #[must_use]
    pub fn of_attributes(mut self) -> Self {
        self.0.retain(|path, _| path.namespace() == Namespace::Attribute);
        self
    }

    /// Returns the paths.
    pub fn paths(&self) -> impl Iterator<Item = &ErasedPath> {
        self.0.keys()
    }

    /// Adds a member that is erased now. One that was erased before stays as it is.
    pub fn add(&mut self, path: ErasedPath, value: ErasedValue) {
        self.0.entry(path).or_insert(value);
    }
}

/// Erasure of a path from the versions of an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Erasure {
    /// Time of the erasure.
    pub at: RecordedAt,
    /// Last version from which the path is erased.
    pub to: Version,
    /// Reason of the operator.
    pub reason: String,
}

impl Erasure {
    /// Returns the entry of a version that is stored after the erasure.
    pub fn value(&self) -> ErasedValue {
        ErasedValue {
            commitment: None,
            at: self.at,
            reason: self.reason.clone(),
        }
    }
}

/// Erasures of an entity, by path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Erasures(pub BTreeMap<ErasedPath, Erasure>);

impl Erasures {
    /// Returns the erasures in the item of a purge marker, `None` if they are invalid.
    pub fn of(item: &Item) -> Option<Self> {
        let entries = match item.get(names::ERASURES) {
            None => return Some(Self::default()),
            Some(AttributeValue::M(entries)) => entries,
            Some(_) => return None,
        };
        let entry = |(path, value): (&String, &AttributeValue)| {
            let (at, reason, members) = parts(value)?;
            let to = attributes::version(members, TO)?;
            Some((ErasedPath::parse(path).ok()?, Erasure { at, to, reason }))
        };
        entries.iter().map(entry).collect::<Option<_>>().map(Self)
    }

    /// Returns the erasures of another state from which the same members are erased.
    pub fn again(erased: &Erased) -> Self {
        let entry = |(path, value): (&ErasedPath, &ErasedValue)| {
            let (at, reason) = (value.at, value.reason.clone());
            let to = Version::FIRST;
            (path.clone(), Erasure { at, to, reason })
        };
        Self(erased.0.iter().map(entry).collect())
    }

    /// Returns the attribute of the marker's item, `None` without erasures.
    pub fn attribute(&self) -> Option<(&'static str, AttributeValue)> {
        let entry = |(path, erasure): (&ErasedPath, &Erasure)| {
            let more = Some((TO, n(erasure.to)));
            (path.to_string(), map(erasure.at, &erasure.reason, more))
        };
        let entries: HashMap<_, _> = self.0.iter().map(entry).collect();
        (!entries.is_empty()).then_some((names::ERASURES, AttributeValue::M(entries)))
    }

    /// Returns all of both: a path can be erased again, and covers no fewer versions than before.
    #[must_use]
    pub fn max(&self, other: &Self) -> Self {
        let mut both = self.clone();
        for (path, new) in &other.0 {
            let erasure = both.0.entry(path.clone()).or_insert_with(|| new.clone());
            if erasure.at < new.at {
                (erasure.at, erasure.reason) = (new.at, new.reason.clone());
            }
            erasure.to = erasure.to.max(new.to);
        }
        both
    }

    /// Returns those that cover a numbered version. `purged_at` is the time of the entity's last purge: a version that the purge does not
    /// cover is of a later entity, from which nothing was erased before the purge.
    #[must_use]
    pub fn of_version(&self, version: Version, purged_at: Option<RecordedAt>) -> Self {
        let is_before = |at: RecordedAt| purged_at.is_some_and(|purged| at.after(CLOCK_TOLERANCE) < purged);
        self.filtered(|erasure| version <= erasure.to && !is_before(erasure.at))
    }

    /// Returns those that cover a stream record of an attached table: its version gets its number on arrival, so its time decides. A record
    /// without a time is covered.
    #[must_use]
    pub fn of_record(&self, created: Option<EpochMillis>) -> Self {
        let covers = |at: RecordedAt| created.is_none_or(|created| created <= at.after(CLOCK_TOLERANCE).floor_millis());
        self.filtered(|erasure| covers(erasure.at))
    }

    fn filtered(&self, is_kept: impl Fn(&Erasure) -> bool) -> Self {
        let kept = self.0.iter().filter(|(_, erasure)| is_kept(erasure));
        Self(kept.map(|(path, erasure)| (path.clone(), erasure.clone())).collect())
    }

    /// Returns `true` if nothing was erased.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the erasure that covers a member. `None` for a copy of one.
    pub fn covering(&self, member: &ErasedPath) -> Option<&Erasure> {
        let mut all = self.0.iter();
        all.find(|(path, _)| path.covers(member)).map(|(_, erasure)| erasure)
    }

    /// Returns the last erasure, `None` without erasures.
    pub fn newest(&self) -> Option<&Erasure> {
        self.0.values().max_by_key(|erasure| erasure.at)
    }
}

/// Returns `At`, `Reason` and all members of an entry.
fn parts(value: &AttributeValue) -> Option<(RecordedAt, String, &Map)> {
    let AttributeValue::M(members) = value else {
        return None;
    };
    let text = |name: &str| match members.get(name)? {
        AttributeValue::S(text) => Some(text.as_str()),
        _ => None,
    };
    Some((RecordedAt::parse(text(AT)?).ok()?, text(REASON)?.to_owned(), members))
}

fn map(at: RecordedAt, reason: &str, more: Option<(&str, AttributeValue)>) -> AttributeValue {
    let members = [(AT, at.value()), (REASON, s(reason))].into_iter().chain(more);
    AttributeValue::M(members.map(|(name, value)| (name.to_owned(), value)).collect())
}

/// A path names a part of a list or of a set, which are erased as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{path} is inside of a list, which is erased as a whole: erase {possible}")]
pub struct InsideList {
    /// The path.
    pub path: ErasedPath,
    /// Path of the list.
    pub possible: ErasedPath,
}

/// Checks that no path names a part of a list in these attributes.
///
/// # Errors
///
/// Returns [`InsideList`] with the path that is possible.
pub fn check<'a>(attributes: &Map, paths: impl IntoIterator<Item = &'a ErasedPath>) -> Result<(), InsideList> {
    // Paths of metadata have one name.
    for path in paths {
        let mut map = attributes;
        for (length, name) in (1..path.names().len()).zip(path.names()) {
            match map.get(name) {
                Some(AttributeValue::M(inner)) => map = inner,
                Some(AttributeValue::L(_)) => {
                    return Err(InsideList {
                        path: path.clone(),
                        possible: path.first(length),
                    });
                }
                _ => break,
            }
        }
    }
    Ok(())
}

/// Removes the members at a path and below from attributes, and returns them.
pub(super) fn take_members(attributes: &mut Map, path: &ErasedPath) -> Vec<(ErasedPath, AttributeValue)> {
    let mut members = Vec::new();
    let mut rest: Vec<_> = take(attributes, path.names(), false)
        .map(|value| (path.clone(), value))
        .into_iter()
        .collect();
    while let Some((path, value)) = rest.pop() {
        match value {
            AttributeValue::M(map) if !map.is_empty() && path.namespace() == Namespace::Attribute => {
                rest.extend(map.into_iter().map(|(name, value)| (path.with(name), value)));
            }
            value => members.push((path, value)),
        }
    }
    members
}

/// Removes the values at these paths from the attributes of one of two versions that are compared, and maps that are then empty: the other
/// version can have no such map at all.
pub fn hide<'a>(attributes: &mut Map, paths: impl IntoIterator<Item = &'a ErasedPath>) {
    for path in paths {
        take(attributes, path.names(), true);
    }
}

/// Copies the values at these paths of attributes from the current item into a state that has none there, which can be restored then.
pub fn keep<'a>(state: &mut Map, current: &Map, paths: impl IntoIterator<Item = &'a ErasedPath>) {
    for path in paths
        .into_iter()
        .filter(|path| path.namespace() == Namespace::Attribute)
    {
        copy(state, current, path.names());
    }
}

fn copy(state: &mut Map, current: &Map, names: &[String]) {
    match (names, names.first().and_then(|name| current.get_key_value(name))) {
        ([_], Some((name, value))) => drop(state.entry(name.clone()).or_insert_with(|| value.clone())),
        ([_, rest @ ..], Some((name, AttributeValue::M(current)))) => {
            let mut inner = match state.get(name) {
                None => Map::new(),
                Some(AttributeValue::M(inner)) => inner.clone(),
                Some(_) => return,
            };
            copy(&mut inner, current, rest);
            if !inner.is_empty() {
                state.insert(name.clone(), AttributeValue::M(inner));
            }
        }
        _ => {}
    }
}

/// Returns what was erased from one of two versions that are compared.
pub(super) fn of_either(one: &Item, other: &Item) -> BTreeSet<ErasedPath> {
    let marks = [one, other].map(Erased::of).into_iter();
    marks.flat_map(|erased| erased.0.into_keys()).collect()
}

/// Removes the value at these names, and maps around it that become empty. With `also_empty`, they can have been empty before.
fn take(map: &mut Map, names: &[String], also_empty: bool) -> Option<AttributeValue> {
    let (name, rest) = names.split_first()?;
    if rest.is_empty() {
        return map.remove(name);
    }
    let AttributeValue::M(inner) = map.get_mut(name)? else {
        return None;
    };
    let taken = take(inner, rest, also_empty);
    if inner.is_empty() && (also_empty || taken.is_some()) {
        map.remove(name);
    }
    taken
}

#[cfg(test)]
mod tests;
