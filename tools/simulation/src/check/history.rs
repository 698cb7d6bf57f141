//! 1, 5, 6: Each version is in history once, or its record is kept, or there is a reason why it is neither.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    time::Duration,
};

use serde_json::Value;
use shared::domain::keys::LATEST_KEY;

use super::{
    Check,
    model::{Entity, Image},
    sequence_number,
};
use crate::{mapping::records_of, requests::text, schedule::MALFORMED};

impl<'a> Check<'a> {
    /// 6: A version item is written once. An expiry can be added to it.
    pub(super) fn check_single_writes(&mut self) {
        let mut written: HashMap<(&str, &str), &Value> = HashMap::new();
        for record in self.evidence.stream.iter().map(|written| &written.record) {
            let key = (text(record, "/dynamodb/Keys/PK/S"), text(record, "/dynamodb/Keys/SK/S"));
            if self.digits.version_of(key.1).is_none() {
                continue;
            }
            if text(record, "/eventName") == "REMOVE" {
                written.remove(&key);
                continue;
            }
            let image = &record["dynamodb"]["NewImage"];
            let before = written.insert(key, image);
            if before.is_some_and(|before| bare(before) != bare(image)) {
                self.add(6, format!("{} {} was overwritten", key.0, key.1));
            }
        }
    }

    /// 5: Quarantine and failure documents contain only records of latest items, and no record without a reason.
    pub(super) fn check_documents(&mut self) {
        let evidence = self.evidence;
        let keys: HashMap<&str, &str> = (evidence.stream.iter())
            .map(|written| {
                (
                    sequence_number(&written.record),
                    text(&written.record, "/dynamodb/Keys/SK/S"),
                )
            })
            .collect();
        let documents: Vec<_> = evidence
            .documents
            .iter()
            .map(|document| (document, records_of(document)))
            .collect();
        let discarded = documents.iter().flat_map(|(_, records)| records);
        for record in discarded.chain(&evidence.quarantined) {
            let number = sequence_number(record);
            if keys.get(number) != Some(&LATEST_KEY) {
                self.add(5, format!("record {number} of an item other than v0 failed"));
            }
        }
        let settings = &self.schedule.settings;
        for (document, records) in &documents {
            let condition = text(document, "/requestContext/condition");
            if condition == "RecordAgeExceeded" {
                self.check_ages(document, records);
                continue;
            }
            // Without bisecting, the records after the failed one are in the same document.
            let failed = if settings.bisect { records.len() } else { 1 };
            for record in records.iter().take(failed) {
                let number = sequence_number(record);
                let is_conflict = || self.is_conflict(record);
                if !evidence.hindered.contains(number) && !is_conflict() {
                    self.add(5, format!("record {number} was discarded without a fault"));
                }
            }
        }
    }

    /// 5: Only records above the maximum age are discarded because of their age.
    fn check_ages(&mut self, document: &Value, records: &[Value]) {
        let Some(maximum) = self.schedule.settings.maximum_record_age else {
            self.add(
                5,
                "records were discarded because of their age, which has no limit".to_owned(),
            );
            return;
        };
        let discarded: Option<jiff::Timestamp> = text(document, "/timestamp").parse().ok();
        let discarded = discarded.map_or(0, |time| u64::try_from(time.as_second()).unwrap_or_default());
        for record in records {
            let created = record["dynamodb"]["ApproximateCreationDateTime"]
                .as_f64()
                .unwrap_or_default();
            let created = Duration::try_from_secs_f64(created).unwrap_or_default().as_secs();
            if discarded.saturating_sub(created) < maximum {
                let number = sequence_number(record);
                self.add(5, format!("record {number} was discarded before its maximum age"));
            }
        }
    }

    /// Returns `true` if another item has the key of the record's version, or the record can never become a version.
    fn is_conflict(&self, record: &Value) -> bool {
        let entity = text(record, "/dynamodb/Keys/PK/S");
        let version = text(record, "/dynamodb/NewImage/Latest/N").parse().ok();
        let key = version.map_or_else(String::new, |version| self.key(version));
        let is_other = |item: &Value| text(item, "/PK/S") == entity && text(item, "/SK/S") == key;
        key.is_empty() || self.evidence.items.iter().any(is_other)
    }

    /// 5: A latest item that is not a valid version is in quarantine or in a failure document.
    pub(super) fn check_invalid_records(&mut self) {
        let kept = self.kept();
        for (index, written) in self.evidence.stream.iter().enumerate() {
            let record = &written.record;
            let entity = text(record, "/dynamodb/Keys/PK/S");
            let is_latest = text(record, "/dynamodb/Keys/SK/S") == LATEST_KEY && text(record, "/eventName") != "REMOVE";
            let is_invalid = entity.starts_with(MALFORMED) || text(record, "/dynamodb/NewImage/Latest/N").is_empty();
            let number = sequence_number(record);
            let is_before = index < self.evidence.recovered_from;
            let is_excused = self.is_lost(number) || self.is_marked_as_purged(entity);
            if is_before && is_latest && is_invalid && !kept.contains(number) && !is_excused {
                self.add(
                    5,
                    format!("record {number} is not a valid version, and is kept nowhere"),
                );
            }
        }
    }

    /// 1, 2 and 5: Every version is in the history, or its record was discarded because of a fault.
    pub(super) fn check_history(&mut self, name: &str, entity: &Entity) {
        let kept = self.kept();
        let quarantined: HashSet<&str> = self.evidence.quarantined.iter().map(sequence_number).collect();
        let items = items_of(&self.evidence.items, name);
        let floor = floor(&items);
        let is_marked = self.is_marked_as_purged(name);
        let before_recovery = |image: &&Image| image.version >= floor && image.index < self.evidence.recovered_from;
        for image in entity.images.iter().filter(before_recovery) {
            let (version, key) = (image.version, self.key(image.version));
            let stored = items.get(key.as_str()).copied();
            let is_stored = stored.is_some_and(|item| image.is_stored_as(item));
            if self.is_purged(name, entity, image.index) {
                let is_of_later = |item| {
                    let later = entity.images.iter().filter(|other| other.index > image.index);
                    { later }.any(|other| other.version == version && other.is_stored_as(item))
                };
                if is_stored && !stored.is_some_and(is_of_later) && !image.by_operator {
                    self.add(1, format!("{name} v{version} was purged, and is in history"));
                }
                continue;
            }
            // A purge that was given up leaves the entity without some versions.
            if is_marked {
                continue;
            }
            let is_quarantined = quarantined.contains(image.number);
            if is_stored {
                if is_quarantined {
                    self.add(5, format!("{name} v{version} is in history and in quarantine"));
                }
            } else if !kept.contains(image.number) {
                if self.is_lost(image.number) {
                    continue;
                }
                let problem = match stored {
                    Some(_) => "is a different item, and the record is kept nowhere",
                    None => "is neither in the history nor in quarantine or a failure document",
                };
                self.add(1, format!("{name} v{version} {problem}"));
            } else if stored.is_none() && is_quarantined {
                self.add(5, format!("{name} v{version} is in quarantine without a reason"));
            }
        }
        for (key, item) in items {
            let is_manual = (self.evidence.manual_versions).contains(&(name.to_owned(), key.to_owned()));
            let Some(version) = self.digits.version_of(key).filter(|_| !is_manual) else {
                continue;
            };
            let mut images = entity.images.iter().filter(|image| image.version == version.get());
            if !images.any(|image| image.is_stored_as(item)) {
                self.add(2, format!("{name} {key} equals no image of v0"));
            }
        }
    }

    /// 1: After a redrive and a repair, history is complete, except for what was lost.
    pub(super) fn check_recovery(&mut self, entities: &BTreeMap<&'a str, Entity<'a>>) {
        for (name, entity) in entities {
            let items = items_of(&self.evidence.recovery.items, name);
            let floor = floor(&items);
            let has_manual_version = self.evidence.manual_versions.iter().any(|(key, _)| key == name);
            // Without a latest item, a redrive cannot tell which versions there were.
            let has_latest = items.contains_key(LATEST_KEY);
            if entity.era > 0 || !has_latest || has_manual_version || self.is_marked_as_purged(name) {
                continue;
            }
            for image in entity.images.iter().filter(|image| image.version >= floor) {
                let stored = items.get(self.key(image.version).as_str());
                if !stored.is_some_and(|item| image.is_stored_as(item)) && !self.is_lost(image.number) {
                    let version = image.version;
                    self.add(1, format!("{name} v{version} is not in history after the recovery"));
                }
            }
        }
    }

    /// 1: An audit finds exactly the versions that are missing.
    pub(super) fn check_audit(&mut self) {
        let recovery = &self.evidence.recovery;
        let mut found: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
        for finding in &recovery.findings {
            let number = |name: &str| finding[name].as_u64().unwrap_or_default();
            let versions = match finding["Finding"].as_str() {
                Some("Gap") => number("From")..=number("To"),
                Some("Lagging") => number("Through") + 1..=number("Latest"),
                _ => continue,
            };
            found
                .entry(finding["ID"].as_str().unwrap_or_default())
                .or_default()
                .extend(versions);
        }
        for latest in recovery.items.iter().filter(|item| text(item, "/SK/S") == LATEST_KEY) {
            let name = text(latest, "/PK/S");
            let Ok(number) = text(latest, "/Latest/N").parse::<u64>() else {
                continue;
            };
            let items = items_of(&recovery.items, name);
            let missing = |version: &u64| !items.contains_key(self.key(*version).as_str());
            let missing: BTreeSet<_> = (floor(&items)..=number).filter(missing).collect();
            let found = found.remove(name).unwrap_or_default();
            if !name.starts_with(MALFORMED) && found != missing {
                self.add(
                    1,
                    format!("{name}: versions {missing:?} are missing, and an audit finds {found:?}"),
                );
            }
        }
    }

    /// Returns `true` if a purge has removed the version and ended without an error.
    fn is_purged(&self, name: &str, entity: &Entity, index: usize) -> bool {
        let Some(removed) = entity.purged_until else {
            return false;
        };
        let mut purges = self.evidence.purges.iter().filter(|(purged, _)| purged == name);
        index <= removed && purges.any(|(_, end)| *end > removed)
    }

    /// Returns the sequence numbers of the records in quarantine and in failure documents.
    fn kept(&self) -> HashSet<&'a str> {
        self.kept.iter().map(String::as_str).collect()
    }

    /// Returns `true` if nothing can have kept the record.
    pub(super) fn is_lost(&self, number: &str) -> bool {
        self.evidence.trimmed.contains(number)
            || self
                .evidence
                .dropped
                .iter()
                .any(|record| sequence_number(record) == number)
    }

    /// Returns `true` if versions of the entity are missing for good, or an operator has removed some.
    pub(super) fn has_lost_versions(&self, name: &str) -> bool {
        let is_of = |record: &Value| text(record, "/dynamodb/Keys/PK/S") == name;
        let trimmed = |record: &Value| self.evidence.trimmed.contains(sequence_number(record));
        let removed = |item: &Value| text(item, "/PK/S") == name && text(item, "/SK/S") == "floor";
        self.evidence.dropped.iter().any(is_of)
            || self
                .evidence
                .stream
                .iter()
                .any(|written| is_of(&written.record) && trimmed(&written.record))
            || self.evidence.recovery.items.iter().any(removed)
            || self.is_marked_as_purged(name)
    }
}

pub(super) fn items_of<'i>(items: &'i [Value], entity: &str) -> HashMap<&'i str, &'i Value> {
    let items = items.iter().filter(|item| text(item, "/PK/S") == entity);
    items.map(|item| (text(item, "/SK/S"), item)).collect()
}

/// Returns the first version that was not pruned.
pub(super) fn floor(items: &HashMap<&str, &Value>) -> u64 {
    items
        .get("floor")
        .and_then(|item| text(item, "/Floor/N").parse().ok())
        .unwrap_or(1)
}

/// Returns a version item without the marks of operators.
fn bare(item: &Value) -> Value {
    let mut item = item.clone();
    if let Some(members) = item.as_object_mut() {
        members.retain(|name, _| name != "TTL" && name != "Pinned");
    }
    item
}
