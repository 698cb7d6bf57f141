//! 1, 2: What the commands of operators promise: a pinned version does not expire, a purge deletes no version of a later update, and a
//! redrive stores no version that is not counted.

use std::collections::HashMap;

use serde_json::Value;
use shared::domain::{
    Item,
    keys::{FLOOR_KEY, LATEST_KEY},
    purge_marker::PurgeMarker,
    version::Version,
};

use super::{
    Check,
    model::{Entity, Image},
    purge_marker_key,
};
use crate::{
    caller::Author,
    requests::text,
    schedule::{Command, Step, StepKind},
};

/// Number of versions from which a repair restores the recent requests.
const RESTORED_REQUESTS: u64 = 10;
/// Seconds after which a redrive has put a version whose number it has compared.
const REDRIVE: u64 = 120;

impl Check<'_> {
    /// 1: A pinned version exists and does not expire, until its entity is purged.
    pub(super) fn check_pins(&mut self) {
        for (entity, version) in &self.evidence.pins {
            let key = self.key(*version);
            let is_it = |item: &&Value| text(item, "/PK/S") == entity && text(item, "/SK/S") == key;
            let is_kept = |item: &Value| item.get("TTL").is_none() && item["Pinned"]["BOOL"] == true;
            let is_kept = self.evidence.items.iter().find(is_it).is_some_and(is_kept);
            if !is_kept && !self.is_marked_as_purged(entity) {
                self.add(1, format!("{entity} v{version} is pinned, and is missing or expires"));
            }
        }
    }

    /// 1: A purge deletes the latest item only if its marker covers the last version.
    pub(super) fn check_purges(&mut self) {
        let mut latest: HashMap<&str, &Value> = HashMap::new();
        let mut markers: HashMap<&str, &Value> = HashMap::new();
        for written in &self.evidence.stream {
            let record = &written.record;
            let (entity, key) = (text(record, "/dynamodb/Keys/PK/S"), text(record, "/dynamodb/Keys/SK/S"));
            let image = record.pointer("/dynamodb/NewImage");
            match (key, image) {
                ("purged", Some(image)) => {
                    markers.insert(entity, image);
                }
                (LATEST_KEY, Some(image)) => {
                    latest.insert(entity, image);
                }
                (LATEST_KEY, None) => {
                    let Some(deleted) = latest.remove(entity).filter(|_| written.author == Author::Operator) else {
                        continue;
                    };
                    let marker = markers.get(purge_marker_key(entity).as_str());
                    let marker = marker.and_then(|marker| PurgeMarker::of(&item(marker)));
                    let version = text(deleted, "/Latest/N").parse().ok().and_then(Version::new);
                    let covers = |marker: &PurgeMarker| {
                        version.is_none_or(|version| marker.covers_item(&item(deleted), version))
                    };
                    if !marker.as_ref().is_some_and(covers) {
                        let version = text(deleted, "/Latest/N");
                        self.add(
                            1,
                            format!("{entity}: a purge deleted v0 with version {version}, which is later"),
                        );
                    }
                }
                _ => {}
            }
        }
    }

    /// 2: A redrive stores only versions that the latest item counts.
    pub(super) fn check_redrives(&mut self) {
        // Times and numbers of each latest item.
        let mut counted: HashMap<&str, Vec<(u64, u64)>> = HashMap::new();
        for written in &self.evidence.stream {
            let record = &written.record;
            let (entity, key) = (text(record, "/dynamodb/Keys/PK/S"), text(record, "/dynamodb/Keys/SK/S"));
            let created = record["dynamodb"]["ApproximateCreationDateTime"].as_u64();
            let created = created.unwrap_or_default();
            let numbers = counted.entry(entity).or_default();
            if key == LATEST_KEY {
                let number = text(record, "/dynamodb/NewImage/Latest/N").parse();
                numbers.push((created, number.unwrap_or(0)));
                continue;
            }
            let version = self.digits.version_of(key).map_or(0, Version::get);
            if written.author != Author::Redrive || text(record, "/eventName") != "INSERT" || version == 0 {
                continue;
            }
            // Those that held while the redrive ran.
            let before = numbers.iter().rposition(|(time, _)| time + REDRIVE < created);
            let highest = numbers[before.unwrap_or(0)..].iter().map(|(_, number)| *number).max();
            if Some(version) > highest {
                let latest = highest.unwrap_or(0);
                self.add(
                    2,
                    format!("{entity}: a redrive stored version {version}, and v0 has version {latest}"),
                );
            }
        }
    }

    /// 1: While the latest version is a tombstone, a prune keeps the version that an undelete restores.
    pub(super) fn check_tombstones(&mut self, name: &str, entity: &Entity) {
        let is_repair = |step: &Step| matches!(step.kind, StepKind::Command(Command::Repair | Command::Revive));
        // An undelete restores such a version, which is not among the images.
        let is_manual = self.evidence.manual_versions.iter().any(|(entity, _)| entity == name);
        if entity.era > 0 || is_manual || self.schedule.steps.iter().any(is_repair) {
            return;
        }
        let is_deleted = |image: &&Image| image.item["Deleted"]["BOOL"] == true;
        for (index, written) in self.evidence.stream[..self.evidence.recovered_from].iter().enumerate() {
            let record = &written.record;
            let is_floor =
                text(record, "/dynamodb/Keys/PK/S") == name && text(record, "/dynamodb/Keys/SK/S") == FLOOR_KEY;
            if !is_floor || written.author != Author::Operator {
                continue;
            }
            let before = entity.images.iter().filter(|image| image.index < index);
            let is_tombstone = before.clone().next_back().is_some_and(|image| is_deleted(&image));
            let kept = before.rev().find(|image| !is_deleted(image)).map(|image| image.version);
            let floor: u64 = text(record, "/dynamodb/NewImage/Floor/N").parse().unwrap_or(0);
            if is_tombstone && kept.is_some_and(|kept| kept < floor) {
                let kept = kept.unwrap_or_default();
                self.add(1, format!("{name} v{kept} was pruned, and an undelete restores it"));
            }
        }
    }

    /// 1: No record stores a pruned version again.
    pub(super) fn check_pruned(&mut self, name: &str, entity: &Entity) {
        // A later entity with the same key has its own versions.
        if entity.era > 0 || self.is_marked_as_purged(name) {
            return;
        }
        let items = &self.evidence.recovery.items;
        let is_in = |key: &str| {
            let mut items = items.iter();
            items.any(|item| text(item, "/PK/S") == name && text(item, "/SK/S") == key)
        };
        let mut again: Vec<_> = self
            .evidence
            .pruned
            .iter()
            .filter(|(entity, _)| entity == name)
            .collect();
        again.retain(|pruned| !self.evidence.manual_versions.contains(*pruned) && is_in(&pruned.1));
        let again: Vec<_> = again.into_iter().map(|(_, key)| key.clone()).collect();
        for key in again {
            self.add(1, format!("{name} {key} was pruned, and is in history again"));
        }
    }

    /// Returns `true` if a repair restored the latest item between two versions, with the request of the earlier one.
    pub(super) fn is_restored_with(&self, before: &Image, after: &Image, images: &[Image], entity: &str) -> bool {
        let restored = images.iter().find(|image| image.era == after.era);
        let Some(restored) = restored.filter(|image| image.by_operator && image.era == before.era + 1) else {
            return false;
        };
        let key = self.key(before.version);
        let is_stored = self.evidence.stream[..restored.index].iter().any(|written| {
            let record = &written.record;
            text(record, "/dynamodb/Keys/PK/S") == entity
                && text(record, "/dynamodb/Keys/SK/S") == key
                && record["dynamodb"]["NewImage"]["RequestId"]["S"] == before.carries
        });
        is_stored && (before.version..before.version + RESTORED_REQUESTS).contains(&restored.version)
    }
}

fn item(image: &Value) -> Item {
    serde_json::from_value(image.clone()).unwrap_or_default()
}
