//! Purge marker: which versions of an entity were purged, so that a late stream record does not bring one back.
//!
//! ```text
//! PK #vzero#purged#<SHA-256 of the partition key>   SK purged   PurgedAt   RecordedAt
//! ```
//!
//! The marker is not an item of the entity, and does not contain its partition key, because that can be personal data
//! itself. It separates the purged versions from those of a later entity with the same key. The time of a writer decides,
//! because it strictly increases within an entity and a purge deletes the latest item only if this time has not changed.
//! A version of another program has the time of its stream record, which is compared with the time of the purge.

use std::time::Duration;

use super::{
    AttributeValue, Item, attributes::text, names, recorded_at::RecordedAt, time::EpochMillis,
    version_item::VersionItem,
};

/// Sort key of a purge marker.
pub const SORT_KEY: &str = "purged";
/// Bound of the difference between the clock of the purge, those of writers, and the stream's times in whole seconds.
pub const CLOCK_TOLERANCE: Duration = Duration::from_secs(10);

/// Times up to which the versions of an entity were purged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PurgeMarker {
    /// Time of the purge, by the clock of the operator.
    pub purged_at: RecordedAt,
    /// Time of the last purged version, by the clock of its writer.
    pub recorded_at: RecordedAt,
}

impl PurgeMarker {
    /// Returns the marker of a purge that begins now. Without a latest item, or if that has no time, the last version is not
    /// known: every version up to now is purged.
    pub fn new(latest: Option<&Item>, now: RecordedAt) -> Self {
        let recorded_at = latest.and_then(RecordedAt::of_latest);
        Self {
            purged_at: now,
            recorded_at: recorded_at.unwrap_or_else(|| now.after(CLOCK_TOLERANCE)),
        }
    }

    /// Returns the marker in an item, `None` if it is not a valid marker.
    pub fn of(item: &Item) -> Option<Self> {
        Some(Self {
            purged_at: RecordedAt::parse(text(item, names::PURGED_AT)?).ok()?,
            recorded_at: RecordedAt::of(item)?,
        })
    }

    /// Returns the attributes of the marker's item, without its keys.
    pub fn attributes(self) -> [(&'static str, AttributeValue); 2] {
        [
            (names::PURGED_AT, self.purged_at.value()),
            (names::RECORDED_AT, self.recorded_at.value()),
        ]
    }

    /// Returns the marker of both purges: an entity can be purged again.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            purged_at: self.purged_at.max(other.purged_at),
            recorded_at: self.recorded_at.max(other.recorded_at),
        }
    }

    /// Returns `true` if the version was purged. A version without any time counts as purged: it cannot be shown to be later.
    pub fn covers(&self, version: &VersionItem) -> bool {
        self.covers_item(version.item())
    }

    /// Returns `true` if a stream record without a valid version was written before the purge: it was purged too. A record
    /// without a time counts as purged.
    pub fn covers_record(&self, created: Option<EpochMillis>) -> bool {
        created.is_none_or(|created| created <= self.purged_at.after(CLOCK_TOLERANCE).floor_millis())
    }

    /// Returns `true` if the stored version item was purged, see [`Self::covers`].
    pub fn covers_item(&self, item: &Item) -> bool {
        let Some(recorded) = RecordedAt::of(item) else {
            return true;
        };
        match item.contains_key(names::RECORDED_BY) {
            true => recorded <= self.purged_at.after(CLOCK_TOLERANCE),
            false => recorded <= self.recorded_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::keys::VersionDigits;

    fn at(second: u64) -> RecordedAt {
        RecordedAt::since_epoch(Duration::from_secs(second))
    }

    fn item(json: Value) -> Item {
        serde_json::from_value(json).unwrap()
    }

    /// Returns a version that writer-fn recorded at this second, or that another program wrote.
    fn version(recorded: Option<u64>, created: Option<i64>) -> VersionItem {
        let mut image = json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": "7"}});
        if let Some(second) = recorded {
            image["RecordedAt"] = json!({"S": at(second).to_string()});
            image["RecordedVersion"] = json!({"N": "7"});
        }
        let made = VersionItem::from_image(item(image), VersionDigits::default()).unwrap();
        made.with_stream_time(created.map(|second| second * 1_000_000))
    }

    #[test]
    fn the_time_of_the_writer_decides() {
        let latest = item(json!({
            "RecordedAt": {"S": at(100).to_string()}, "RecordedVersion": {"N": "7"}, "Latest": {"N": "7"},
        }));
        let marker = PurgeMarker::new(Some(&latest), at(1000));
        assert_eq!((marker.purged_at, marker.recorded_at), (at(1000), at(100)));
        for (recorded, covered) in [(1, true), (100, true), (101, false), (1000, false), (2000, false)] {
            // The time of the record makes no difference.
            for created in [None, Some(0), Some(5000)] {
                assert_eq!(marker.covers(&version(Some(recorded), created)), covered, "{recorded}");
            }
        }
        // Ticks are part of the time.
        let mut ticked = latest.clone();
        ticked.insert("RecordedTick".to_owned(), AttributeValue::N("3".to_owned()));
        let marker = PurgeMarker::new(Some(&ticked), at(1000));
        assert_eq!(marker.recorded_at, at(100).after_ticks(3));
    }

    #[test]
    fn a_version_of_another_program_is_compared_with_the_time_of_the_purge() {
        let latest = item(json!({"RecordedAt": {"S": at(100).to_string()}, "RecordedVersion": {"N": "1"}}));
        let marker = PurgeMarker::new(Some(&latest), at(1000));
        // Later than the last version of writer-fn, and written before the purge. Clocks differ.
        for (created, covered) in [(50, true), (500, true), (1005, true), (1009, true), (1011, false)] {
            assert_eq!(marker.covers(&version(None, Some(created))), covered, "{created}");
        }
        assert!(marker.covers(&version(None, None)));
    }

    #[test]
    fn without_a_latest_item_every_version_up_to_now_is_purged() {
        for latest in [None, Some(item(json!({"Latest": {"N": "7"}})))] {
            let marker = PurgeMarker::new(latest.as_ref(), at(1000));
            assert!(marker.covers(&version(Some(1005), None)));
            assert!(!marker.covers(&version(Some(1011), None)));
        }
    }

    #[test]
    fn a_marker_is_read_as_it_was_written_and_never_decreases() {
        let marker = PurgeMarker {
            purged_at: at(1000),
            recorded_at: at(900).after_ticks(2),
        };
        let stored = marker.attributes().map(|(name, value)| (name.to_owned(), value));
        let stored = Item::from(std::collections::HashMap::from(stored));
        assert_eq!(PurgeMarker::of(&stored), Some(marker));
        assert_eq!(PurgeMarker::of(&Item::default()), None);
        let other = PurgeMarker {
            purged_at: at(2000),
            recorded_at: at(800),
        };
        let both = PurgeMarker {
            purged_at: at(2000),
            recorded_at: at(900).after_ticks(2),
        };
        assert_eq!((marker.max(other), other.max(marker)), (both, both));
    }
}
