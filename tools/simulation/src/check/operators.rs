//! 1, 2: What the commands of operators promise: a pinned version does not expire, a purge deletes no version of a later update, and a
//! redrive stores no version that is not counted.

use std::{collections::HashMap, time::Duration};

use serde_json::Value;
use shared::domain::{
    Item,
    keys::{FLOOR_KEY, LATEST_KEY},
    purge_marker::{PurgeMarker, SORT_KEY},
    version::Version,
};

use crate::{
    caller::Author,
    check::{
        Check,
        model::{Entity, Image},
        purge_marker_key,
    },
    requests::text,
    schedule::{Command, StepKind},
    stream::Written,
};

/// Number of versions from which a repair restores the recent requests.
const RESTORED_REQUESTS: u64 = 10;
/// Time after which a batch has removed versions before which it has read that there is no hold.
const BATCH: Duration = Duration::from_secs(1);
/// Seconds after which a redrive has put a version whose number it has compared.
const REDRIVE: u64 = 120;

impl Check<'_> {
    /// 1: A pinned version exists and does not expire, until its entity is purged.
    pub(super) fn check_pins(&mut self) {
        for (command, _) in &self.evidence.done {
            let Command::Pin(entity, version) = command else {
                continue;
            };
            let is_kept = |item: &Value| item.get("TTL").is_none() && item["Pinned"]["BOOL"] == true;
            let pinned = self.evidence.items.get(entity, &self.key(*version));
            if !pinned.is_some_and(is_kept) && !self.is_marked_as_purged(entity) {
                self.add::<1>(format!("{entity} v{version} is pinned, and is missing or expires"));
            }
        }
    }

    /// 1: A purge deletes the latest item only if its marker covers the last version.
    pub(super) fn check_purges(&mut self) {
        let item = |image: &Value| serde_json::from_value::<Item>(image.clone()).unwrap_or_default();
        // Last images of the latest items and of the purge markers.
        let mut images: HashMap<(&str, &str), &Value> = HashMap::new();
        for written in &self.evidence.stream {
            let (entity, key) = (written.entity(), written.key());
            if ![SORT_KEY, LATEST_KEY].contains(&key) {
                continue;
            }
            if !written.is_removal() {
                images.insert((entity, key), written.image());
                continue;
            }
            let deleted = (key == LATEST_KEY).then(|| images.remove(&(entity, key))).flatten();
            let Some(deleted) = deleted.filter(|_| written.by.author == Author::Operator) else {
                continue;
            };
            let marker_key = purge_marker_key(entity);
            let marker = images.get(&(marker_key.as_str(), SORT_KEY));
            let marker = marker.and_then(|marker| PurgeMarker::of(&item(marker)));
            let number = text(deleted, "/Latest/N");
            let version = number.parse().ok().and_then(Version::new);
            let covers =
                |marker: PurgeMarker| version.is_none_or(|version| marker.covers_item(&item(deleted), version));
            if !marker.is_some_and(covers) {
                self.add::<1>(format!(
                    "{entity}: a purge deleted v0 with version {number}, which is later"
                ));
            }
        }
    }

    /// 1: An operator removes no version of an entity on hold.
    pub(super) fn check_holds(&mut self) {
        let mut holds: HashMap<&str, Duration> = HashMap::new();
        for written in &self.evidence.stream {
            let (entity, key, at) = (written.entity(), written.key(), written.by.at);
            if key == FLOOR_KEY && written.image().get("Hold").is_some() {
                holds.entry(entity).or_insert(at);
            } else if key == FLOOR_KEY {
                holds.remove(entity);
            }
            let is_version = key == LATEST_KEY || self.digits.version_of(key).is_some();
            let is_removed = written.is_removal() || written.image().get("TTL").is_some();
            let is_held = holds.get(entity).is_some_and(|since| *since + BATCH < at);
            if is_version && is_removed && is_held && written.by.author == Author::Operator {
                self.add::<1>(format!("{entity} {key} was removed, and the entity is on hold"));
            }
        }
    }

    /// 2: A redrive stores only versions that the latest item counts.
    pub(super) fn check_redrives(&mut self) {
        // Times and numbers of each latest item.
        let mut counted: HashMap<&str, Vec<(u64, u64)>> = HashMap::new();
        for written in &self.evidence.stream {
            let (entity, created) = (written.entity(), written.created());
            let numbers = counted.entry(entity).or_default();
            if written.key() == LATEST_KEY {
                let number = text(written.image(), "/Latest/N").parse();
                numbers.push((created, number.unwrap_or(0)));
                continue;
            }
            let version = self.digits.version_of(written.key()).map_or(0, Version::get);
            if written.by.author != Author::Redrive || written.event() != "INSERT" || version == 0 {
                continue;
            }
            // Those that held while the redrive ran.
            let before = numbers.iter().rposition(|(time, _)| time + REDRIVE < created);
            let numbers = numbers[before.unwrap_or(0)..].iter().map(|(_, number)| *number);
            let latest = numbers.max().unwrap_or(0);
            if version > latest {
                self.add::<2>(format!(
                    "{entity}: a redrive stored version {version}, and v0 has version {latest}"
                ));
            }
        }
    }

    /// 1: While the latest version is a tombstone, a prune keeps the version that an undelete restores.
    pub(super) fn check_tombstones(&mut self, name: &str, entity: &Entity) {
        let is_repair = |kind: &StepKind| matches!(kind, StepKind::Command(Command::Repair | Command::Revive));
        // An undelete restores such a version, which is not among the images.
        if entity.era > 0 || self.has_manual_version(name) || self.schedule.has(is_repair) {
            return;
        }
        let is_floor = |written: &Written| {
            written.entity() == name && written.key() == FLOOR_KEY && written.by.author == Author::Operator
        };
        let is_deleted = |image: &Image| image.item["Deleted"]["BOOL"] == true;
        let stream = self.evidence.stream[..self.evidence.recovered_from].iter().enumerate();
        for (index, written) in stream.filter(|(_, written)| is_floor(written)) {
            let before = entity.images.partition_point(|image| image.index < index);
            let before = &entity.images[..before];
            let kept = before.iter().rfind(|image| !is_deleted(image));
            let floor: u64 = text(written.image(), "/Floor/N").parse().unwrap_or(0);
            if before.last().is_some_and(is_deleted)
                && let Some(kept) = kept.map(|image| image.version).filter(|kept| *kept < floor)
            {
                self.add::<1>(format!("{name} v{kept} was pruned, and an undelete restores it"));
            }
        }
    }

    /// 1: No record stores a pruned version again.
    pub(super) fn check_pruned(&mut self, name: &str, entity: &Entity) {
        // A later entity with the same key has its own versions.
        if entity.era > 0 || self.is_marked_as_purged(name) {
            return;
        }
        let evidence = self.evidence;
        let pruned = evidence.pruned.iter().filter(|(entity, _)| entity == name);
        for key in pruned
            .filter(|key| !evidence.manual_versions.contains(*key))
            .map(|(_, key)| key)
        {
            if evidence.recovered.get(name, key).is_some() {
                self.add::<1>(format!("{name} {key} was pruned, and is in history again"));
            }
        }
    }

    /// Returns `true` if a repair restored the latest item between two versions, with the request of the earlier one.
    pub(super) fn is_restored_with(&self, before: &Image, after: &Image, images: &[Image], entity: &str) -> bool {
        let restored = images.iter().find(|image| image.era == after.era);
        let Some(restored) = restored.filter(|image| image.by_operator && image.era == before.era + 1) else {
            return false;
        };
        let key = self.key(before.version);
        let mut earlier = self.evidence.stream[..restored.index].iter();
        let is_stored = earlier.any(|written| {
            let is_it = written.entity() == entity && written.key() == key;
            is_it && text(written.image(), "/RequestId/S") == before.carries
        });
        is_stored && (before.version..before.version + RESTORED_REQUESTS).contains(&restored.version)
    }
}
