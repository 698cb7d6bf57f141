//! A model of `vzero undo` that knows only numbers at paths, with random histories of 30 items in a table of either kind.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead as _, BufReader},
};

use operations::undo::{
    options::{Conflicts, Options},
    selection::Selection,
};
use serde_json::{Map, Value, json};
use testkit::{updates, vzero::Vzero};

pub(crate) const JOB: &str = "import-7";
/// The last one is set when an item is created, and never changes.
const PATHS: [&str; 6] = ["a", "b", "m.x", "m.y", "m.z", "u"];

/// State of an item: the numbers at its paths, `None` if it does not exist. The map `m` always exists.
pub(crate) type State = Option<BTreeMap<&'static str, u64>>;

/// Attribute that a version changed, `None` for the item as a whole.
type Place = Option<&'static str>;

/// Table of a test.
pub(crate) trait Items {
    /// Options that select the changes of the job.
    const OF_JOB: &'static str;
    /// Returns the set of changes of the undo.
    fn set(&self) -> String {
        "U".to_owned()
    }
    /// Returns further options that select the undo if its set lacks deletions. They also select the deletions of an undo of the undo, so that
    /// it cannot be killed.
    fn of_deletions(&self) -> Option<&'static str> {
        None
    }
    fn vzero(&self) -> &Vzero;
    /// Writes the attributes of an item in plain JSON, null for a deletion.
    fn write(&self, number: usize, author: &str, attributes: Value);
    /// Delivers the stream.
    fn deliver(&self);
    /// Returns the item in DynamoDB JSON, null if it does not exist, and the number of its versions.
    fn stored(&self, number: usize) -> (Value, usize);
    /// Returns the number of the item of a line.
    fn number(line: &Value) -> usize;
}

pub(crate) fn options(selection: Selection) -> Options {
    Options {
        selection,
        conflicts: Conflicts::Leave,
        actor: None,
        reason: None,
        change_set: None,
        ordering: updates::Ordering::Arrival,
        write: updates::mode(updates::WriteMode::Inline),
        allow_expired: false,
    }
}

/// A generator of numbers, the same ones in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Versions of an item, each with its author.
#[derive(Default)]
struct Entity {
    number: usize,
    versions: Vec<(&'static str, State)>,
}

/// Expected result of an undo of the job's versions.
#[derive(Debug, PartialEq)]
struct Expected {
    action: &'static str,
    conflicts: BTreeSet<&'static str>,
    target: State,
}

impl Entity {
    fn current(&self) -> State {
        self.versions.last().and_then(|(_, state)| state.clone())
    }

    fn write(&mut self, items: &impl Items, author: &'static str, state: State) {
        if state.is_none() && self.current().is_none() {
            return;
        }
        let attributes = state.as_ref().map(|state| {
            let of = |prefix: &str| {
                let names = state
                    .iter()
                    .filter_map(|(path, number)| Some((path.strip_prefix(prefix)?, number)));
                names
                    .filter(|(name, _)| !name.contains('.'))
                    .collect::<BTreeMap<_, _>>()
            };
            let mut attributes = json!(of(""));
            attributes["m"] = json!(of("m."));
            attributes
        });
        items.write(self.number, author, json!(attributes));
        self.versions.push((author, state));
    }

    /// Changes the item at random: `unique` is a number that no other write uses.
    fn change(&mut self, items: &impl Items, author: &'static str, random: &mut Random, unique: u64) {
        let mut state = match (self.current(), author == JOB && random.below(3) == 0) {
            (Some(_), true) => return self.write(items, author, None),
            (Some(state), _) => state,
            (None, _) => BTreeMap::from([("u", unique)]),
        };
        for _ in 0..=random.below(2) {
            let path = PATHS[usize::try_from(random.below(5)).unwrap()];
            match random.below(5) {
                0 => drop(state.remove(path)),
                number => drop(state.insert(path, number)),
            }
        }
        self.write(items, author, Some(state));
    }

    /// Returns what each version changed, with its number from 0.
    fn changes(&self) -> Vec<(usize, &'static str, Place)> {
        let mut changes = Vec::new();
        let mut before: &State = &None;
        for (number, (author, state)) in self.versions.iter().enumerate() {
            match (before, state) {
                (Some(before), Some(state)) => {
                    let differ = PATHS.into_iter().filter(|path| before.get(path) != state.get(path));
                    changes.extend(differ.map(|path| (number, *author, Some(path))));
                }
                _ => changes.push((number, *author, None)),
            }
            before = state;
        }
        changes
    }

    fn before(&self, number: usize) -> State {
        number.checked_sub(1).and_then(|before| self.versions[before].1.clone())
    }

    /// Returns what an undo does, `None` if the job wrote no version.
    fn expected(&self) -> Option<Expected> {
        self.versions.iter().find(|(author, _)| *author == JOB)?;
        let (changes, current) = (self.changes(), self.current());
        let of_job: Vec<_> = changes.iter().filter(|(_, author, _)| *author == JOB).collect();
        let is_overwritten = |place: Place, number: usize| {
            changes.iter().any(|(later, author, other)| {
                let overlaps = place.is_none() || other.is_none() || place == *other;
                *author != JOB && *later > number && overlaps
            })
        };
        let (mut target, mut conflicts) = (current.clone(), BTreeSet::new());
        if of_job.iter().any(|(.., place)| place.is_none()) {
            let before = self.before(of_job[0].0);
            if before.is_none() && current.is_none() {
                // It is gone already.
            } else if of_job.iter().any(|(number, _, place)| is_overwritten(*place, *number)) {
                conflicts.insert("");
            } else {
                // Only the changes of others, one after the other.
                target = before;
                for (number, author, place) in changes.iter().filter(|(number, ..)| *number >= of_job[0].0) {
                    if *author != JOB
                        && let (Some(path), Some(target)) = (place, &mut target)
                    {
                        match self.versions[*number].1.as_ref().and_then(|state| state.get(path)) {
                            Some(value) => drop(target.insert(path, *value)),
                            None => drop(target.remove(path)),
                        }
                    }
                }
            }
        } else {
            for path in PATHS {
                let Some((number, ..)) = of_job.iter().find(|(.., place)| *place == Some(path)) else {
                    continue;
                };
                let value = self.before(*number).and_then(|before| before.get(path).copied());
                if current.as_ref().and_then(|current| current.get(path).copied()) == value {
                    continue;
                }
                if is_overwritten(Some(path), *number) {
                    conflicts.insert(path);
                } else if let (Some(target), Some(value)) = (&mut target, value) {
                    target.insert(path, value);
                } else if let Some(target) = &mut target {
                    target.remove(path);
                }
            }
        }
        if !conflicts.is_empty() {
            target.clone_from(&current);
        }
        let action = match (&current, &target) {
            (current, target) if current == target => "none",
            (None, _) => "restore",
            (_, None) => "delete",
            _ => "update",
        };
        Some(Expected {
            action,
            conflicts,
            target,
        })
    }
}

/// Reads an item, and the number of its versions.
fn stored(items: &impl Items, number: usize) -> (State, usize) {
    let (item, versions) = items.stored(number);
    let number = |value: &Value| value["N"].as_str()?.parse().ok();
    let of = |path: &str| match path.strip_prefix("m.") {
        Some(member) => number(&item["m"]["M"][member]),
        None => number(&item[path]),
    };
    let numbers = || PATHS.into_iter().filter_map(|path| Some((path, of(path)?)));
    ((!item.is_null()).then(|| numbers().collect()), versions)
}

/// Undoes a job, killed and run again, and undoes the undo.
pub(crate) fn check<I: Items>(items: &I) {
    let (table, mut random, of_job) = (items.vzero(), Random(7), I::OF_JOB);
    let of = |number| Entity {
        number,
        versions: Vec::new(),
    };
    let mut entities: Vec<_> = (0..30).map(of).collect();
    for (number, entity) in entities.iter_mut().enumerate() {
        let authors = ["amy", "bob", JOB, "amy", JOB, "eve"];
        for step in 0..=random.below(7) {
            // Only the job writes some entities.
            let author = match (number % 6, step) {
                (0, _) => JOB,
                (_, 0) => "amy",
                _ => authors[usize::try_from(random.below(6)).unwrap()],
            };
            let unique = 1000 + 100 * u64::try_from(number).unwrap() + step;
            entity.change(items, author, &mut random, unique);
        }
    }
    items.deliver();
    let mut expected = BTreeMap::new();
    for entity in &entities {
        expected.extend(entity.expected().map(|expected| (entity.number, expected)));
    }
    let actions: BTreeSet<_> = expected.values().map(|expected| expected.action).collect();
    assert_eq!(actions.len(), 4, "{actions:?}");
    let run = table.run(&format!("undo {of_job} --dry-run --output json"));
    let (summary, lines) = run.lines.split_last().unwrap();
    let mut planned = Map::new();
    for line in lines {
        let paths: BTreeSet<_> = line["Conflicts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|conflict| conflict["Path"].as_str().unwrap())
            .collect();
        planned.insert(I::number(line).to_string(), json!([line["Action"], paths]));
    }
    let model = expected
        .iter()
        .map(|(number, expected)| (number.to_string(), json!([expected.action, expected.conflicts])));
    assert_eq!(planned, model.collect());
    let conflicts = expected
        .values()
        .filter(|expected| !expected.conflicts.is_empty())
        .count();
    let changed = expected.values().filter(|expected| expected.action != "none").count();
    assert_eq!(
        (&summary["Entities"], &summary["Conflicts"], run.code),
        (&json!(changed), &json!(conflicts), 4)
    );
    let run_killed = |command: &str| {
        for lines in [1, 4, 9] {
            let mut child = table.start(command);
            let printed = BufReader::new(child.stdout.take().unwrap()).lines().take(lines);
            assert_eq!(printed.map(Result::unwrap).count(), lines);
            child.kill().unwrap();
            child.wait().unwrap();
            items.deliver();
        }
        let run = table.run(command);
        items.deliver();
        run
    };
    let set = items.set();
    let command = format!("undo {of_job} --yes --mode inline --as-actor me --as-change-set {set}");
    assert_eq!(run_killed(&command).code, 4);
    let check = |wanted: &dyn Fn(&Entity, &Expected) -> State, more: usize| {
        for entity in &entities {
            let (state, latest) = stored(items, entity.number);
            let versions = entity.versions.len();
            let Some(expected) = expected.get(&entity.number) else {
                assert_eq!((state, latest), (entity.current(), versions), "{}", entity.number);
                continue;
            };
            let more = if expected.action == "none" { 0 } else { more };
            assert_eq!(
                (state, latest),
                (wanted(entity, expected), versions + more),
                "{}",
                entity.number
            );
        }
    };
    check(&|_, expected| expected.target.clone(), 1);
    let command = format!("undo --change-set {set} --as-change-set {set}2 --yes --mode inline");
    match items.of_deletions() {
        None => assert_eq!(run_killed(&command).code, 0),
        Some(options) => {
            let run = table.run(&format!("undo --change-set {set} {options} --yes --mode inline"));
            assert_eq!((run.code, &run.lines.last().unwrap()["Entities"]), (0, &json!(changed)));
        }
    }
    items.deliver();
    check(&|entity, _| entity.current(), 2);
}
