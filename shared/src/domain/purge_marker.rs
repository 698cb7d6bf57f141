//! Purge marker: which versions of an entity were purged, so that a late stream record does not bring one back.
//!
//! ```text
//! PK #vzero#purged#<SHA-256 of the partition key>   SK purged   PurgedAt   Purged {incarnation: last purged version, …}
//! ```
//!
//! The marker is not an item of the entity, and does not contain its partition key, because that can be personal data
//! itself. It separates the purged versions from versions of a later entity with the same key, which have another
//! [incarnation](super::incarnation). Versions above the last purged one are of an update after the purge began, which is then
//! given up.
//!
//! A version without an incarnation is of another program, or of an attached table: the creation time of its stream record is
//! compared with the time of the purge. So is every version if no incarnation is known: one that has an incarnation is then of
//! a later entity, unless it was clearly written before the purge.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use super::{
    AttributeValue, Item,
    attributes::{self, n, text},
    incarnation::Incarnation,
    names,
    recorded_at::{CLOCK_TOLERANCE, RecordedAt},
    time::EpochMillis,
    version::Version,
    version_item::VersionItem,
};

/// Maximum age of a stream record that stream-fn puts without reading the purge marker.
pub const MAX_UNCHECKED_AGE: Duration = Duration::from_secs(20);

/// Sort key of a purge marker.
pub const SORT_KEY: &str = "purged";

/// Versions of an entity that were purged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgeMarker {
    /// Time of the purge, by the clock of the operator.
    pub purged_at: RecordedAt,
    /// Last purged version of each incarnation.
    pub incarnations: BTreeMap<Incarnation, Version>,
}

impl PurgeMarker {
    /// Returns the marker of a purge that begins now, of an entity that nothing is known of.
    pub fn new(now: RecordedAt) -> Self {
        Self {
            purged_at: now,
            incarnations: BTreeMap::new(),
        }
    }

    /// Adds the latest item, which is purged with all earlier versions of its incarnation.
    pub fn add_latest(&mut self, latest: &Item, version: Version) {
        if let Some(incarnation) = Incarnation::of(latest) {
            self.incarnations.insert(incarnation, version);
        }
    }

    /// Adds a version. If its incarnation is not that of the latest item, it has ended: all its versions are purged.
    pub fn add_version(&mut self, item: &Item) {
        if let (Some(incarnation), Some(last)) = (Incarnation::of(item), Version::new(Version::MAX)) {
            self.incarnations.entry(incarnation).or_insert(last);
        }
    }

    /// Returns the marker in an item, `None` if it is not a valid marker.
    pub fn of(item: &Item) -> Option<Self> {
        let AttributeValue::M(purged) = item.get(names::PURGED)? else {
            return None;
        };
        let last = |incarnation: &String| {
            let last = attributes::version(purged, incarnation)?;
            Some((Incarnation::from(incarnation.as_str()), last))
        };
        Some(Self {
            purged_at: RecordedAt::parse(text(item, names::PURGED_AT)?).ok()?,
            incarnations: purged.keys().map(last).collect::<Option<_>>()?,
        })
    }

    /// Returns the attributes of the marker's item, without its keys.
    pub fn attributes(&self) -> [(&'static str, AttributeValue); 2] {
        let last = |(incarnation, last): (&Incarnation, &Version)| (incarnation.as_str().to_owned(), n(last));
        let purged: HashMap<_, _> = self.incarnations.iter().map(last).collect();
        [
            (names::PURGED_AT, self.purged_at.value()),
            (names::PURGED, AttributeValue::M(purged)),
        ]
    }

    /// Returns the marker of both purges: an entity can be purged again.
    #[must_use]
    pub fn max(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.purged_at = both.purged_at.max(other.purged_at);
        for (incarnation, version) in &other.incarnations {
            let last = both.incarnations.entry(incarnation.clone()).or_insert(*version);
            *last = (*last).max(*version);
        }
        both
    }

    /// Returns `true` if the version was purged.
    pub fn covers(&self, version: &VersionItem) -> bool {
        let created = version.created().map(RecordedAt::from_millis);
        let time = created.or_else(|| RecordedAt::of(version.item()));
        self.covers_time(version.item(), version.version(), time)
    }

    /// Returns `true` if a stream record without a valid version was written before the purge: it was purged too. A record
    /// without a time counts as purged.
    pub fn covers_record(&self, created: Option<EpochMillis>) -> bool {
        created.is_none_or(|created| created <= self.purged_at.after(CLOCK_TOLERANCE).floor_millis())
    }

    /// Returns `true` if the stored version item was purged, see [`Self::covers`]. One with neither incarnation nor time counts as
    /// purged: it cannot be shown to be later.
    pub fn covers_item(&self, item: &Item, version: Version) -> bool {
        self.covers_time(item, version, RecordedAt::of(item))
    }

    fn covers_time(&self, item: &Item, version: Version, time: Option<RecordedAt>) -> bool {
        match Incarnation::of(item) {
            Some(incarnation) if !self.incarnations.is_empty() => {
                let last = self.incarnations.get(&incarnation);
                last.is_some_and(|last| version <= *last)
            }
            Some(_) => time.is_none_or(|time| time.after(CLOCK_TOLERANCE) < self.purged_at),
            None => time.is_none_or(|time| time <= self.purged_at.after(CLOCK_TOLERANCE)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::test_values::{item, version as number, version_item};

    fn at(second: u64) -> RecordedAt {
        RecordedAt::since_epoch(Duration::from_secs(second))
    }

    /// Returns a version of an incarnation that writer-fn recorded at this second, or that another program wrote.
    fn version(latest: u64, own: Option<(&str, u64)>, created: Option<i64>) -> VersionItem {
        let mut image = json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": latest.to_string()}});
        if let Some((incarnation, second)) = own {
            image["RecordedAt"] = json!({"S": at(second).to_string()});
            image["RecordedVersion"] = image["Latest"].clone();
            image["V0Id"] = json!({"S": incarnation});
        }
        version_item(image).with_stream_time(created.map(|second| second * 1_000_000))
    }

    fn marker(incarnations: &[(&str, u64)]) -> PurgeMarker {
        let mut marker = PurgeMarker::new(at(1000));
        for (incarnation, last) in incarnations {
            marker.add_latest(&item(json!({"V0Id": {"S": incarnation}})), number(*last));
        }
        marker
    }

    #[test]
    fn the_incarnation_decides() {
        let marker = marker(&[("a", 7), ("b", 2)]);
        // No time makes a difference, in the past or far ahead.
        for recorded in [1, 1000, 1_000_000_000] {
            for created in [None, Some(0), Some(5000)] {
                for (incarnation, latest, covered) in [
                    ("a", 1, true),
                    ("a", 7, true),
                    ("a", 8, false),
                    ("b", 2, true),
                    ("b", 3, false),
                    ("c", 1, false),
                ] {
                    let version = version(latest, Some((incarnation, recorded)), created);
                    assert_eq!(marker.covers(&version), covered, "{incarnation} {latest}");
                }
            }
        }
    }

    #[test]
    fn an_incarnation_without_its_latest_item_has_ended() {
        let mut marker = marker(&[("a", 7)]);
        for incarnation in ["a", "b"] {
            marker.add_version(&item(json!({"V0Id": {"S": incarnation}})));
        }
        for (incarnation, latest, covered) in [("a", 8, false), ("b", Version::MAX, true), ("c", 1, false)] {
            assert_eq!(marker.covers(&version(latest, Some((incarnation, 1)), None)), covered);
        }
    }

    #[test]
    fn without_a_known_incarnation_the_time_of_the_purge_decides() {
        // A version without incarnation.
        let marked = marker(&[("a", 7)]);
        for (created, covered) in [(50, true), (500, true), (1005, true), (1009, true), (1011, false)] {
            assert_eq!(marked.covers(&version(7, None, Some(created))), covered, "{created}");
        }
        assert!(marked.covers(&version(7, None, None)));
        // If the marker knows none, a version that has one is later.
        for (recorded, created, covered) in [
            (989, None, true),
            (991, None, false),
            (1005, None, false),
            // The time of the record counts. The clock of a writer does not.
            (1, Some(991), false),
            (5000, Some(989), true),
        ] {
            let version = version(7, Some(("a", recorded)), created);
            assert_eq!(marker(&[]).covers(&version), covered, "{recorded} {created:?}");
        }
    }

    #[test]
    fn a_time_that_another_program_wrote_is_not_compared() {
        let image = json!({
            "PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": "1"}, "RecordedAt": {"S": "2999-01-01T00:00:00.000000000Z"},
        });
        let made = version_item(image);
        for (created, covered) in [(500, true), (1011, false)] {
            let version = made.clone().with_stream_time(Some(created * 1_000_000));
            assert_eq!(marker(&[("a", 7)]).covers(&version), covered, "{created}");
        }
    }

    #[test]
    fn a_marker_is_read_as_it_was_written_and_never_decreases() {
        let stored = |marker: &PurgeMarker| {
            let attributes = marker.attributes().map(|(name, value)| (name.to_owned(), value));
            Item::from(HashMap::from(attributes))
        };
        let (one, none) = (marker(&[("a", 7), ("b", 2)]), marker(&[]));
        for marker in [&one, &none] {
            assert_eq!(PurgeMarker::of(&stored(marker)).as_ref(), Some(marker));
        }
        assert_eq!(PurgeMarker::of(&Item::default()), None);
        let later = PurgeMarker {
            purged_at: at(2000),
            ..marker(&[("a", 3), ("c", 1)])
        };
        let both = PurgeMarker {
            purged_at: at(2000),
            ..marker(&[("a", 7), ("b", 2), ("c", 1)])
        };
        assert_eq!((one.max(&later), later.max(&one)), (both.clone(), both));
    }
}
