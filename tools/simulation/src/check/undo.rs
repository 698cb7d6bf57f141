//! 9: An undo takes back the selected changes, and nothing else, at most once, and reports what it did.
//!
//! ```text
//! stream ─▶ versions of each entity ─▶ merge of those before an undo's version ─▶ this version
//! ```

use std::collections::BTreeMap;

use serde_json::{Value, json};
use shared::domain::keys::LATEST_KEY;

use crate::{
    attached::{compared, key_of},
    caller::Author,
    check::{
        merge::{Merged, merge},
        state::{plain, restorable},
    },
    evidence::{Evidence, Violations},
    requests::text,
    schedule::{AUTHOR, Command, FaultKind, IGNORED, KEY, Schedule, StepKind},
    stream::Written,
    undo::{Report, Saved, Selected, Undo},
};

/// A version of an entity.
struct Version<'a> {
    /// Index of its record in the stream.
    index: usize,
    number: u64,
    /// `None` if it is deleted.
    state: Option<Value>,
    actor: &'a str,
    change_set: &'a str,
    by_operator: bool,
    image: &'a Value,
}

/// Versions of each entity, oldest first.
type Entities<'a> = BTreeMap<String, Vec<Version<'a>>>;

pub(super) fn check(schedule: &Schedule, evidence: &Evidence, violations: &mut Violations) {
    let undos = schedule.steps.iter().filter_map(|step| match &step.kind {
        StepKind::Command(Command::Undo(undo)) => Some(undo),
        _ => None,
    });
    let undos: Vec<_> = undos.collect();
    if undos.is_empty() {
        return;
    }
    let is_attached = schedule.settings.attached;
    let (mut entities, mut recorded) = (Entities::new(), BTreeMap::<_, Vec<_>>::new());
    for (index, written) in evidence.stream.iter().enumerate() {
        if is_attached {
            add_change(&mut entities, index, written, schedule.settings.new_images);
            if written.key().starts_with('v') {
                recorded.entry(written.entity()).or_default().push(index);
            }
        } else if written.key() == LATEST_KEY {
            add_version(&mut entities, index, written);
        }
    }
    let check = Check {
        evidence,
        entities,
        recorded,
        is_attached,
        is_delayed: schedule.faults.iter().any(|fault| fault.kind == FaultKind::Delayed),
    };
    let found = check.versions(&undos).into_iter();
    let found = found.chain(
        undos
            .iter()
            .flat_map(|undo| check.reports(undo).chain(check.ends(undo)).collect::<Vec<_>>()),
    );
    found.for_each(|description| violations.add::<9>(description));
}

/// Adds the version of a latest item. Its tombstone can lose attributes later.
fn add_version<'a>(entities: &mut Entities<'a>, index: usize, written: &'a Written) {
    let (image, versions) = (
        written.image(),
        entities.entry(written.entity().to_owned()).or_default(),
    );
    let number = text(image, "/Latest/N").parse().unwrap_or(0);
    if versions.last().is_some_and(|last| last.number == number) {
        return;
    }
    let is_deleted = image["Deleted"]["BOOL"] == true;
    versions.push(Version {
        index,
        number,
        state: (!is_deleted).then(|| json!({"M": restorable(&json!(plain(image)))})),
        actor: text(image, "/Actor/S"),
        change_set: text(image, "/ChangeSet/S"),
        by_operator: written.by.author == Author::Operator,
        image,
    });
}

/// Adds the version of an item of an attached table, if a record makes one. A record without an old image is compared with the version
/// before, so the first one of an item shows no change of its set. Every other one does.
fn add_change<'a>(entities: &mut Entities<'a>, index: usize, written: &'a Written, new_images: bool) {
    let key = text(&written.record, &format!("/dynamodb/Keys/{KEY}/S"));
    if key.is_empty() {
        return;
    }
    let versions = entities.entry(key_of(key)).or_default();
    let image = &written.record["dynamodb"]["NewImage"];
    let before = versions.last().map_or(&Value::Null, |last| last.image);
    if compared(before) == compared(image) {
        return;
    }
    let [actor, set, rev] = AUTHOR;
    let mut state = image.clone();
    if let Some(members) = state.as_object_mut() {
        members.retain(|name, _| ![KEY, IGNORED, actor, set, rev].contains(&name.as_str()));
    }
    let set_of = |image: &'a Value| text(image, &format!("/{set}/S"));
    versions.push(Version {
        index,
        number: versions.len() as u64 + 1,
        state: (!image.is_null()).then(|| json!({"M": state})),
        actor: text(image, &format!("/{actor}/S")),
        change_set: match set_of(before) == set_of(image) || new_images && versions.is_empty() {
            true => "",
            false => set_of(image),
        },
        by_operator: written.by.author == Author::Operator,
        image,
    });
}

struct Check<'a> {
    evidence: &'a Evidence,
    entities: Entities<'a>,
    /// Of an attached table, indexes of the records of version items by entity.
    recorded: BTreeMap<&'a str, Vec<usize>>,
    is_attached: bool,
    is_delayed: bool,
}

impl Check<'_> {
    fn saved(&self, undo: &Undo, entity: &str) -> Option<&Saved> {
        self.evidence.undos.saved.get(&undo.number)?.get(entity)
    }

    /// Returns `true` if this undo can have made a version. An item of an attached table can have named the set before, and a deletion from
    /// it names none.
    fn is_of(&self, version: &Version<'_>, undo: &Undo) -> bool {
        let name = if self.is_attached { AUTHOR[1] } else { "ChangeSet" };
        let is_named = text(version.image, &format!("/{name}/S")) == undo.change_set();
        version.by_operator && (is_named || self.is_attached && version.state.is_none())
    }

    /// Returns what an undo makes of the last one of these versions, with its state before.
    fn merged<'v>(&self, undo: &Undo, entity: &str, versions: &'v [Version<'_>]) -> (Option<&'v Value>, Merged) {
        let is_selected = |version: &Version<'_>| match (self.saved(undo, entity), &undo.selected) {
            (Some(saved), _) => saved.versions.contains(&version.number),
            (None, Selected::Actor(actor)) => version.actor == actor,
            (None, Selected::ChangeSet(set)) => version.change_set == set,
            (None, Selected::Version(of, number)) => of == entity && version.number == *number,
        };
        let first = versions.iter().position(is_selected).unwrap_or(versions.len());
        let before = first.checked_sub(1).and_then(|before| versions[before].state.as_ref());
        let states = versions[first..].iter();
        let states: Vec<_> = states
            .map(|version| (version.state.as_ref(), is_selected(version)))
            .collect();
        let current = versions.last().and_then(|last| last.state.as_ref());
        (current, merge(before, &states, undo.conflicts))
    }

    /// Returns `true` if an undo has nothing to do after these versions, or leaves the entity as it is.
    fn is_done(&self, undo: &Undo, entity: &str, versions: &[Version<'_>]) -> bool {
        let (current, merged) = self.merged(undo, entity, versions);
        current == merged.item.as_ref()
    }

    /// Each version of an undo has the state of the version before without the selected changes, and differs from it.
    fn versions(&self, undos: &[&Undo]) -> Vec<String> {
        let mut found = Vec::new();
        for (entity, versions) in &self.entities {
            for (count, version) in versions.iter().enumerate().filter(|(_, version)| version.by_operator) {
                let (before, name) = (&versions[..count], format!("{entity} v{}", version.number));
                let is_right = |undo: &&Undo| {
                    let (current, merged) = self.merged(undo, entity, before);
                    // A write to an attached table names what it changes, so another attribute may have changed since the plan.
                    let is_planned = undo.saved.is_none()
                        || self.is_attached
                        || self
                            .saved(undo, entity)
                            .is_some_and(|saved| Some(saved.newest) == before.last().map(|last| last.number));
                    let is_undone = merged.item == version.state && current != merged.item.as_ref();
                    self.is_of(version, undo) && is_planned && is_undone
                };
                if !undos.iter().any(is_right) {
                    let set = version.change_set;
                    found.push(format!(
                        "{name}: {set} makes another state than that without the selected changes"
                    ));
                }
                let Some(last) = before.last() else { continue };
                if self.is_attached {
                    let rev = |version: &Version<'_>| {
                        let number = text(version.image, &format!("/{}/N", AUTHOR[2])).parse::<u64>().ok();
                        number.filter(|_| version.state.is_some())
                    };
                    if version.state.is_some() && rev(last).is_some_and(|last| rev(version) != Some(last + 1)) {
                        found.push(format!("{name}: the version attribute does not count up"));
                    }
                } else if last.image["Timestamp"] != version.image["Timestamp"] {
                    found.push(format!(
                        "{name}: the time of the update is not that of the version before"
                    ));
                }
            }
        }
        found
    }

    /// What a run reports is true.
    fn reports<'c>(&'c self, undo: &'c Undo) -> impl Iterator<Item = String> + 'c {
        let reports = self.evidence.undos.reports.iter();
        reports
            .filter(|report| report.number == undo.number)
            .filter_map(|report| {
                let none = Vec::new();
                let versions = self.entities.get(&report.entity).unwrap_or(&none);
                let why = self.is_false(undo, report, versions)?;
                let (number, entity) = (report.number, &report.entity);
                Some(format!("{entity}: undo {number} reports {report:?}: {why}"))
            })
    }

    fn is_false(&self, undo: &Undo, report: &Report, versions: &[Version<'_>]) -> Option<&'static str> {
        let range = report.from..report.to;
        let mut own = versions.iter().filter(|version| self.is_of(version, undo));
        let end = versions.partition_point(|version| version.index < report.to);
        // History of an attached table can be behind, which no plan without a change notices. It has what it had before the run.
        let recorded = self.recorded.get(&*report.entity).map_or(&[][..], Vec::as_slice);
        let start = match self.is_attached && !report.is_written {
            true => recorded.partition_point(|index| *index < report.from),
            false => versions.partition_point(|version| version.index < report.from),
        };
        // States that held during the run.
        let mut held = (start..=end).filter(|count| *count > 0).map(|count| &versions[..count]);
        if report.is_written {
            let is_it = |version: &Version<'_>| match report.version {
                Some(number) => version.number == number && version.index < report.to,
                None => range.contains(&version.index),
            };
            let mut is_done = || self.is_attached && held.any(|versions| self.is_done(undo, &report.entity, versions));
            return (!own.any(is_it) && !is_done()).then_some("there is no such version");
        }
        if own.any(|version| range.contains(&version.index)) && !self.is_delayed && !self.is_attached {
            return Some("it has made a version");
        }
        if report.reason.is_some() {
            return None;
        }
        let is_right = |versions: &[Version<'_>]| {
            let (current, merged) = self.merged(undo, &report.entity, versions);
            current == merged.item.as_ref() && merged.has_conflicts == report.has_conflicts
        };
        (!held.any(is_right)).then_some("something was to be undone, or the conflicts are others")
    }

    /// After the last runs, nothing is left to be undone, and the second one of two runs has done nothing.
    fn ends<'c>(&'c self, undo: &'c Undo) -> impl Iterator<Item = String> + 'c {
        let ends = self
            .evidence
            .undos
            .ends
            .iter()
            .filter(|(number, ..)| *number == undo.number);
        ends.enumerate().flat_map(move |(count, (number, from, to))| {
            let reports = self.evidence.undos.reports.iter();
            let is_last = |report: &&Report| report.number == *number && *from <= report.from && report.to <= *to;
            let reports: Vec<_> = reports.filter(is_last).collect();
            let mut found = Vec::new();
            if count % 2 == 1 && (reports.iter().any(|report| report.is_written) || self.has_written(*from, *to)) {
                found.push(format!("undo {number}: a run after a complete one changes something"));
            }
            for (entity, versions) in &self.entities {
                let seen = &versions[..versions.partition_point(|version| version.index < *to)];
                let mut refused = reports.iter().filter(|report| report.entity == *entity);
                let refused = refused.find_map(|report| report.reason.as_deref());
                match refused {
                    Some(_) if undo.saved.is_some() => {}
                    Some(reason) if self.is_complete(entity, seen) => {
                        found.push(format!("{entity}: undo {number} is refused without a reason: {reason}"));
                    }
                    None if undo.saved.is_none() && !self.is_done(undo, entity, seen) => {
                        found.push(format!("{entity}: undo {number} leaves a change that it selects"));
                    }
                    _ => {}
                }
            }
            found
        })
    }

    fn has_written(&self, from: usize, to: usize) -> bool {
        let mut versions = self.entities.values().flatten();
        versions.any(|version| version.by_operator && (from..to).contains(&version.index))
    }

    /// Returns `true` if history has all of these versions.
    fn is_complete(&self, entity: &str, versions: &[Version<'_>]) -> bool {
        let items = self.evidence.items.of(entity);
        self.is_attached || items.filter(|(key, _)| key.starts_with('v')).count() > versions.len()
    }
}
