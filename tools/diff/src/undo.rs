//! An item without selected changes: a three-way merge of its history.
//!
//! ```text
//! state before ─> version 4 (selected) ─> version 5 ─> version 6 (selected) ─> version 7, the current state
//!                 Price 10 → 99           Note +       Price 99 → 120          Qty 1 → 2
//!
//! target: Price 10, Note and Qty as they are
//! ```
//!
//! The selected changes are inverted at their places, the newest first. A place is a conflict if a version that is not selected
//! changed it, or a part of it, or a value that contains it, after a selected version did. If the current value is the target already, it
//! is neither a change nor a conflict, so an undo that is repeated changes nothing.
//!
//! A place is a member of a map, an element of a set, or an element of a list with an [identity](crate::alignment::identities).
//! A list whose elements have none is one value. The item as a whole is a place too: a creation and a deletion change it.

mod place;

use std::cmp::Reverse;

use shared::domain::{AttributeValue, Item};

use self::place::{Node, Place};
use crate::path::Path;

/// A version of the item.
#[derive(Debug, Clone, Copy)]
pub struct Revision<'a> {
    /// State of the item, `None` if it is deleted.
    pub state: Option<&'a Item>,
    /// `true` if its changes are to be undone.
    pub is_selected: bool,
}

/// Treatment of a place with a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnConflict {
    /// The current value stays.
    Keep,
    /// The value from before the selected changes is restored.
    Overwrite,
}

/// Result of an undo.
#[derive(Debug, Clone, PartialEq)]
pub struct Undone {
    /// The item without the selected changes, `None` if it does not exist then.
    pub target: Option<Item>,
    /// Places where a later version has changed what is to be undone.
    pub conflicts: Vec<Conflict>,
}

/// A place where a later version has changed what is to be undone.
#[derive(Debug, Clone, PartialEq)]
pub struct Conflict {
    /// Path of the value in the current item, of the set for an element of a set, of the list for an element that it does not have.
    /// Empty for the item as a whole.
    pub path: Path,
    /// Current value.
    pub from: Option<AttributeValue>,
    /// Value from before the selected changes.
    pub to: Option<AttributeValue>,
}

/// Undoes the selected versions of an item. `before` is the state before the first version.
pub fn undo(before: Option<&Item>, revisions: &[Revision<'_>], on_conflict: OnConflict) -> Undone {
    let states = std::iter::once(before).chain(revisions.iter().map(|revision| revision.state));
    let states: Vec<_> = states.map(|state| state.map(Node::of_item)).collect();
    let (mut selected, mut others) = (Vec::new(), Vec::new());
    for (version, revision) in revisions.iter().enumerate() {
        let places = Node::changed(states[version].as_ref(), states[version + 1].as_ref()).into_iter();
        let changes = places.map(|place| Changed { place, version });
        match revision.is_selected {
            true => selected.extend(changes),
            false => others.extend(changes),
        }
    }
    // A place comes directly before its parts, and the order of a list after its elements.
    selected.sort_unstable();
    others.sort_unstable();
    let current = states.last().and_then(Option::as_ref);
    let (mut inverse, mut overwritten, mut settled) = (Vec::new(), Vec::new(), Vec::new());
    let mut rest = selected.as_slice();
    while let Some(Changed { place, .. }) = rest.first() {
        let (changes, after) = rest.split_at(rest.partition_point(|change| place.contains(&change.place)));
        rest = after;
        let wanted = inverted(&states, changes);
        let first = changes.iter().map(|change| change.version).min();
        let before = first.and_then(|first| states[first].as_ref());
        let is_same = place.is_same(current, wanted.as_ref());
        let list = place.containers().last().filter(|_| place.is_order());
        let returns = |other: &Place| list.as_ref().is_some_and(|list| list.contains(other));
        match changes.iter().any(|change| is_overwritten(change, &others)) {
            true if list.is_some() || !is_same => overwritten.push((place, wanted, before)),
            // Elements that come back get their place.
            false
                if !is_same
                    || inverse.iter().any(|change: &&Changed| returns(&change.place))
                    || overwritten.iter().any(|(place, ..)| returns(place)) =>
            {
                inverse.extend(changes);
            }
            _ => settled.push((place, wanted, before)),
        }
    }
    let (mut target, mut conflicts) = (current.cloned(), Vec::new());
    let (orders, values): (Vec<_>, Vec<_>) = overwritten.into_iter().partition(|(place, ..)| place.is_order());
    let mut restore = |target: &mut Option<Node>, (place, wanted, before): (&Place, Option<Node>, Option<&Node>)| {
        // The order of a list is compared when its elements are back.
        if place.is_order() && place.is_same(target.as_ref(), wanted.as_ref()) {
            return;
        }
        conflicts.push(Conflict {
            path: place.path(current, before),
            from: place.node(current).and_then(Node::value),
            to: wanted.as_ref().and_then(Node::value),
        });
        if on_conflict == OnConflict::Overwrite {
            place.put(target, wanted, before);
        }
    };
    for place in values {
        restore(&mut target, place);
    }
    // A container that came back is that of between two selected changes.
    for (place, wanted, before) in settled {
        if !place.is_same(target.as_ref(), wanted.as_ref()) {
            place.put(&mut target, wanted, before);
        }
    }
    inverse.sort_by_key(|change| Reverse(change.version));
    for Changed { place, version } in inverse {
        let before = states[*version].as_ref();
        place.put(&mut target, place.node(before).cloned(), before);
    }
    for place in orders {
        restore(&mut target, place);
    }
    Undone {
        target: target.map(Node::into_item),
        conflicts,
    }
}

/// A place that a version changed.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Changed {
    place: Place,
    version: usize,
}

/// Returns the value at the place of the first change without these changes of it and of its parts.
fn inverted(states: &[Option<Node>], changes: &[Changed]) -> Option<Node> {
    let place = &changes.first()?.place;
    let mut newest_first: Vec<_> = changes.iter().collect();
    newest_first.sort_by_key(|change| Reverse(change.version));
    let mut value = place.node(states[newest_first[0].version + 1].as_ref()).cloned();
    for change in newest_first {
        let before = place.node(states[change.version].as_ref());
        let part = change.place.within(place);
        part.put(&mut value, part.node(before).cloned(), before);
    }
    value
}

/// Returns `true` if a later one of the other changes, which are sorted, is of this place, of a part of it, or of one that contains it.
fn is_overwritten(change: &Changed, others: &[Changed]) -> bool {
    let is_later = |other: &Changed| other.version > change.version;
    let of = |place: &Place| {
        let start = others.partition_point(|other| other.place < *place);
        others[start..].iter()
    };
    let mut parts = of(&change.place).take_while(|other| change.place.contains(&other.place));
    let mut containers = change.place.containers().flat_map(|container| {
        let same = of(&container);
        same.take_while(move |other| other.place == container)
    });
    parts.any(is_later) || containers.any(is_later)
}

#[cfg(test)]
mod tests;
