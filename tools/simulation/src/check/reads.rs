//! 1, 7: Readers see the stored versions, and the version that was the latest at a time.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;
use shared::domain::{keys::LATEST_KEY, version::Version};

use super::{
    Check,
    model::{Entity, Image},
};
use crate::requests::text;

impl Check<'_> {
    /// 7: A read as of a time returns the last version that was recorded by then.
    pub(super) fn check_as_of(&mut self, entities: &BTreeMap<&str, Entity>) {
        let mut times: HashMap<&str, BTreeMap<u64, &str>> = HashMap::new();
        let mut latest: HashMap<&str, u64> = HashMap::new();
        for item in &self.evidence.items {
            let (entity, key) = (text(item, "/PK/S"), text(item, "/SK/S"));
            if key == LATEST_KEY {
                latest.insert(entity, text(item, "/Latest/N").parse().unwrap_or(0));
            } else if let Some(version) = self.digits.version_of(key) {
                let times = times.entry(entity).or_default();
                times.insert(version.get(), text(item, "/RecordedAt/S"));
            }
        }
        for read in &self.evidence.as_of {
            let entity = read.entity.as_str();
            let Some(times) = times.get(entity) else { continue };
            // Only a complete history has the times of all versions, and only one that no operator has started again.
            let was_deleted = (self.evidence.stream.iter())
                .map(|written| &written.record)
                .any(|record| text(record, "/eventName") == "REMOVE" && text(record, "/dynamodb/Keys/PK/S") == entity);
            // A version before the floor, or one that was marked, cannot be read.
            let is_pruned = self
                .evidence
                .items
                .iter()
                .any(|item| text(item, "/PK/S") == entity && text(item, "/SK/S") == "floor");
            let is_complete = !is_pruned && times.len() as u64 == latest.get(entity).copied().unwrap_or(0);
            if was_deleted || !is_complete || times.values().any(|time| time.is_empty()) {
                continue;
            }
            // The time of a version of the model, or from the stream, which the model does not know.
            let images = entities.get(entity).map_or(&[][..], |entity| &entity.images);
            let time_of = |image: &Image| match image.recorded_at() {
                "" => times.get(&image.version).copied().unwrap_or_default().to_owned(),
                time => time.to_owned(),
            };
            // The recovery, which follows the reads, can create versions.
            let read_images = (images.iter()).filter(|image| image.index < self.evidence.recovered_from);
            let modelled: Vec<_> = read_images.map(|image| (image.version, time_of(image))).collect();
            // Another program has set the time back.
            if self.sets_time(entity) && !modelled.is_sorted_by_key(|(_, time)| time) {
                continue;
            }
            let expected = (modelled.iter().rev())
                .find(|(_, time)| *time <= read.time)
                .map(|(version, _)| *version);
            if read.version != Ok(expected) {
                let (time, version) = (&read.time, &read.version);
                let description = format!("{entity}: the version as of {time} is {version:?} instead of {expected:?}");
                self.add(7, description);
            }
        }
    }

    /// 1: A reader sees exactly the stored versions.
    pub(super) fn check_reads(&mut self) {
        for (entity, read) in &self.evidence.read {
            let items = || self.evidence.items.iter().filter(|item| text(item, "/PK/S") == entity);
            let latest = items().find(|item| text(item, "/SK/S") == LATEST_KEY);
            let latest = latest
                .and_then(|item| text(item, "/Latest/N").parse().ok())
                .unwrap_or(0);
            let floor = items().find(|item| text(item, "/SK/S") == "floor");
            let floor: u64 = floor.and_then(|item| text(item, "/Floor/N").parse().ok()).unwrap_or(1);
            let version_of = |item: &Value| self.digits.version_of(text(item, "/SK/S"));
            let versions = items().filter_map(version_of);
            // The latest version is readable before its version item exists: v0 contains it.
            let mut unpruned: Vec<u64> = { versions.map(Version::get) }
                .filter(|version| *version <= latest)
                .collect();
            unpruned.push(latest);
            unpruned.sort_unstable_by(|a, b| b.cmp(a));
            unpruned.dedup();
            // A pruned version can be read until it expires, and a prune that was interrupted leaves some without a time.
            let from_floor = |version: &u64| *version >= floor;
            let marked = items().filter(|item| item.get("TTL").is_some()).filter_map(version_of);
            let marked: HashSet<_> = marked.map(Version::get).collect();
            let kept = |version: &u64| from_floor(version) || !marked.contains(version);
            let stored: Vec<_> = unpruned.iter().copied().filter(from_floor).collect();
            let unmarked: Vec<_> = unpruned.iter().copied().filter(kept).collect();
            let read = match read {
                Ok(read) => read,
                Err(error) => {
                    self.add(1, format!("{entity}: a reader gets {error:?}"));
                    continue;
                }
            };
            let numbers: Vec<_> = read.iter().map(|(version, _)| *version).collect();
            if ![&stored, &unpruned, &unmarked].contains(&&numbers) {
                self.add(1, format!("{entity}: a reader sees {numbers:?} instead of {stored:?}"));
            }
            for (version, attributes) in read {
                let key = self.key(*version);
                let item = items().find(|item| text(item, "/SK/S") == key);
                // The latest version can be read from v0 alone.
                let Some(item) = item else { continue };
                let is_stored =
                    |(name, value): (&String, &_)| serde_json::to_value(value).ok().as_ref() == item.get(name);
                if !attributes.iter().all(is_stored) {
                    self.add(1, format!("{entity} v{version}: a reader sees another state"));
                }
            }
        }
    }
}
