//! States that a change adds to history.
//!
//! Versions that are not late are in the order of their [places](Place), so the last one tells whether a change is new:
//!
//! | place of the change | history | decision |
//! |---|---|---|
//! | after the last version | | its old state, if history does not have it, then its new state |
//! | of a version | | recorded already |
//! | before the last version | has it | recorded already |
//! | before the last version | does not have it | its new state, as a late version |
//!
//! The baseline of a backfill has no place, and comes before all changes. It was read from the table, so it has the changes whose
//! records are still in the stream: a change that is not later, and whose old image is another state, is part of it, and makes no
//! version.
//!
//! A late version is stored after the last version with a lower place, so the search for a place ends there.

use std::collections::{BTreeSet, VecDeque};

use super::{
    change::{Change, NewState, Place},
    definition::AttachedTable,
    item::{Recorded, State, StateOrigin},
};
use crate::domain::{AttributeValue, Item, attributes::same_value, purge_marker::CLOCK_TOLERANCE, version::Version};

/// Newest versions of an entity.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tail {
    /// Versions in descending order.
    pub versions: Vec<Recorded>,
    /// `true` if there are no older versions.
    pub is_complete: bool,
}

impl Tail {
    /// Returns the number of the newest version, 0 if there is none.
    pub fn newest(&self) -> u64 {
        self.versions.first().map_or(0, |newest| newest.version.get())
    }

    /// Returns the number after that of the newest version. `None` after the greatest.
    pub fn next(&self) -> Option<Version> {
        Version::new(self.newest() + 1)
    }

    /// Returns the last version that is not late: the state that the item has, if history follows it.
    pub fn last(&self) -> Option<&Recorded> {
        self.in_order().next()
    }

    fn in_order(&self) -> impl Iterator<Item = &Recorded> {
        self.versions.iter().filter(|version| !version.is_late)
    }
}

/// Decision about a change.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// History has the change.
    AlreadyRecorded,
    /// The change makes no version: the item stayed the same, only ignored attributes changed, or the baseline of a backfill is
    /// later.
    Unchanged,
    /// These states are the next versions.
    Append(VecDeque<State>),
    /// Older versions decide.
    ReadMore,
}

/// Decides about a change of an entity with these newest versions.
pub fn decide(table: &AttachedTable, change: &Change, tail: &Tail) -> Decision {
    let place = Some(&change.place);
    if tail.versions.iter().any(|version| version.place.as_ref() == place) {
        return Decision::AlreadyRecorded;
    }
    let last = tail.last();
    let before = tail.in_order().find(|version| version.place.as_ref() < place);
    let is_late = last.is_some_and(|last| last.place.as_ref() > place);
    if before.is_none() && !tail.is_complete {
        return Decision::ReadMore;
    }
    if before.is_some_and(|before| is_part_of_baseline(table.ignored(), change, before)) {
        return Decision::Unchanged;
    }
    let states = match is_late {
        true => new_state(table.ignored(), change, before, StateOrigin::Late)
            .into_iter()
            .collect(),
        false => old_state(table.ignored(), change, last)
            .into_iter()
            .chain(new_state(table.ignored(), change, last, StateOrigin::Record))
            .collect::<VecDeque<_>>(),
    };
    match states.is_empty() {
        true => Decision::Unchanged,
        false => Decision::Append(states),
    }
}

/// Returns `true` if the version before a change is the baseline of a backfill, which was read after the change. The times of the
/// stream are in whole seconds, and the clock of the backfill can differ. So near that time, old images decide: that of the first
/// change after the baseline is the baseline. Without old images, a change near that time is recorded.
fn is_part_of_baseline(ignored: &BTreeSet<String>, change: &Change, before: &Recorded) -> bool {
    let (Some(read_at), Some(created)) = (before.backfilled_at, change.created_micros) else {
        return false;
    };
    let read = i64::try_from(read_at.to_duration().as_micros()).unwrap_or(i64::MAX);
    let tolerance = i64::try_from(CLOCK_TOLERANCE.as_micros()).unwrap_or_default();
    if !change.has_old_images {
        return created < read.saturating_sub(tolerance);
    }
    let follows = match (&before.state, &change.old) {
        (Some(baseline), Some(old)) => is_same(baseline, old, ignored),
        _ => false,
    };
    !follows && created <= read.saturating_add(tolerance)
}

/// Returns the state before a change, if it is not the last one of history.
fn old_state(ignored: &BTreeSet<String>, change: &Change, last: Option<&Recorded>) -> Option<State> {
    if !change.has_old_images {
        return None;
    }
    let is_same = match (last.map(|last| last.state.as_ref()), &change.old) {
        (Some(Some(last)), Some(old)) => is_same(last, old, ignored),
        (Some(Some(_)), None) => matches!(change.new, NewState::Deleted(_)),
        (Some(None) | None, old) => old.is_none(),
    };
    let origin = match last {
        Some(_) => StateOrigin::Missed,
        None => StateOrigin::Baseline,
    };
    (!is_same).then(|| state(change, change.place.of_old(), change.old.as_ref(), origin))
}

/// Returns the state after a change, if it differs from the state before: the old image, or that of the version before if the
/// stream delivers no old images.
fn new_state(
    ignored: &BTreeSet<String>,
    change: &Change,
    before: Option<&Recorded>,
    origin: StateOrigin,
) -> Option<State> {
    let NewState::Item(new) = &change.new else {
        return Some(state(change, change.place.clone(), None, origin));
    };
    let old = match change.has_old_images {
        true => change.old.as_ref(),
        false => before.and_then(|before| before.state.as_ref()),
    };
    let is_same = old.is_some_and(|old| is_same(old, new, ignored));
    (!is_same).then(|| state(change, change.place.clone(), Some(new), origin))
}

fn state(change: &Change, place: Place, item: Option<&Item>, origin: StateOrigin) -> State {
    let is_new = place == change.place;
    State {
        place,
        created_micros: change.created_micros,
        image: item.unwrap_or(&change.key).clone(),
        is_deleted: item.is_none(),
        deleted_by: match &change.new {
            NewState::Deleted(by) if is_new => by.clone(),
            _ => None,
        },
        origin,
    }
}

/// Returns `true` if two items are equal except for the ignored attributes: numbers are compared by value, sets in any order.
pub fn is_same(a: &Item, b: &Item, ignored: &BTreeSet<String>) -> bool {
    let counted = |item: &Item| item.keys().filter(|name| !ignored.contains(*name)).count();
    let is_in_b = |(name, value): (&String, &AttributeValue)| {
        ignored.contains(name) || b.get(name).is_some_and(|other| same_value(value, other))
    };
    counted(a) == counted(b) && a.iter().all(is_in_b)
}

/// Comparison of an item with its history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agreement {
    /// There is no version of the item.
    Missing,
    /// The last version has the state of the item.
    Same,
    /// The last version has another state.
    Differs,
}

/// Compares the state of an item, `None` if it was deleted, with its newest versions, except for ignored attributes.
pub fn compare(table: &AttachedTable, item: Option<&Item>, tail: &Tail) -> Agreement {
    let is_same = match (tail.last().map(|last| &last.state), item) {
        (None, _) => return Agreement::Missing,
        (Some(Some(state)), Some(item)) => is_same(state, item, table.ignored()),
        (Some(state), item) => state.is_none() && item.is_none(),
    };
    match is_same {
        true => Agreement::Same,
        false => Agreement::Differs,
    }
}

#[cfg(test)]
mod tests;
