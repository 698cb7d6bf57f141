//! Checks the history of an attached table against the records of its stream.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;
use shared::domain::quarantine::PREFIX;

use crate::{check::Violation, requests::text, stream::Written};

/// Key attribute of the attached table.
pub(super) const KEY: &str = "id";
/// Attribute of an item that fits into no version item.
pub(super) const LARGE: &str = "Large";
/// Attribute whose change alone makes no version.
pub(super) const IGNORED: &str = "seen";

/// Observations of a run.
pub(crate) struct Evidence {
    /// All records, those of the history table too.
    pub(crate) records: Vec<Written>,
    /// Records in failure documents.
    pub(crate) discarded: Vec<Value>,
    /// History after the mapping reached the end of the stream, with flat attributes.
    pub(crate) delivered: Vec<Value>,
    /// History after the redrive of the failure documents.
    pub(crate) redriven: Vec<Value>,
    /// `true` if the mapping reached the end of the stream.
    pub(crate) settled: bool,
}

/// A record of the attached table.
pub(super) struct Record<'a> {
    number: &'a str,
    /// Second in which it was written.
    pub(super) created: u64,
    /// State before, as its old image or the record before shows it.
    old: Option<Value>,
    pub(super) new: Option<Value>,
}

/// Returns the records of each item, in the order of the stream.
pub(super) fn of_items(records: &[Written]) -> BTreeMap<&str, Vec<Record<'_>>> {
    let mut items: BTreeMap<&str, Vec<Record<'_>>> = BTreeMap::new();
    for record in records.iter().map(|written| &written.record) {
        let key = text(record, &format!("/dynamodb/Keys/{KEY}/S"));
        if !key.is_empty() {
            let image = |name: &str| record["dynamodb"].get(name).filter(|image| !image.is_null()).cloned();
            let records = items.entry(key).or_default();
            let before = records.last().and_then(|before| before.new.clone());
            records.push(Record {
                number: text(record, "/dynamodb/SequenceNumber"),
                created: record["dynamodb"]["ApproximateCreationDateTime"]
                    .as_u64()
                    .unwrap_or_default(),
                old: image("OldImage").or(before),
                new: image("NewImage"),
            });
        }
    }
    items
}

/// Checks a run, whose records have only `new_images` or old ones too.
pub(crate) fn check(evidence: &Evidence, new_images: bool) -> Vec<Violation> {
    let mut check = Check {
        violations: Vec::new(),
        is_complete: true,
    };
    if !evidence.settled {
        check.add(8, "the mapping does not reach the end of the stream".to_owned());
    }
    check.writes(evidence);
    let discarded: BTreeSet<_> = evidence
        .discarded
        .iter()
        .map(|record| text(record, "/dynamodb/SequenceNumber"))
        .collect();
    for (item, records) in &of_items(&evidence.records) {
        let lost = |history: &[Value]| -> BTreeSet<&str> {
            let stored: BTreeSet<_> = of_item(history, item)
                .iter()
                .map(|version| text(version, "/RequestId/S").to_owned())
                .collect();
            let numbers = records.iter().map(|record| record.number);
            numbers
                .filter(|number| discarded.contains(number) && !stored.contains(*number))
                .collect()
        };
        check.omissions(item, &evidence.delivered, &discarded);
        check.is_complete = !new_images || !records.iter().any(|record| discarded.contains(record.number));
        check.history(
            item,
            records,
            &evidence.delivered,
            &lost(&evidence.delivered),
            &BTreeSet::new(),
        );
        check.history(item, records, &evidence.redriven, &BTreeSet::new(), &discarded);
    }
    check.violations
}

struct Check {
    violations: Vec<Violation>,
    /// `false` if records are missing that the later ones of the item do not show.
    is_complete: bool,
}

impl Check {
    fn add(&mut self, guarantee: u8, description: String) {
        self.violations.push(Violation { guarantee, description });
    }

    /// 6: A version is inserted once, and never changed.
    fn writes(&mut self, evidence: &Evidence) {
        let mut seen = BTreeSet::new();
        for record in evidence.records.iter().map(|written| &written.record) {
            let key = (text(record, "/dynamodb/Keys/PK/S"), text(record, "/dynamodb/Keys/SK/S"));
            let is_history = !key.0.is_empty();
            let is_first = text(record, "/eventName") == "INSERT" && seen.insert(key);
            if is_history && !is_first {
                self.add(6, format!("{} {} was written again", key.0, key.1));
            }
        }
    }

    /// Compares the versions of an item with its records. `lost` are records that history does not have, and `late` those that can be
    /// late.
    fn history(
        &mut self,
        item: &str,
        records: &[Record<'_>],
        history: &[Value],
        lost: &BTreeSet<&str>,
        late: &BTreeSet<&str>,
    ) {
        let versions = of_item(history, item);
        for (number, version) in (1..).zip(&versions) {
            let expected = format!("v{number:010}");
            if text(version, "/SK/S") != expected {
                self.add(1, format!("{item} has no {expected}"));
            }
        }
        let by_number: HashMap<_, _> = records.iter().map(|record| (record.number, record)).collect();
        let (mut stored, mut before) = (BTreeSet::new(), None);
        for version in &versions {
            let (id, name) = (text(version, "/RequestId/S"), text(version, "/SK/S"));
            if !stored.insert(id) {
                self.add(3, format!("{item} {name}: the change {id} is recorded twice"));
            }
            let (number, is_old) = id.strip_suffix("#old").map_or((id, false), |number| (number, true));
            let Some(record) = by_number.get(number) else {
                self.add(2, format!("{item} {name} has no record"));
                continue;
            };
            let state = if is_old { &record.old } else { &record.new };
            let is_large = state.as_ref().is_some_and(|state| state.get(LARGE).is_some());
            if is_omitted(version) != is_large {
                self.add(2, format!("{item} {name} is omitted, and would fit, or the reverse"));
            }
            if !is_omitted(version) && state_of(version) != *state {
                self.add(2, format!("{item} {name} differs from its record"));
            }
            let is_late = version.get("Late").is_some();
            if is_late && !late.contains(number) {
                self.add(4, format!("{item} {name} is marked as late, and was never discarded"));
            }
            if !is_late {
                let place = (number.to_owned(), !is_old);
                if before.as_ref().is_some_and(|before| place <= *before) {
                    self.add(4, format!("{item} {name} is not in the order of the stream"));
                }
                before = Some(place);
            }
        }
        if self.is_complete {
            self.states(item, records, &versions, lost);
        }
    }

    /// 5: The record of a version without its state is in quarantine, unless it was discarded.
    fn omissions(&mut self, item: &str, history: &[Value], discarded: &BTreeSet<&str>) {
        for version in of_item(history, item).into_iter().filter(|version| is_omitted(version)) {
            let id = text(version, "/RequestId/S");
            let number = id.strip_suffix("#old").unwrap_or(id);
            let key = format!("{PREFIX}{number}");
            let is_kept = |kept: &Value| text(kept, "/SK/S") == key && text(kept, "/PK/S") == text(version, "/PK/S");
            if !discarded.contains(number) && !history.iter().any(is_kept) {
                self.add(5, format!("{item}: the omitted state of {number} is not in quarantine"));
            }
        }
    }

    /// 1: Each change is a version, and the state before each change is known.
    fn states(&mut self, item: &str, records: &[Record<'_>], versions: &[&Value], lost: &BTreeSet<&str>) {
        let find = |id: &str| versions.iter().find(|version| text(version, "/RequestId/S") == id);
        let mut is_first = true;
        for record in records {
            let is_change = match (&record.old, &record.new) {
                (Some(old), Some(new)) => compared(old) != compared(new),
                _ => true,
            };
            if lost.contains(record.number) {
                continue;
            }
            if is_change && find(record.number).is_none() {
                self.add(1, format!("{item}: the change {} is not in history", record.number));
            }
            if std::mem::take(&mut is_first) {
                continue;
            }
            // The last state before this record, in the order of the stream: of an earlier record, or its own old image.
            let place = |version: &Value| {
                let id = text(version, "/RequestId/S");
                let old = id.strip_suffix("#old");
                (old.unwrap_or(id).to_owned(), old.is_none())
            };
            let own_old_image = (record.number.to_owned(), false);
            let before = versions.iter().filter(|version| place(version) <= own_old_image);
            let earlier = before.max_by_key(|version| place(version));
            if earlier.is_some_and(|version| is_omitted(version)) && record.old.is_some() {
                continue;
            }
            let known = earlier.and_then(|version| state_of(version));
            if known.as_ref().map(compared) != record.old.as_ref().map(compared) {
                self.add(
                    7,
                    format!("{item}: the state before {} is not in history", record.number),
                );
            }
        }
    }
}

/// Returns the versions of an item, by number.
fn of_item<'a>(history: &'a [Value], item: &str) -> Vec<&'a Value> {
    let key = format!("{{\"{KEY}\":\"{item}\"}}");
    let is_version = |version: &&Value| text(version, "/PK/S") == key && text(version, "/SK/S").starts_with('v');
    let mut versions: Vec<_> = history.iter().filter(is_version).collect();
    versions.sort_by_key(|version| text(version, "/SK/S"));
    versions
}

fn is_omitted(version: &Value) -> bool {
    version.get("Omitted").is_some()
}

/// Returns the item that a version shows, `None` for a tombstone.
fn state_of(version: &Value) -> Option<Value> {
    if version.get("Deleted").is_some() {
        return None;
    }
    let mut item = serde_json::Map::new();
    for name in [KEY, IGNORED, "State"] {
        item.extend(version.get(name).map(|value| (name.to_owned(), value.clone())));
    }
    item.extend(
        version
            .get("item:RequestId")
            .map(|value| ("RequestId".to_owned(), value.clone())),
    );
    Some(Value::Object(item))
}

/// Returns an item without its ignored attribute.
pub(super) fn compared(item: &Value) -> Value {
    let mut item = item.clone();
    if let Some(members) = item.as_object_mut() {
        members.remove(IGNORED);
    }
    item
}
