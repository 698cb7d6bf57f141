use fastrand::Rng;
use serde_json::{Value, json};
use shared::domain::{attributes::same_item, plain};

use super::*;
use crate::change::Changes;

/// Number of histories.
const SEEDS: u64 = 2_000;

fn item(json: Value) -> Option<Item> {
    match plain::from_json(json).unwrap() {
        AttributeValue::M(members) => Some(members.into()),
        _ => None,
    }
}

/// Undoes the selected ones of a history that begins with the state before it. Returns the target, and the conflicts.
fn undone(history: &[(Value, bool)], on_conflict: OnConflict) -> (Value, String) {
    let items: Vec<_> = history.iter().map(|(state, _)| item(state.clone())).collect();
    let revisions = items
        .iter()
        .zip(history)
        .skip(1)
        .map(|(state, (_, is_selected))| Revision {
            state: state.as_ref(),
            is_selected: *is_selected,
        });
    let revisions: Vec<_> = revisions.collect();
    let undone = undo(items[0].as_ref(), &revisions, on_conflict);
    let target = undone
        .target
        .as_ref()
        .map_or(Value::Null, |item| plain::attributes(item).into());
    let value = |value: &Option<AttributeValue>| {
        value
            .as_ref()
            .map_or("-".to_owned(), |value| plain::attribute(value).to_string())
    };
    let conflicts = undone
        .conflicts
        .iter()
        .map(|conflict| format!("{} {} → {}", conflict.path, value(&conflict.from), value(&conflict.to)));
    (target, conflicts.collect::<Vec<_>>().join(", "))
}

#[test]
fn selected_changes_are_taken_back() {
    // The states of a history, `*` in front of the selected ones; the target; the conflicts.
    const CASES: &str = r#"
        [{"a": 1}, "*", {"a": 2}]                                                            -> {"a": 1} |
        [{"a": 1}, "*", {"a": 2}, {"a": 2, "b": 1}]                                          -> {"a": 1, "b": 1} |
        [{"a": 1}, "*", {"a": 2}, {"a": 3}]                                                  -> {"a": 3} | a 3 → 1
        [{"a": 1}, "*", {"a": 2}, {"a": 3}, "*", {"a": 4}]                                   -> {"a": 4} | a 4 → 1
        [{"a": 1}, "*", {"a": 2}, {"a": 1}]                                                  -> {"a": 1} |
        [{"a": 1}, "*", {"a": 2}, {"a": 1.0}]                                                -> {"a": 1} |
        [{"a": 1}, {"a": 2}, "*", {"a": 3}, "*", {"a": 4}]                                   -> {"a": 2} |
        [{"m": {"x": 1, "y": 1}}, "*", {"m": {"x": 2, "y": 1}}, {"m": {"x": 2, "y": 3}}]     -> {"m": {"x": 1, "y": 3}} |
        [{"m": {"x": 1}}, "*", {"m": {"x": 2}}, {"n": 1}]                                    -> {"n": 1} | m.x - → 1
        [{}, "*", {"m": {"x": 2}}, {"m": {"x": 2, "y": 1}}]                                  -> {"m": {"x": 2, "y": 1}} | m {"x":2,"y":1} → -
        [{"m": {"x": 1, "y": 5}}, "*", {"m": {"x": 2, "y": 5}}, {"m": {"x": 2, "y": 6}}, "*", {}] -> {"m": {"x": 1, "y": 6}} |
        [{"l": [1, 2]}, "*", {"l": [1, 2, 3]}, {"l": [0, 1, 2, 3]}]                          -> {"l": [0, 1, 2, 3]} | l [0,1,2,3] → [1,2]
        [{"l": [{"id": 1, "q": 1}]}, "*", {"l": [{"id": 1, "q": 2}]}, {"l": [{"id": 0}, {"id": 1, "q": 2}]}] -> {"l": [{"id": 0}, {"id": 1, "q": 1}]} |
        [{"l": [{"id": 1}, {"id": 2}, {"id": 3}]}, "*", {"l": [{"id": 1}, {"id": 3}]}, {"l": [{"id": 1}, {"id": 3}, {"id": 4}]}] -> {"l": [{"id": 1}, {"id": 2}, {"id": 3}, {"id": 4}]} |
        [{"l": [{"id": 1}, {"id": 2}]}, "*", {"l": [{"id": 2}, {"id": 1}]}, {"l": [{"id": 2}, {"id": 1}, {"id": 3}]}] -> {"l": [{"id": 1}, {"id": 2}, {"id": 3}]} |
        [{"l": [{"id": 1, "q": 1}]}, "*", {"l": [{"id": 1, "q": 2}]}, {"l": []}]             -> {"l": []} | l - → 1
        [{"l": [{"id": 1}, {"id": 2}]}, "*", {"l": [{"id": 2}, {"id": 1}, {"id": 3}]}, {"a": 1}] -> {"a": 1} |
        [{"s": {"$strings": ["a", "b"]}}, "*", {"s": {"$strings": ["b", "c"]}}, {"s": {"$strings": ["b", "c", "d"]}}] -> {"s": {"$strings": ["a", "b", "d"]}} |
        [{}, "*", {"s": {"$strings": ["a"]}}]                                              -> {} |
        [null, "*", {"a": 1}]                                                                -> null |
        [null, "*", {"a": 1}, "*", {"a": 2}]                                                 -> null |
        [null, "*", {"a": 1}, {"a": 1, "b": 1}]                                              -> {"a": 1, "b": 1} |  {"a":1,"b":1} → -
        [{"a": 1}, "*", {"a": 2}, "*", null]                                                 -> {"a": 1} |
        [{"a": 1}, {"a": 1, "b": 1}, "*", null, null]                                        -> {"a": 1, "b": 1} |
        [{"a": 1}, "*", null, {"a": 1}]                                                      -> {"a": 1} |
        [{"a": 1}, "*", null, {"a": 2}]                                                      -> {"a": 2} |  {"a":2} → {"a":1}
    "#;
    for line in CASES.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (states, expected) = line.split_once(" -> ").unwrap();
        let (target, conflicts) = expected.split_once(" |").unwrap();
        let states: Vec<Value> = serde_json::from_str(states).unwrap();
        let mut history = Vec::new();
        for (index, state) in states.iter().enumerate().filter(|(_, state)| **state != json!("*")) {
            history.push((state.clone(), index > 0 && states[index - 1] == json!("*")));
        }
        let undone = undone(&history, OnConflict::Keep);
        let expected: Value = serde_json::from_str(target).unwrap();
        let same = match (item(expected.clone()), item(undone.0.clone())) {
            (Some(expected), Some(target)) => same_item(&expected, &target),
            (expected, target) => expected.is_none() && target.is_none(),
        };
        assert!(same, "{line}\n{}", undone.0);
        assert_eq!(undone.1, conflicts.strip_prefix(' ').unwrap_or_default(), "{line}");
    }
}

#[test]
fn a_conflict_can_be_overwritten() {
    for (history, expected) in [
        (
            vec![
                (json!({"a": 1}), false),
                (json!({"a": 2}), true),
                (json!({"a": 3, "b": 1}), false),
            ],
            json!({"a": 1, "b": 1}),
        ),
        (
            vec![
                (json!({"m": {"x": 1}}), false),
                (json!({"m": {"x": 2}}), true),
                (json!({"m": 7}), false),
            ],
            json!({"m": {"x": 1}}),
        ),
        (
            vec![(Value::Null, false), (json!({"a": 1}), true), (json!({"a": 2}), false)],
            Value::Null,
        ),
        (
            vec![(json!({"a": 1}), false), (Value::Null, true), (json!({"a": 2}), false)],
            json!({"a": 1}),
        ),
        // The item comes back, but not with another change that was selected.
        (
            vec![
                (json!({"a": 1}), false),
                (json!({"a": 1, "b": 1}), true),
                (json!({"a": 2, "b": 2}), true),
                (Value::Null, false),
            ],
            json!({"a": 1}),
        ),
        // The item comes back with the first value. The second one is a conflict all the same.
        (
            vec![
                (json!({"a": 1, "b": 1}), false),
                (json!({"a": 2, "b": 2}), true),
                (Value::Null, false),
            ],
            json!({"a": 1, "b": 1}),
        ),
    ] {
        let (target, conflicts) = undone(&history, OnConflict::Overwrite);
        assert_eq!(conflicts, undone(&history, OnConflict::Keep).1);
        assert_eq!((target, conflicts.is_empty()), (expected, false), "{history:?}");
    }
}

/// A random history of an item with attributes, maps, sets and lists.
fn history(rng: &mut Rng) -> Vec<(Value, bool)> {
    let mut state = json!({"a": 0, "m": {"x": 0, "y": 0, "n": {"z": 0}}, "l": [{"id": 1, "q": 0}, {"id": 2, "q": 0}]});
    let mut history = vec![(state.clone(), false)];
    for number in 1..rng.u64(2..9) {
        for _ in 0..rng.u8(1..3) {
            let pointers = ["/a", "/b", "/m/x", "/m/y", "/m/n/z", "/m/n", "/m/w", "/l/0/q", "/l/1/q"];
            let pointer = pointers[rng.usize(..pointers.len())];
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            match (state.pointer_mut(parent), rng.u8(..6)) {
                (Some(Value::Object(parent)), 0) if !parent.contains_key("id") => drop(parent.remove(name)),
                (Some(Value::Object(parent)), _) if name == "n" => {
                    drop(parent.insert(name.to_owned(), json!({"z": number})));
                }
                (Some(Value::Object(parent)), _) => drop(parent.insert(name.to_owned(), json!(rng.u64(..4) * number))),
                _ => {}
            }
            let list = state["l"].as_array_mut().unwrap();
            match rng.u8(..8) {
                0 => list.insert(
                    rng.usize(..=list.len()),
                    json!({"id": 10 * number + rng.u64(..9) + 100 * list.len() as u64, "q": 0}),
                ),
                1 if !list.is_empty() => drop(list.remove(rng.usize(..list.len()))),
                2 => rng.shuffle(list),
                _ => {}
            }
        }
        history.push((state.clone(), rng.bool()));
    }
    history
}

#[test]
fn random_histories_keep_the_rules() {
    for seed in 0..SEEDS {
        let mut rng = Rng::with_seed(seed);
        let history = history(&mut rng);
        let items: Vec<_> = history.iter().map(|(state, _)| item(state.clone()).unwrap()).collect();
        let revisions = |history: &[(Value, bool)]| -> Vec<bool> {
            history.iter().skip(1).map(|(_, is_selected)| *is_selected).collect()
        };
        let run = |items: &[Item], selected: &[bool], on_conflict| {
            let revisions = items.iter().skip(1).zip(selected);
            let revisions: Vec<_> = revisions
                .map(|(state, is_selected)| Revision {
                    state: Some(state),
                    is_selected: *is_selected,
                })
                .collect();
            undo(Some(&items[0]), &revisions, on_conflict)
        };
        let selected = revisions(&history);
        // Nothing is selected: nothing changes.
        let none = run(&items, &vec![false; selected.len()], OnConflict::Keep);
        assert!(
            none.conflicts.is_empty() && none.target.as_ref() == items.last(),
            "seed {seed}"
        );
        // All versions: the state before them.
        let all = run(&items, &vec![true; selected.len()], OnConflict::Keep);
        assert!(
            all.conflicts.is_empty() && same_item(all.target.as_ref().unwrap(), &items[0]),
            "seed {seed}"
        );
        // An undo that is repeated changes nothing, and has the same conflicts.
        for on_conflict in [OnConflict::Keep, OnConflict::Overwrite] {
            let once = run(&items, &selected, on_conflict);
            let mut again: Vec<_> = items.clone();
            again.push(once.target.clone().unwrap());
            let mut selected: Vec<_> = selected.clone();
            selected.push(false);
            let twice = run(&again, &selected, on_conflict);
            let changes = Changes::between(once.target.as_ref(), twice.target.as_ref());
            assert!(changes.changes.is_empty(), "seed {seed}: {changes:?}\n{history:?}");
            if on_conflict == OnConflict::Overwrite {
                assert!(twice.conflicts.is_empty(), "seed {seed}");
                continue;
            }
            assert!(
                twice.conflicts.len() <= once.conflicts.len(),
                "seed {seed}: {:?} {:?} {history:?} {:?}",
                once.conflicts,
                twice.conflicts,
                once.target
            );
            // An undo of the undo brings back the state before it.
            let last = again.len() - 2;
            let undone = run(&again[last..], &[true], OnConflict::Keep);
            assert!(same_item(undone.target.as_ref().unwrap(), &items[last]), "seed {seed}");
        }
    }
}
