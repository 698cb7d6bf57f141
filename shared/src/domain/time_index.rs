//! Marks by which the global secondary index `TimeIndex` finds the versions of all entities by time.
//!
//! ```text
//! TimePartition  InsertedAt                                                    first set, "0" to "63"
//! 17             2026-11-26T13:20:52.123Z/2026-11-26T13:20:51.004512000Z
//! late17         2026-11-26T13:20:52.123Z/2026-11-25T08:00:00.000000000Z       second set, "late0" to "late63"
//! ```
//!
//! The partition is a hash of the entity, so that versions of all times are spread over all partitions. A version of the first set was
//! inserted between [`AHEAD`] before and [`LATE`] after its `RecordedAt`, so a window of `RecordedAt` is one range of each partition. All
//! others are in the second set, which is read from the beginning of the window until now.

use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::{AttributeValue, Item, attributes::text, names, recorded_at::RecordedAt};

/// Name of the index. It projects keys only.
pub const INDEX_NAME: &str = "TimeIndex";
/// Partition key of the index.
pub const PARTITION: &str = "TimePartition";
/// Sort key of the index: the time of insertion in milliseconds, and the `RecordedAt` of the version.
pub const INSERTED_AT: &str = "InsertedAt";
/// Number of partitions of each set.
pub const PARTITIONS: u8 = 64;
/// Maximum time between the `RecordedAt` of a version and its insertion in the first set.
pub const LATE: Duration = Duration::from_secs(15 * 60);
/// Maximum time by which `RecordedAt` is later than the time of insertion. A clock that is further ahead moves the latter.
pub const AHEAD: Duration = Duration::from_secs(15);
/// Attribute with the time since which the index has all versions that are inserted, see
/// [`store_time_index_since`](crate::dynamodb::Store::store_time_index_since).
pub const SINCE: &str = "TimeIndexSince";
/// Value of [`SINCE`] in a table that had the index before its first version.
pub const ALWAYS: &str = "1970-01-01T00:00:00Z";

/// Maximum size of the marks in an item, in bytes.
pub const BYTES: usize = PARTITION.len() + "late63".len() + INSERTED_AT.len() + 24 + 1 + 30;

const LATE_PREFIX: &str = "late";

/// Returns the partitions of the first set.
pub fn partitions() -> impl Iterator<Item = String> {
    (0..PARTITIONS).map(|number| number.to_string())
}

/// Returns the partitions of the second set: versions that were inserted late, and those without a `RecordedAt`.
pub fn late_partitions() -> impl Iterator<Item = String> {
    partitions().map(|number| format!("{LATE_PREFIX}{number}"))
}

/// Returns the marks of a version that is inserted at this time since 1970-01-01T00:00:00Z. `recorded_at` is the attribute as stored.
pub fn marks(
    partition_key: &str,
    recorded_at: Option<&str>,
    inserted: Duration,
) -> [(&'static str, AttributeValue); 2] {
    let number = Sha256::digest(partition_key)[0] % PARTITIONS;
    let inserted = RecordedAt::since_epoch(inserted);
    // A text that is not a time counts as none.
    let recorded = recorded_at.and_then(|text| Some((RecordedAt::parse(text).ok()?, text)));
    let is_late = recorded.is_none_or(|(recorded, _)| inserted > recorded.after(LATE));
    let (inserted, recorded_at) = match recorded {
        Some((recorded, text)) => (inserted.max(recorded.before(AHEAD)), text),
        None => (inserted, ""),
    };
    let partition = format!("{}{number}", if is_late { LATE_PREFIX } else { "" });
    let inserted = format!("{}/{recorded_at}", millis(inserted));
    [
        (PARTITION, AttributeValue::S(partition)),
        (INSERTED_AT, AttributeValue::S(inserted)),
    ]
}

/// Sets the marks of a version item that is inserted at this time.
pub fn mark(item: &mut Item, inserted: Duration) {
    let marks = marks(
        text(item, names::PK).unwrap_or_default(),
        text(item, names::RECORDED_AT),
        inserted,
    );
    item.extend(marks.map(|(name, value)| (name.to_owned(), value)));
}

/// Returns an item without the marks.
#[must_use]
pub fn unmarked(mut item: Item) -> Item {
    for name in [PARTITION, INSERTED_AT] {
        item.remove(name);
    }
    item
}

/// Returns a time as it is in [`INSERTED_AT`]: the first part of the sort key.
pub fn millis(time: RecordedAt) -> String {
    let text = time.to_string();
    // "2026-11-26T13:20:52.123" of 30 characters.
    format!("{}Z", text.get(..text.len().saturating_sub(7)).unwrap_or(&text))
}

/// Returns the time of insertion and the `RecordedAt` in a value of [`INSERTED_AT`]. `None` if it is not one.
pub fn parse(inserted_at: &str) -> Option<(RecordedAt, Option<RecordedAt>)> {
    let (inserted, recorded) = inserted_at.split_once('/')?;
    let recorded = Some(recorded).filter(|text| !text.is_empty()).map(RecordedAt::parse);
    Some((RecordedAt::parse(inserted).ok()?, recorded.transpose().ok()?))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::domain::test_values::item;

    const NOW: &str = "2026-11-26T13:20:52.123456789Z";

    fn at(recorded_at: Option<&str>) -> (String, String) {
        let now = RecordedAt::parse(NOW).unwrap().to_duration() + Duration::from_micros(456);
        let [
            (PARTITION, AttributeValue::S(partition)),
            (INSERTED_AT, AttributeValue::S(inserted)),
        ] = marks("Equipment#1", recorded_at, now)
        else {
            panic!("the marks are two texts");
        };
        (partition, inserted)
    }

    #[test]
    fn marks_by_the_time_between_recording_and_insertion() {
        for (recorded, set, inserted) in [
            (Some("2026-11-26T13:20:51.004512003Z"), "", "2026-11-26T13:20:52.123Z"),
            // Of a clock that is ahead: no more than 15 s.
            (Some("2026-11-26T13:21:07.123456000Z"), "", "2026-11-26T13:20:52.123Z"),
            (Some("2026-11-26T13:21:07.124000000Z"), "", "2026-11-26T13:20:52.124Z"),
            (Some("2026-11-26T14:00:00.000000000Z"), "", "2026-11-26T13:59:45.000Z"),
            // Of another program, whose time has another form.
            (Some("2026-11-26T13:20:51Z"), "", "2026-11-26T13:20:52.123Z"),
            (Some("2026-11-26T13:05:52.123456000Z"), "", "2026-11-26T13:20:52.123Z"),
            (
                Some("2026-11-26T13:05:52.123455999Z"),
                "late",
                "2026-11-26T13:20:52.123Z",
            ),
            (
                Some("1969-12-31T23:59:59.000000000Z"),
                "late",
                "2026-11-26T13:20:52.123Z",
            ),
            (Some("yesterday"), "late", "2026-11-26T13:20:52.123Z"),
            (None, "late", "2026-11-26T13:20:52.123Z"),
        ] {
            let (partition, sort_key) = at(recorded);
            let recorded = recorded.filter(|text| *text != "yesterday");
            assert_eq!(partition, format!("{set}27"), "{recorded:?}");
            assert_eq!(sort_key, format!("{inserted}/{}", recorded.unwrap_or_default()));
            assert!(PARTITION.len() + partition.len() + INSERTED_AT.len() + sort_key.len() <= BYTES);
            let time = |text: &str| RecordedAt::parse(text).unwrap();
            assert_eq!(parse(&sort_key), Some((time(inserted), recorded.map(time))));
        }
        for other in ["", "2026-11-26T13:20:52.123Z", "x/", "/2026-11-26T13:20:52.123Z"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn every_partition_is_used_and_known() {
        let (first, second): (HashSet<_>, HashSet<_>) = (partitions().collect(), late_partitions().collect());
        assert_eq!((first.len(), second.len()), (64, 64));
        let mut used = HashSet::new();
        for number in 0..1000 {
            let mut version = item(serde_json::json!({
                "PK": {"S": format!("E{number}")}, "SK": {"S": "v1"}, "RecordedAt": {"S": NOW}, "TimePartition": {"N": "7"},
            }));
            mark(&mut version, RecordedAt::parse(NOW).unwrap().to_duration());
            used.extend(text(&version, PARTITION).map(str::to_owned));
            assert_eq!(version.len(), 5);
        }
        assert_eq!(used, first);
    }
}
