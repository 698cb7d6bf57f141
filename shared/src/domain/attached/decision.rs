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
//! A late version is stored after the last version with a lower place, so the search for a place ends there. If history was pruned,
//! a record without a kept version before it is [`Decision::Pruned`]: its version can have existed.
//!
//! A record is dropped only by what a strongly consistent read shows. An eventually consistent one can lack versions, so that a
//! change looks like none. Two of them can show different states, and the insert of a number that is free proves only that there is no
//! newer version: if older ones decide, because the change or the newest version is late, they are read consistently too.

use std::collections::{BTreeSet, VecDeque};

use super::{
    change::{Change, NewState, Place},
    definition::AttachedTable,
    item::{Around, ChangedBy, KnownState, Recorded, State, StateOrigin, author_of_deletion, author_of_item},
};
use crate::domain::{
    AttributeValue, Item,
    attributes::same_value,
    erase::erase_state,
    erased::{Erased, ErasedPath, Erasures, Namespace, hide},
    recorded_at::{CLOCK_TOLERANCE, RecordedAt},
    size,
    version::Version,
};

/// Size of an item in bytes from which on it can be omitted from its version: what a version item has beside it is smaller.
const NEARLY_TOO_LARGE: usize = size::MAX_ITEM_BYTES - 16 * 1024;

/// Newest versions of an entity.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tail {
    /// Versions in descending order.
    pub versions: Vec<Recorded>,
    /// `true` if there are no older versions.
    pub is_complete: bool,
    /// `true` if no newer version existed when the versions were read or written.
    pub is_consistent: bool,
    /// First version that was not pruned, if it was read after the versions.
    pub floor: Option<Version>,
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

    /// Returns the versions that are not late, the newest first.
    pub fn in_order(&self) -> impl Iterator<Item = &Recorded> {
        self.versions.iter().filter(|version| !version.is_late)
    }

    /// Returns `true` if a version of the record of this place has no state.
    pub fn is_omitted(&self, place: &Place) -> bool {
        let of_old = place.of_old();
        let is_of_record = |version: &&Recorded| {
            let version = version.place.as_ref();
            version == Some(place) || version == Some(&of_old)
        };
        let mut of_record = self.versions.iter().filter(is_of_record);
        of_record.any(|version| version.state == KnownState::Unknown)
    }

    /// Keeps only the states that decide about a change at this place: the last one in order, and the one before the place.
    fn forget_others(&mut self, place: &Place) {
        let kept = [self.last(), self.before(place)].map(|kept| kept.map(|kept| kept.version));
        for version in &mut self.versions {
            if version.state.item().is_some() && !kept.contains(&Some(version.version)) {
                version.state = KnownState::Forgotten;
            }
        }
    }

    /// Returns the version before a place.
    fn before(&self, place: &Place) -> Option<&Recorded> {
        let is_earlier = |version: &&Recorded| version.place.as_ref() < Some(place);
        let earlier = self.versions.iter().filter(is_earlier);
        earlier.max_by_key(|version| version.place.as_ref())
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
    /// The record is older than all versions that pruning kept.
    Pruned,
    /// Older versions decide. The tail keeps only the states that decide about the change, so that a long one fits into memory.
    ReadMore,
    /// The floor of the history decides.
    ReadFloor,
    /// The versions are to be read again, with strongly consistent reads.
    ReadConsistently,
}

/// Decides about a change of an entity with these newest versions.
pub fn decide(table: &AttachedTable, change: &Change, tail: &mut Tail) -> Decision {
    let place = Some(&change.place);
    if let Some(index) = tail.versions.iter().position(|version| version.place.as_ref() == place) {
        // Perhaps the version of its old image is omitted, and the record is not in quarantine yet.
        let is_last = index + 1 == tail.versions.len() && !tail.is_complete;
        let is_large = change
            .old
            .as_ref()
            .is_some_and(|old| size::of_item(old) >= NEARLY_TOO_LARGE);
        return match is_last && is_large {
            true => Decision::ReadMore,
            false => Decision::AlreadyRecorded,
        };
    }
    let last = tail.last();
    let before = tail.in_order().find(|version| version.place.as_ref() < place);
    let is_late = last.is_some_and(|last| last.place.as_ref() > place);
    if before.is_none() && !tail.is_complete {
        tail.forget_others(&change.place);
        return Decision::ReadMore;
    }
    let after = tail.before(&change.place).filter(|_| is_late && !change.has_old_images);
    if after.is_some_and(|after| after.state == KnownState::Forgotten) {
        return Decision::ReadConsistently;
    }
    let states = match is_late {
        _ if before.is_some_and(|before| is_part_of_baseline(table, change, before)) => VecDeque::new(),
        true => late_state(table, change, tail).into_iter().collect(),
        false => next_states(table, change, tail),
    };
    let floor = tail.floor.unwrap_or(Version::FIRST);
    let is_pruned = floor > Version::FIRST && before.is_none_or(|before| before.version < floor);
    let is_among_older = is_late || tail.versions.first().is_some_and(|newest| newest.is_late);
    match states.is_empty() {
        is_dropped if !tail.is_consistent && (is_dropped || is_among_older) => Decision::ReadConsistently,
        true => Decision::Unchanged,
        false if is_late && tail.floor.is_none() => Decision::ReadFloor,
        false if is_late && is_pruned => Decision::Pruned,
        false => Decision::Append(states),
    }
}

/// Returns the states that a change after the last version adds.
fn next_states(table: &AttachedTable, change: &Change, tail: &Tail) -> VecDeque<State> {
    let last = tail.last();
    let states = old_state(table, change, last)
        .into_iter()
        .chain(new_state(table, change, last, StateOrigin::Record));
    let mut not_before = last.and_then(time);
    let with_time = |(number, state): (u64, State)| {
        not_before = recorded_at(change, number, not_before, None);
        State {
            recorded_at: not_before,
            ..state
        }
    };
    (tail.newest() + 1..).zip(states).map(with_time).collect()
}

/// Returns the state that a change before the last version adds.
fn late_state(table: &AttachedTable, change: &Change, tail: &Tail) -> Option<State> {
    let last = tail.last()?;
    let place = Some(&change.place);
    let after = tail.before(&change.place);
    let state = new_state(table, change, after, StateOrigin::Late)?;
    let later = tail.versions.iter().filter(|version| version.place.as_ref() > place);
    let next = later.min_by_key(|version| version.place.as_ref());
    Some(State {
        recorded_at: recorded_at(change, tail.newest() + 1, after.and_then(time), next.and_then(time)),
        around: Some(Around {
            after: after.map(|after| after.version),
            in_order: last.version,
            in_order_at: last.recorded_at,
        }),
        ..state
    })
}

/// Returns the time that a version has among those of the record's creation. The time of a backfill is one of another clock, and its
/// version is the first one.
fn time(version: &Recorded) -> Option<RecordedAt> {
    version.recorded_at.filter(|_| !version.is_backfilled)
}

/// Returns the time of a change's version, between those of the versions around it by place.
fn recorded_at(
    change: &Change,
    number: u64,
    not_before: Option<RecordedAt>,
    not_after: Option<RecordedAt>,
) -> Option<RecordedAt> {
    let own = change.created_micros.zip(Version::new(number));
    let own = own.map(|(created, version)| RecordedAt::of_stream_record(created, version));
    let time = own.max(not_before)?;
    Some(not_after.map_or(time, |not_after| time.min(not_after)))
}

/// Returns `true` if the version before a change is the baseline of a backfill, which was read after the change. The times of the
/// stream are in whole seconds, and the clock of the backfill can differ. So near that time, old images decide: that of the first
/// change after the baseline is the baseline. Without old images, a change near that time is recorded.
fn is_part_of_baseline(table: &AttachedTable, change: &Change, before: &Recorded) -> bool {
    let read_at = before.recorded_at.filter(|_| before.is_backfilled);
    let (Some(read_at), Some(created)) = (read_at, change.created_micros) else {
        return false;
    };
    let read = i64::try_from(read_at.to_duration().as_micros()).unwrap_or(i64::MAX);
    let tolerance = i64::try_from(CLOCK_TOLERANCE.as_micros()).unwrap_or_default();
    if !change.has_old_images {
        return created < read.saturating_sub(tolerance);
    }
    let follows = match (&before.state, &change.old) {
        (KnownState::Item(_), Some(old)) => has_state(before, old, table.ignored()),
        _ => false,
    };
    !follows && created <= read.saturating_add(tolerance)
}

/// Returns the state before a change, if it is not the last one of history.
fn old_state(table: &AttachedTable, change: &Change, last: Option<&Recorded>) -> Option<State> {
    if !change.has_old_images {
        return None;
    }
    let is_same = match (last, &change.old) {
        (Some(last), Some(old)) => has_state(last, old, table.ignored()),
        (Some(last), None) => last.state == KnownState::Deleted || matches!(change.new, NewState::Deleted(_)),
        (None, old) => old.is_none(),
    };
    let origin = match last {
        Some(_) => StateOrigin::Missed,
        None => StateOrigin::Baseline,
    };
    let none = Item::default();
    let before = last.and_then(|last| last.state.known(&none));
    let old = change.old.as_ref();
    let changed_by = old.map(|old| author_of_item(table, old, before)).unwrap_or_default();
    let mut state = (!is_same).then(|| state(change, change.place.of_old(), old, changed_by, origin))?;
    // The old image can have the value that was erased from the last version.
    if let Some(last) = last {
        erase_state(&mut state, &Erasures::again(&last.erased), table);
    }
    Some(state)
}

/// Returns the state after a change, if it differs from the state before: the old image, or that of the version before if the
/// stream delivers no old images.
fn new_state(table: &AttachedTable, change: &Change, before: Option<&Recorded>, origin: StateOrigin) -> Option<State> {
    let place = change.place.clone();
    let new = match &change.new {
        NewState::Item(new) => new,
        NewState::Deleted(by) => {
            let changed_by = by.clone().map(author_of_deletion).unwrap_or_default();
            return Some(state(change, place, None, changed_by, origin));
        }
    };
    let none = Item::default();
    let old = match change.has_old_images {
        true => Some(change.old.as_ref().unwrap_or(&none)),
        false => before.and_then(|before| before.state.known(&none)),
    };
    let is_same = old.is_some_and(|old| is_same(old, new, table.ignored()));
    (!is_same).then(|| state(change, place, Some(new), author_of_item(table, new, old), origin))
}

fn state(change: &Change, place: Place, item: Option<&Item>, changed_by: ChangedBy, origin: StateOrigin) -> State {
    State {
        place,
        recorded_at: None,
        image: item.unwrap_or(&change.key).clone(),
        is_deleted: item.is_none(),
        changed_by,
        origin,
        around: None,
        omission: None,
        erased: Erased::default(),
    }
}

/// Returns `true` if an item can have the state of a version. Ignored attributes are not compared, and a value that was erased from the
/// version equals any value. Nothing shows that a state that is not known is another one.
pub fn has_state(version: &Recorded, item: &Item, ignored: &BTreeSet<String>) -> bool {
    let state = match &version.state {
        KnownState::Item(state) => state,
        KnownState::Unknown | KnownState::Forgotten => return true,
        KnownState::Deleted => return false,
    };
    if version.erased.is_empty() {
        return is_same(state, item, ignored);
    }
    let of_attributes = |path: &&ErasedPath| path.namespace() == Namespace::Attribute;
    let [state, item] = [state, item].map(|item| {
        let mut item = item.clone();
        hide(&mut item, version.erased.paths().filter(of_attributes));
        item
    });
    is_same(&state, &item, ignored)
}

/// Returns `true` if two items are equal except for the ignored attributes: numbers are compared by value, sets in any order.
pub fn is_same(a: &Item, b: &Item, ignored: &BTreeSet<String>) -> bool {
    let counted = |item: &Item| item.keys().filter(|name| !ignored.contains(*name)).count();
    let is_in_b = |(name, value): (&String, &AttributeValue)| {
        ignored.contains(name) || b.get(name).is_some_and(|other| same_value(value, other))
    };
    counted(a) == counted(b) && a.iter().all(is_in_b)
}

#[cfg(test)]
mod tests;
