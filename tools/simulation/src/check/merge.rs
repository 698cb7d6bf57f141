//! What an undo has to make of an item, by the rules of `vzero undo`, on the JSON of the stream.
//!
//! A place is a path of names of maps, empty for the item. The values have no lists and sets.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::undo::Conflicts;

type Place = Vec<String>;

/// A change of a place by the version with this index.
struct Change {
    place: Place,
    version: usize,
}

/// Item without the selected changes.
#[derive(Debug, PartialEq)]
pub(super) struct Merged {
    pub(super) item: Option<Value>,
    pub(super) has_conflicts: bool,
}

/// Undoes the selected versions. Each has its state, a map in DynamoDB JSON, and is selected or not. `before` is the state before the
/// first one.
pub(super) fn merge(before: Option<&Value>, versions: &[(Option<&Value>, bool)], conflicts: Conflicts) -> Merged {
    let states: Vec<_> = [before]
        .into_iter()
        .chain(versions.iter().map(|(state, _)| *state))
        .collect();
    let (mut selected, mut others) = (Vec::new(), Vec::new());
    for (version, (_, is_selected)) in versions.iter().enumerate() {
        let mut places = Vec::new();
        compare(states[version], states[version + 1], &mut Vec::new(), &mut places);
        let changes = places.into_iter().map(|place| Change { place, version });
        if *is_selected { &mut selected } else { &mut others }.extend(changes);
    }
    // The newest first.
    selected.reverse();
    let all: BTreeSet<_> = selected.iter().map(|change| &change.place).collect();
    let is_inner = |place: &&Place| (0..place.len()).any(|end| all.contains(&place[..end].to_vec()));
    let current = states.last().copied().flatten();
    let (mut inverted, mut left, mut settled) = (Vec::new(), Vec::new(), Vec::new());
    for place in all.iter().copied().filter(|place| !is_inner(place)) {
        let inside: Vec<_> = selected
            .iter()
            .filter(|change| change.place.starts_with(place))
            .collect();
        let newest = inside.first().map_or(0, |change| change.version + 1);
        let mut wanted = get(states[newest], place).cloned();
        for change in &inside {
            let (old, like) = (
                get(states[change.version], &change.place),
                get(states[change.version], place),
            );
            put(&mut wanted, &change.place[place.len()..], old.cloned(), like);
        }
        let is_overwritten = inside.iter().any(|change| {
            let mut later = others.iter().filter(|other| other.version > change.version);
            later.any(|other| other.place.starts_with(&change.place) || change.place.starts_with(&other.place))
        });
        let oldest = states[inside.last().map_or(0, |change| change.version)];
        match is_overwritten {
            _ if get(current, place) == wanted.as_ref() => settled.push((place, wanted, oldest)),
            true => left.push((place, wanted, oldest)),
            false => inverted.extend(inside),
        }
    }
    let mut item = current.cloned();
    let has_conflicts = !left.is_empty();
    if has_conflicts && conflicts == Conflicts::Leave {
        return Merged { item, has_conflicts };
    }
    let left = left.into_iter().filter(|_| conflicts == Conflicts::Overwrite);
    for (place, wanted, like) in left.chain(settled) {
        if get(item.as_ref(), place) != wanted.as_ref() {
            put(&mut item, place, wanted, like);
        }
    }
    inverted.sort_by_key(|change| std::cmp::Reverse(change.version));
    for change in inverted {
        let old = states[change.version];
        put(&mut item, &change.place, get(old, &change.place).cloned(), old);
    }
    Merged { item, has_conflicts }
}

/// Finds the places whose values differ.
fn compare(old: Option<&Value>, new: Option<&Value>, at: &mut Place, found: &mut Vec<Place>) {
    match [old, new].map(|value| value.and_then(|value| value["M"].as_object())) {
        [Some(before), Some(after)] => {
            let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
            for name in names {
                at.push(name.clone());
                compare(before.get(name), after.get(name), at, found);
                at.pop();
            }
        }
        _ if old == new => {}
        _ => found.push(at.clone()),
    }
}

fn get<'v>(item: Option<&'v Value>, place: &[String]) -> Option<&'v Value> {
    place.iter().try_fold(item?, |value, name| value["M"].get(name))
}

/// Puts a value at a place. A map that is missing comes back as it is in `like`.
fn put(item: &mut Option<Value>, place: &[String], value: Option<Value>, like: Option<&Value>) {
    let Some((name, rest)) = place.split_first() else {
        *item = value;
        return;
    };
    let is_map = item.as_ref().is_some_and(|item| item["M"].is_object());
    if !is_map && value.is_some() {
        *item = like.cloned();
    }
    if let Some(members) = item.as_mut().and_then(|item| item["M"].as_object_mut()) {
        let mut part = members.remove(name);
        put(&mut part, rest, value, like.and_then(|like| like["M"].get(name)));
        members.extend(part.map(|part| (name.clone(), part)));
    }
}
