//! 1, 5, 6: Each version is in history once, or its record is kept, or there is a reason why it is neither. Readers see it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    time::Duration,
};

use serde_json::Value;
use shared::domain::keys::{FLOOR_KEY, LATEST_KEY};

use crate::{
    caller::Author,
    check::{
        Check,
        model::{Entity, Image},
    },
    mapping::records_of,
    requests::{sequence_number, text},
    schedule::{Command, Edit, MALFORMED},
    stream::Written,
};

/// Seconds within which a writer has read, and written: longer than its timeout.
const WRITE_SECONDS: u64 = 60;

impl<'a> Check<'a> {
    /// 6: A version item is written once. An expiry can be added to it. No update counts from 1 beside version items.
    pub(super) fn check_single_writes(&mut self) {
        let mut items: HashMap<(&str, &str), Value> = HashMap::new();
        let mut last_stored: HashMap<&str, u64> = HashMap::new();
        for written in &self.evidence.stream {
            let (entity, key) = (written.entity(), written.key());
            let is_first = key == LATEST_KEY && text(written.image(), "/Latest/N") == "1";
            if is_first && matches!(written.by.author, Author::Writer(_)) {
                let is_after = |stored: &u64| stored + WRITE_SECONDS < written.created();
                if items.keys().any(|(of, _)| *of == entity) && last_stored.get(entity).is_some_and(is_after) {
                    self.add::<6>(format!(
                        "{entity}: an update counts from 1, although there are versions"
                    ));
                }
            }
            if self.digits.version_of(key).is_none() {
                continue;
            }
            if written.is_removal() {
                items.remove(&(entity, key));
                continue;
            }
            last_stored.insert(entity, written.created());
            // Without the marks of operators.
            let mut item = written.image().clone();
            if let Some(members) = item.as_object_mut() {
                members.retain(|name, _| name != "TTL" && name != "Pinned");
            }
            let before = items.insert((entity, key), item);
            if before.is_some_and(|before| before != items[&(entity, key)]) {
                self.add::<6>(format!("{entity} {key} was overwritten"));
            }
        }
    }

    /// 5: Quarantine and failure documents contain only records of latest items, and no record without a reason.
    pub(super) fn check_documents(&mut self) {
        let evidence = self.evidence;
        let keys = evidence.stream.iter().map(|written| (written.number(), written.key()));
        let keys: HashMap<&str, &str> = keys.collect();
        let documents = evidence
            .documents
            .iter()
            .map(|document| (document, records_of(document)));
        let documents: Vec<_> = documents.collect();
        let discarded = documents.iter().flat_map(|(_, records)| records);
        for number in discarded.chain(&evidence.quarantined).map(sequence_number) {
            if keys.get(number) != Some(&LATEST_KEY) {
                self.add::<5>(format!("record {number} of an item other than v0 failed"));
            }
        }
        for (document, records) in &documents {
            if text(document, "/requestContext/condition") == "RecordAgeExceeded" {
                self.check_ages(document, records);
                continue;
            }
            // Without bisecting, the records after the failed one are in the same document.
            let failed = if self.schedule.settings.bisect {
                records.len()
            } else {
                1
            };
            for record in records.iter().take(failed) {
                let number = sequence_number(record);
                if !evidence.hindered.contains(number) && !self.is_conflict(record) {
                    self.add::<5>(format!("record {number} was discarded without a fault"));
                }
            }
        }
    }

    /// 5: Only records above the maximum age are discarded because of their age.
    fn check_ages(&mut self, document: &Value, records: &[Value]) {
        let Some(maximum) = self.schedule.settings.maximum_record_age else {
            self.add::<5>("records were discarded because of their age, which has no limit".to_owned());
            return;
        };
        let discarded: Option<jiff::Timestamp> = text(document, "/timestamp").parse().ok();
        let discarded = discarded.map_or(0, |time| u64::try_from(time.as_second()).unwrap_or_default());
        for record in records {
            let created = record["dynamodb"]["ApproximateCreationDateTime"].as_f64();
            let created = Duration::try_from_secs_f64(created.unwrap_or_default()).unwrap_or_default();
            if discarded.saturating_sub(created.as_secs()) < maximum {
                let number = sequence_number(record);
                self.add::<5>(format!("record {number} was discarded before its maximum age"));
            }
        }
    }

    /// Returns `true` if another item has the key of the record's version, or the record can never become a version.
    fn is_conflict(&self, record: &Value) -> bool {
        let version = text(record, "/dynamodb/NewImage/Latest/N").parse().ok();
        let key = version.map_or_else(String::new, |version| self.key(version));
        let items = &self.evidence.items;
        key.is_empty() || items.get(text(record, "/dynamodb/Keys/PK/S"), &key).is_some()
    }

    /// 5: A latest item that is not a valid version is in quarantine or in a failure document.
    pub(super) fn check_invalid_records(&mut self) {
        for written in &self.evidence.stream[..self.evidence.recovered_from] {
            let (entity, number) = (written.entity(), written.number());
            let is_latest = written.key() == LATEST_KEY && !written.is_removal();
            let is_invalid = entity.starts_with(MALFORMED) || text(written.image(), "/Latest/N").is_empty();
            let is_excused = || self.is_lost(number) || self.is_marked_as_purged(entity);
            if is_latest && is_invalid && !self.kept.contains(number) && !is_excused() {
                self.add::<5>(format!("record {number} is not a valid version, and is kept nowhere"));
            }
        }
    }

    /// 1, 2 and 5: Every version is in the history, or its record was discarded because of a fault.
    pub(super) fn check_history(&mut self, name: &str, entity: &Entity) {
        let items = &self.evidence.items;
        let quarantined: HashSet<&str> = self.evidence.quarantined.iter().map(sequence_number).collect();
        let floor = items.floor(name);
        let is_marked = self.is_marked_as_purged(name);
        // A purge does not know an incarnation that another program ended while the stream was behind.
        let is_replaced = |edit: &Edit| matches!(edit, Edit::Delete | Edit::Recreate);
        let is_known = !self.schedule.is_edited(name, is_replaced);
        let before_recovery = |image: &&Image| image.version >= floor && image.index < self.evidence.recovered_from;
        for image in entity.images.iter().filter(before_recovery) {
            let version = image.version;
            let stored = items.get(name, &self.key(version));
            let is_stored = stored.is_some_and(|item| image.is_stored_as(item));
            if self.is_purged(name, entity, image.index) {
                let is_of_later = |item| {
                    let mut later = entity.images.iter().filter(|other| other.index > image.index);
                    later.any(|other| other.version == version && other.is_stored_as(item))
                };
                if is_known && is_stored && !stored.is_some_and(is_of_later) && !image.by_operator {
                    self.add::<1>(format!("{name} v{version} was purged, and is in history"));
                }
                continue;
            }
            // A purge that was given up leaves the entity without some versions.
            if is_marked {
                continue;
            }
            let is_quarantined = quarantined.contains(image.written.number());
            match stored {
                _ if is_stored && is_quarantined => {
                    self.add::<5>(format!("{name} v{version} is in history and in quarantine"));
                }
                _ if is_stored => {}
                None if self.kept.contains(image.written.number()) && is_quarantined => {
                    self.add::<5>(format!("{name} v{version} is in quarantine without a reason"));
                }
                _ if self.kept.contains(image.written.number()) || self.is_lost(image.written.number()) => {}
                Some(_) => {
                    self.add::<1>(format!(
                        "{name} v{version} is a different item, and the record is kept nowhere"
                    ));
                }
                None => {
                    self.add::<1>(format!(
                        "{name} v{version} is in no history, quarantine or failure document"
                    ));
                }
            }
        }
        for (key, item) in items.of(name) {
            let is_manual = (self.evidence.manual_versions).contains(&(name.to_owned(), key.to_owned()));
            let Some(version) = self.digits.version_of(key).filter(|_| !is_manual) else {
                continue;
            };
            let mut images = entity.images.iter().filter(|image| image.version == version.get());
            if !images.any(|image| image.is_stored_as(item)) {
                self.add::<2>(format!("{name} {key} equals no image of v0"));
            }
        }
    }

    /// 1: After a redrive and a repair, history is complete, except for what was lost.
    pub(super) fn check_recovery(&mut self, entities: &BTreeMap<&'a str, Entity<'a>>) {
        let items = &self.evidence.recovered;
        for (name, entity) in entities {
            // Without a latest item, a redrive cannot tell which versions there were.
            let has_latest = items.get(name, LATEST_KEY).is_some();
            if entity.era > 0 || !has_latest || self.has_manual_version(name) || self.is_marked_as_purged(name) {
                continue;
            }
            let floor = items.floor(name);
            for image in entity.images.iter().filter(|image| image.version >= floor) {
                let stored = items.get(name, &self.key(image.version));
                if !stored.is_some_and(|item| image.is_stored_as(item)) && !self.is_lost(image.written.number()) {
                    let version = image.version;
                    self.add::<1>(format!("{name} v{version} is not in history after the recovery"));
                }
            }
        }
    }

    /// 1: An audit finds exactly the versions that are missing.
    pub(super) fn check_audit(&mut self) {
        let evidence = self.evidence;
        let mut found: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
        for finding in &evidence.findings {
            let number = |name: &str| finding[name].as_u64().unwrap_or_default();
            let versions = match finding["Finding"].as_str() {
                Some("Gap") => number("From")..=number("To"),
                Some("Lagging") => number("Through") + 1..=number("Latest"),
                _ => continue,
            };
            let entity = finding["ID"].as_str().unwrap_or_default();
            found.entry(entity).or_default().extend(versions);
        }
        let items = &evidence.recovered;
        for name in items.entities().filter(|name| !name.starts_with(MALFORMED)) {
            let Some(latest) = items.latest(name) else { continue };
            let is_missing = |version: &u64| items.get(name, &self.key(*version)).is_none();
            let missing: BTreeSet<_> = (items.floor(name)..=latest).filter(is_missing).collect();
            let found = found.remove(name).unwrap_or_default();
            if found != missing {
                self.add::<1>(format!(
                    "{name}: versions {missing:?} are missing, and an audit finds {found:?}"
                ));
            }
        }
    }

    /// 1: A reader sees exactly the stored versions.
    pub(super) fn check_reads(&mut self) {
        let items = &self.evidence.items;
        for (entity, read) in &self.evidence.read {
            let read = match read {
                Ok(read) => read,
                Err(error) => {
                    self.add::<1>(format!("{entity}: a reader gets {error:?}"));
                    continue;
                }
            };
            let (latest, floor) = (items.latest(entity).unwrap_or(0), items.floor(entity));
            let versions = items.of(entity).filter_map(|(key, item)| {
                let version = self.digits.version_of(key)?.get();
                Some((version, item.get("TTL").is_some()))
            });
            let mut stored: BTreeMap<u64, bool> = versions.filter(|(version, _)| *version <= latest).collect();
            // The latest version is readable before its version item exists: v0 contains it.
            stored.entry(latest).or_default();
            // A pruned version can be read until it expires, and a prune that was interrupted leaves some without a time.
            let seen: BTreeSet<_> = read.iter().map(|(version, _)| *version).collect();
            let is_newest_first = read.is_sorted_by(|(before, _), (after, _)| before > after);
            let is_seen = |is_readable: &dyn Fn(u64, bool) -> bool| {
                let readable = stored
                    .iter()
                    .filter(|(version, marked)| is_readable(**version, **marked));
                is_newest_first && readable.map(|(version, _)| *version).eq(seen.iter().copied())
            };
            if !is_seen(&|version, _| version >= floor)
                && !is_seen(&|_, _| true)
                && !is_seen(&|version, marked| version >= floor || !marked)
            {
                self.add::<1>(format!(
                    "{entity}: a reader sees {seen:?} of {stored:?} from version {floor} on"
                ));
            }
            for (version, attributes) in read {
                // The latest version can be read from v0 alone.
                let Some(item) = items.get(entity, &self.key(*version)) else {
                    continue;
                };
                let is_stored =
                    |(name, value): (&String, &_)| serde_json::to_value(value).ok().as_ref() == item.get(name);
                if !attributes.iter().all(is_stored) {
                    self.add::<1>(format!("{entity} v{version}: a reader sees another state"));
                }
            }
        }
    }

    /// Returns `true` if a purge has removed the version and ended without an error.
    fn is_purged(&self, name: &str, entity: &Entity, index: usize) -> bool {
        let Some(removed) = entity.purged_until else {
            return false;
        };
        let is_of = |command: &Command| matches!(command, Command::Purge(purged) if purged == name);
        let mut done = self.evidence.done.iter();
        index <= removed && done.any(|(command, end)| is_of(command) && *end > removed)
    }

    /// Returns `true` if nothing can have kept the record.
    pub(super) fn is_lost(&self, number: &str) -> bool {
        let mut dropped = self.evidence.dropped.iter();
        self.evidence.trimmed.contains(number) || dropped.any(|record| sequence_number(record) == number)
    }

    /// Returns `true` if versions of the entity are missing for good, or an operator has removed some.
    pub(super) fn has_lost_versions(&self, name: &str) -> bool {
        let evidence = self.evidence;
        let is_trimmed = |written: &Written| written.entity() == name && evidence.trimmed.contains(written.number());
        let is_of = |record: &Value| text(record, "/dynamodb/Keys/PK/S") == name;
        evidence.dropped.iter().any(is_of)
            || evidence.stream.iter().any(is_trimmed)
            || evidence.recovered.get(name, FLOOR_KEY).is_some()
            || self.is_marked_as_purged(name)
    }
}
