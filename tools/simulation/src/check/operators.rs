//! 1, 2: What the commands of operators promise: a pinned version does not expire, a purge deletes no version of a later update, and a
//! redrive stores no version that is not counted.

use std::collections::HashMap;

use serde_json::Value;
use shared::domain::{Item, keys::LATEST_KEY, purge_marker::PurgeMarker, version::Version};

use super::{Check, model::Image, purge_marker_key, text};
use crate::caller::Author;

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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]
mod tests {
    use serde_json::json;
    use shared::domain::{keys::VersionDigits, recorded_at::RecordedAt};

    use super::*;
    use crate::{check::Violation, evidence::Evidence, schedule::Schedule, stream::Written};

    /// Returns a record of an item, which was deleted if there is no image, at a second.
    fn written(author: Author, entity: &str, key: &str, second: u64, image: Option<Value>) -> Written {
        let event = if image.is_some() { "INSERT" } else { "REMOVE" };
        let mut record = json!({"eventName": event, "dynamodb": {
            "Keys": {"PK": {"S": entity}, "SK": {"S": key}}, "ApproximateCreationDateTime": second,
        }});
        if let Some(image) = image {
            record["dynamodb"]["NewImage"] = image;
        }
        Written {
            record,
            author,
            process: None,
            at: std::time::Duration::from_secs(second),
        }
    }

    fn latest(version: u64, second: u64) -> Written {
        let time = RecordedAt::since_epoch(std::time::Duration::from_secs(second)).to_string();
        let image = json!({
            "Latest": {"N": version.to_string()}, "RecordedAt": {"S": time}, "V0Id": {"S": "a"},
        });
        written(Author::Writer(Vec::new()), "E", LATEST_KEY, second, Some(image))
    }

    /// Returns the violations that a check finds.
    fn found<'a>(schedule: &'a Schedule, evidence: &'a Evidence, run: fn(&mut Check<'a>)) -> Vec<Violation> {
        let mut check = Check {
            schedule,
            evidence,
            kept: &[],
            digits: VersionDigits::default(),
            violations: Vec::new(),
        };
        run(&mut check);
        check.violations
    }

    #[test]
    fn a_pinned_version_exists_without_an_expiry() {
        let schedule = Schedule::draw(1);
        let item = json!({"PK": {"S": "E"}, "SK": {"S": "v1"}, "Pinned": {"BOOL": true}});
        let mut expiring = item.clone();
        expiring["TTL"] = json!({"N": "1"});
        for (items, violations) in [(vec![item], 0), (vec![expiring], 1), (vec![], 1)] {
            let evidence = Evidence {
                items,
                pins: vec![("E".to_owned(), 1)],
                ..Evidence::default()
            };
            assert_eq!(found(&schedule, &evidence, Check::check_pins).len(), violations);
        }
    }

    #[test]
    fn a_purge_deletes_only_versions_that_its_marker_covers() {
        let schedule = Schedule::draw(1);
        let time = |second| RecordedAt::since_epoch(std::time::Duration::from_secs(second)).to_string();
        let marker = json!({"PurgedAt": {"S": time(50)}, "Purged": {"M": {"a": {"N": "1"}}}});
        let marker = written(Author::Operator, &purge_marker_key("E"), "purged", 50, Some(marker));
        let deleted = |author| written(author, "E", LATEST_KEY, 60, None);
        for (stream, violations) in [
            (vec![latest(1, 10), marker.clone(), deleted(Author::Operator)], 0),
            (vec![latest(1, 10), deleted(Author::Operator)], 1),
            (
                vec![latest(1, 10), marker.clone(), latest(2, 55), deleted(Author::Operator)],
                1,
            ),
            (vec![latest(1, 10), marker, latest(2, 55), deleted(Author::Other)], 0),
        ] {
            let evidence = Evidence {
                stream,
                ..Evidence::default()
            };
            assert_eq!(found(&schedule, &evidence, Check::check_purges).len(), violations);
        }
    }

    #[test]
    fn a_redrive_stores_only_counted_versions() {
        let schedule = Schedule::draw(1);
        let stored = |author, second| written(author, "E", "v2", second, Some(json!({})));
        let deleted = written(Author::Other, "E", LATEST_KEY, 20, None);
        for (stream, violations) in [
            (vec![latest(2, 10), stored(Author::Redrive, 300)], 0),
            (vec![latest(1, 10), stored(Author::Redrive, 300)], 1),
            (vec![latest(1, 10), stored(Author::Operator, 300)], 0),
            // It began before the deletion.
            (vec![latest(2, 10), deleted.clone(), stored(Author::Redrive, 30)], 0),
            (vec![latest(2, 10), deleted, stored(Author::Redrive, 300)], 1),
            (vec![stored(Author::Redrive, 300)], 1),
        ] {
            let evidence = Evidence {
                stream,
                ..Evidence::default()
            };
            assert_eq!(found(&schedule, &evidence, Check::check_redrives).len(), violations);
        }
    }
}
