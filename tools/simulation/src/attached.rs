//! A table that other programs write: its definition, and the comparison of its history with the records of its stream.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value, json};
use shared::domain::{attached::AttachedTable, quarantine::PREFIX};

use crate::{
    connector::Connector,
    database::create_table,
    error::SimulationError,
    evidence::{Evidence, Violations},
    mapping::records_of,
    requests::{Items, sequence_number, text},
    schedule::{AUTHOR, HISTORY, IGNORED, KEY, LARGE, Settings, TABLE, WORKED},
    stream::Written,
};

/// Creates the table of the clients, with its stream, and that of its history.
pub(crate) fn create_tables(connector: &Connector, settings: &Settings) -> Result<AttachedTable, SimulationError> {
    let view = match settings.new_images {
        true => "NEW_IMAGE",
        false => "NEW_AND_OLD_IMAGES",
    };
    let (stream, database) = (&connector.stream, &connector.database);
    // Before the history table, whose definition has other keys.
    let arn = create_table(database, TABLE, &[KEY], Some(view), false)?;
    stream.open(database, &arn, settings.shards)?;
    let arn = create_table(database, HISTORY, &["PK", "SK"], Some("NEW_IMAGE"), false)?;
    stream.open_history(database, &arn)?;
    let mut definition = json!({
        "TableName": TABLE, "HistoryTable": HISTORY, "IgnoreAttributes": [IGNORED],
        "KeySchema": [{"AttributeName": KEY, "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": KEY, "AttributeType": "S"}],
    });
    if settings.has_authors {
        for (name, attribute) in ["ActorAttribute", "ChangeSetAttribute", "VersionAttribute"]
            .iter()
            .zip(AUTHOR)
        {
            definition[*name] = json!(attribute);
        }
    }
    attach::parse(&definition.to_string()).map_err(|_| SimulationError::InvalidSetting("attached"))
}

/// A record of the attached table.
pub(crate) struct Record<'a> {
    number: &'a str,
    /// Second in which it was written.
    pub(crate) created: u64,
    /// State before, as its old image or the record before shows it.
    old: Option<Value>,
    pub(crate) new: Option<Value>,
}

/// Returns the records of each item, in the order of the stream.
pub(crate) fn of_items(records: &[Written]) -> BTreeMap<&str, Vec<Record<'_>>> {
    let mut items: BTreeMap<&str, Vec<Record<'_>>> = BTreeMap::new();
    for written in records {
        let key = text(&written.record, &format!("/dynamodb/Keys/{KEY}/S"));
        if !key.is_empty() {
            let image = |name: &str| Some(written.record["dynamodb"][name].clone()).filter(|image| !image.is_null());
            let records = items.entry(key).or_default();
            let before = records.last().and_then(|before| before.new.clone());
            records.push(Record {
                number: written.number(),
                created: written.created(),
                old: image("OldImage").or(before),
                new: image("NewImage"),
            });
        }
    }
    items
}

/// A version of an item, as history shows it.
struct Version<'a> {
    name: &'a str,
    /// Number of its record, and `false` if it shows the old image of this.
    place: (&'a str, bool),
    is_late: bool,
    is_omitted: bool,
    /// `None` for a tombstone.
    state: Option<Value>,
}

/// Returns the versions of an item, by number.
fn of_item<'a>(history: &'a Items, item: &str) -> Vec<Version<'a>> {
    let versions = history.of(&key_of(item)).filter(|(name, _)| name.starts_with('v'));
    let version = |(name, version): (&'a str, &'a Value)| {
        let id = text(version, "/RequestId/S");
        let has = |name: &str| version.get(name).is_some();
        let old = id.strip_suffix("#old");
        Version {
            name,
            place: (old.unwrap_or(id), old.is_none()),
            is_late: has("Late"),
            is_omitted: has("Omitted"),
            state: (!has("Deleted")).then(|| {
                let names = [KEY, IGNORED, "State"].into_iter().chain(WORKED).chain(AUTHOR);
                let names = names.map(|name| (name, name)).chain([("item:RequestId", "RequestId")]);
                let values = names.filter_map(|(from, to)| Some((to.to_owned(), version.get(from)?.clone())));
                Value::Object(values.collect())
            }),
        }
    };
    versions.map(version).collect()
}

/// Returns the partition key of an item's history.
pub(crate) fn key_of(item: &str) -> String {
    format!("{{\"{KEY}\":\"{item}\"}}")
}

/// Checks a run, whose records have only `new_images` or old ones too.
pub(crate) fn check(evidence: &Evidence, new_images: bool) -> Violations {
    let mut violations = evidence.found.clone();
    if !evidence.settled {
        violations.add::<8>("the mapping does not reach the end of the stream".to_owned());
    }
    writes(evidence, &mut violations);
    let discarded: Vec<_> = evidence.documents.iter().flat_map(records_of).collect();
    let discarded: BTreeSet<_> = discarded.iter().map(sequence_number).collect();
    for (item, records) in &of_items(&evidence.stream) {
        omissions(item, &evidence.items, &discarded, &mut violations);
        let (delivered, redriven) = (of_item(&evidence.items, item), of_item(&evidence.recovered, item));
        let is_lost = |record: &&Record<'_>| {
            let is_stored = delivered.iter().any(|version| version.place == (record.number, true));
            discarded.contains(record.number) && !is_stored
        };
        let lost = records.iter().filter(is_lost).map(|record| record.number).collect();
        // Without old images, the later records of the item do not show the state before those that are missing.
        let is_complete = !new_images || !records.iter().any(|record| discarded.contains(record.number));
        let none = BTreeSet::new();
        for (versions, lost, late) in [(&delivered, &lost, &none), (&redriven, &none, &discarded)] {
            history(item, records, versions, late, &mut violations);
            if is_complete {
                states(item, records, versions, lost, &mut violations);
            }
        }
    }
    violations
}

/// 6: A version is inserted once, and never changed.
fn writes(evidence: &Evidence, violations: &mut Violations) {
    let mut seen = BTreeSet::new();
    for written in evidence.stream.iter().filter(|written| !written.entity().is_empty()) {
        let (entity, key) = (written.entity(), written.key());
        if written.event() != "INSERT" || !seen.insert((entity, key)) {
            violations.add::<6>(format!("{entity} {key} was written again"));
        }
    }
}

/// Compares the versions of an item with its records. `late` are the records whose versions can be late.
fn history(
    item: &str,
    records: &[Record<'_>],
    versions: &[Version<'_>],
    late: &BTreeSet<&str>,
    violations: &mut Violations,
) {
    let by_number: HashMap<_, _> = records.iter().map(|record| (record.number, record)).collect();
    let (mut stored, mut before) = (BTreeSet::new(), None);
    for (count, version) in (1..).zip(versions) {
        let (name, (number, is_new)) = (version.name, version.place);
        if name != format!("v{count:010}") {
            violations.add::<1>(format!("{item} {name} is version {count}"));
        }
        if !stored.insert(version.place) {
            violations.add::<3>(format!("{item} {name}: the change {number} is recorded twice"));
        }
        let Some(record) = by_number.get(number) else {
            violations.add::<2>(format!("{item} {name} has no record"));
            continue;
        };
        let state = if is_new { &record.new } else { &record.old };
        let is_large = state.as_ref().is_some_and(|state| state.get(LARGE).is_some());
        if version.is_omitted != is_large {
            violations.add::<2>(format!("{item} {name} is omitted, and would fit, or the reverse"));
        }
        if !version.is_omitted && version.state != *state {
            violations.add::<2>(format!("{item} {name} differs from its record"));
        }
        if version.is_late && !late.contains(number) {
            violations.add::<4>(format!("{item} {name} is marked as late, and was never discarded"));
        }
        if !version.is_late && before.replace(version.place) >= Some(version.place) {
            violations.add::<4>(format!("{item} {name} is not in the order of the stream"));
        }
    }
}

/// 5: The record of a version without its state is in quarantine, unless it was discarded.
fn omissions(item: &str, history: &Items, discarded: &BTreeSet<&str>, violations: &mut Violations) {
    for version in of_item(history, item).iter().filter(|version| version.is_omitted) {
        let number = version.place.0;
        let kept = history.get(&key_of(item), &format!("{PREFIX}{number}"));
        if !discarded.contains(number) && kept.is_none() {
            violations.add::<5>(format!("{item}: the omitted state of {number} is not in quarantine"));
        }
    }
}

/// 1, 7: Each change is a version, and the state before each change is known. `lost` are records that history does not have.
fn states(
    item: &str,
    records: &[Record<'_>],
    versions: &[Version<'_>],
    lost: &BTreeSet<&str>,
    violations: &mut Violations,
) {
    let records = records.iter().filter(|record| !lost.contains(record.number));
    for (index, Record { number, old, new, .. }) in records.enumerate() {
        let is_change = match (old, new) {
            (Some(old), Some(new)) => compared(old) != compared(new),
            _ => true,
        };
        if is_change && !versions.iter().any(|version| version.place == (number, true)) {
            violations.add::<1>(format!("{item}: the change {number} is not in history"));
        }
        if index == 0 {
            continue;
        }
        // The last state before this record, in the order of the stream: of an earlier record, or its own old image.
        let before = versions.iter().filter(|version| version.place <= (*number, false));
        let earlier = before.max_by_key(|version| version.place);
        if earlier.is_some_and(|version| version.is_omitted) && old.is_some() {
            continue;
        }
        let known = earlier.and_then(|version| version.state.as_ref());
        if known.map(compared) != old.as_ref().map(compared) {
            violations.add::<7>(format!("{item}: the state before {number} is not in history"));
        }
    }
}

/// Returns an item without its ignored attribute.
pub(crate) fn compared(item: &Value) -> Value {
    let mut item = item.clone();
    if let Some(members) = item.as_object_mut() {
        members.remove(IGNORED);
    }
    item
}
