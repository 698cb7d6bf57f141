//! `vzero undo`, also against a model of it that knows only numbers at paths.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead as _, BufReader},
};

use operations::undo::{
    apply::apply,
    options::{Conflicts, Options},
    plan::plan,
    selection::Selection,
};
use serde_json::{Map, Value, json};
use testkit::{database, script_tests, table::Table, updates};

script_tests! {
    Table;
    fn one_version_is_undone_and_later_changes_stay();
    fn conflicts_of_an_undo_are_kept_skipped_or_overwritten();
    fn selected_versions_of_all_entities_are_undone();
}

const JOB: &str = "import-7";
/// The last one is set when an item is created, and never changes.
const PATHS: [&str; 6] = ["a", "b", "m.x", "m.y", "m.z", "u"];

/// State of an item: the numbers at its paths, `None` if it does not exist. The map `m` always exists.
type State = Option<BTreeMap<&'static str, u64>>;

/// Attribute that a version changed, `None` for the item as a whole.
type Place = Option<&'static str>;

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

/// Versions of an entity, each with its author.
struct Entity {
    id: String,
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

    fn write(&mut self, table: &Table, author: &'static str, state: State) {
        if state.is_none() && self.current().is_none() {
            return;
        }
        let mut update = match &state {
            None => json!({"Deleted": true}),
            Some(state) => json!(
                ["a", "b", "u"]
                    .map(|name| (name, state.get(name)))
                    .into_iter()
                    .collect::<BTreeMap<_, _>>()
            ),
        };
        if let Some(state) = &state {
            let members = state
                .iter()
                .filter_map(|(path, number)| Some((path.strip_prefix("m.")?, number)));
            update["m"] = json!(members.collect::<BTreeMap<_, _>>());
        }
        (update["ID"], update["Actor"]) = (json!(self.id), json!(author));
        table.write(update);
        self.versions.push((author, state));
    }

    /// Changes the item at random: `unique` is a number that no other write uses.
    fn change(&mut self, table: &Table, author: &'static str, random: &mut Random, unique: u64) {
        let mut state = match (self.current(), author == JOB && random.below(3) == 0) {
            (Some(_), true) => return self.write(table, author, None),
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
        self.write(table, author, Some(state));
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

/// Reads the latest item of an entity, and its version.
fn stored(table: &Table, id: &str) -> (State, u64) {
    let item = &table.items_of(id)["v0"];
    let number = |value: &Value| value["N"].as_str().unwrap().parse::<u64>().unwrap();
    let latest = number(&item["Latest"]);
    if item["Deleted"]["BOOL"] == true {
        return (None, latest);
    }
    let of = |path: &str| match path.strip_prefix("m.") {
        Some(member) => item["m"]["M"].get(member),
        None => item.get(path),
    };
    let numbers = PATHS.into_iter().filter_map(|path| Some((path, number(of(path)?))));
    (Some(numbers.collect()), latest)
}

#[test]
fn an_undo_of_a_job_is_that_of_the_model() {
    let (table, mut random) = (crate::new_table(), Random(7));
    let mut entities: Vec<_> = (0..30)
        .map(|number| Entity {
            id: format!("E{number}"),
            versions: Vec::new(),
        })
        .collect();
    for (number, entity) in entities.iter_mut().enumerate() {
        let authors = ["amy", "bob", JOB, "amy", JOB, "eve"];
        for step in 0..=random.below(7) {
            // Some entities are those of the job alone.
            let author = match (number % 6, step) {
                (0, _) => JOB,
                (_, 0) => "amy",
                _ => authors[usize::try_from(random.below(6)).unwrap()],
            };
            let unique = 1000 + 100 * u64::try_from(number).unwrap() + step;
            entity.change(&table, author, &mut random, unique);
        }
    }
    let mut expected = BTreeMap::new();
    for entity in &entities {
        expected.extend(entity.expected().map(|expected| (entity.id.clone(), expected)));
    }
    let actions: BTreeSet<_> = expected.values().map(|expected| expected.action).collect();
    assert_eq!(actions.len(), 4, "{actions:?}");
    let run = table.run(&format!("undo --actor {JOB} --dry-run --output json"));
    let (summary, lines) = run.lines.split_last().unwrap();
    let mut planned = Map::new();
    for line in lines {
        let paths: BTreeSet<_> = line["Conflicts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|conflict| conflict["Path"].as_str().unwrap())
            .collect();
        planned.insert(line["ID"].as_str().unwrap().to_owned(), json!([line["Action"], paths]));
    }
    let model = expected
        .iter()
        .map(|(id, expected)| (id.clone(), json!([expected.action, expected.conflicts])));
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
    // Killed at several places, and run again.
    let command = format!("undo --actor {JOB} --yes --mode inline --as-actor me --as-change-set U");
    for lines in [1, 4, 9] {
        let mut child = table.start(&command);
        let printed = BufReader::new(child.stdout.take().unwrap()).lines().take(lines);
        assert_eq!(printed.map(Result::unwrap).count(), lines);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(table.run(&command).code, 4);
    let check = |wanted: &dyn Fn(&Entity, &Expected) -> State, more: u64| {
        for entity in &entities {
            let (state, latest) = stored(&table, &entity.id);
            let versions = u64::try_from(entity.versions.len()).unwrap();
            let Some(expected) = expected.get(&entity.id) else {
                assert_eq!((state, latest), (entity.current(), versions), "{}", entity.id);
                continue;
            };
            let more = if expected.action == "none" { 0 } else { more };
            assert_eq!(
                (state, latest),
                (wanted(entity, expected), versions + more),
                "{}",
                entity.id
            );
        }
    };
    check(&|_, expected| expected.target.clone(), 1);
    let undone = table.run("undo --change-set U --yes --mode inline");
    assert_eq!(
        (undone.code, &undone.lines.last().unwrap()["Entities"]),
        (0, &json!(changed))
    );
    check(&|entity, _| entity.current(), 2);
}

#[test]
fn only_histories_with_selected_versions_are_read_and_only_from_the_state_before() {
    let table = crate::new_table();
    for id in ["A", "B"] {
        for number in 1..=60 {
            let actor = if (id, number) == ("A", 58) { JOB } else { "amy" };
            let name = if actor == JOB { "job" } else { "other" };
            table.write(json!({"ID": id, name: number, "Text": "x".repeat(7_000), "Actor": actor}));
        }
    }
    let run = table.run(&format!(
        "undo --actor {JOB} --dry-run --output json --consumed-capacity"
    ));
    assert_eq!((run.code, &run.lines.last().unwrap()["Entities"]), (0, &json!(1)));
    let reads = run
        .stderr
        .lines()
        .filter(|line| line.ends_with(" units") && !line.starts_with("Scan"));
    let units = reads.map(|line| {
        line.trim_end_matches(" units")
            .rsplit(' ')
            .next()
            .unwrap()
            .parse::<f64>()
            .unwrap()
    });
    // The latest item, four versions, and the latest items of both in a table of their own.
    let units = units.sum::<f64>();
    assert!((10.0..=14.0).contains(&units), "{units}: {}", run.stderr);
}

#[test]
fn an_entity_that_changed_since_its_plan_is_planned_again_or_stays() {
    let table = crate::new_table();
    let options = Options {
        selection: Selection {
            actor: Some(JOB.to_owned()),
            ..Selection::default()
        },
        conflicts: Conflicts::Leave,
        actor: None,
        reason: None,
        change_set: Some("U".to_owned()),
        ordering: updates::Ordering::Arrival,
        write: updates::mode(updates::WriteMode::Inline),
        allow_expired: false,
    };
    for (id, name, is_strict, is_written) in [
        ("A", "b", false, true),
        ("B", "a", false, false),
        ("C", "b", true, false),
    ] {
        for (number, actor) in [(1, "amy"), (2, JOB)] {
            table.write(json!({"ID": id, "a": number, "Actor": actor}));
        }
        let entity = database::entity(id);
        let planned = table.block_on(plan(&table.store, &entity, &options)).unwrap();
        table.write(json!({"ID": id, name: 3, "Actor": "bob"}));
        let seen = is_strict.then_some(planned.newest);
        let applied = table.block_on(apply(&table.store, planned, seen, &options));
        let applied = applied.unwrap();
        assert_eq!(
            (applied.is_written, applied.plan.has_conflicts()),
            (is_written, !is_written),
            "{id}"
        );
        let item = &table.items_of(id)["v0"];
        let a = if is_written {
            1
        } else if name == "a" {
            3
        } else {
            2
        };
        let other = if name == "b" { 3 } else { a };
        assert_eq!(
            [&item["a"]["N"], &item[name]["N"]],
            [&json!(a.to_string()), &json!(other.to_string())],
            "{id}"
        );
    }
}
