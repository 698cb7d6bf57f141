//! The shards of a lineage and their records, which are computed from their place.

use std::time::Duration;

use local::mapping::record::Record;
use serde_json::{Value, json};
use shared::domain::{keys::LATEST_KEY, sequence::SequenceNumber};

pub(super) const STREAM_ARN: &str = "arn:aws:dynamodb:us-east-1:000000000000:table/Table/stream/1";
/// Shards of a lineage, by generation.
pub(super) const NODES: u64 = 5;
/// One of this number of lineages has a shard that fails.
const FAILING: u64 = 20;
/// Shard that fails.
const FAILING_NODE: u64 = 1;
/// Time from the start until the record of a failing shard is too old.
const FAILS_FOR: Duration = Duration::from_secs(120);

/// The number of a shard. Those of a lineage follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place(pub(super) u64);

impl Place {
    pub(super) fn lineage(self) -> u64 {
        self.0 / NODES
    }

    pub(super) fn node(self) -> u64 {
        self.0 % NODES
    }

    pub(super) fn id(self) -> String {
        format!("shardId-{:08}", self.0)
    }

    pub(super) fn parse(id: &str) -> Option<Self> {
        Some(Self(id.strip_prefix("shardId-")?.parse().ok()?))
    }

    pub(super) fn parent(self) -> Option<Self> {
        let distance = match self.node() {
            0 => return None,
            1 => 1,
            _ => 2,
        };
        Some(Self(self.0 - distance))
    }

    pub(super) fn is_failing(self) -> bool {
        self.node() == FAILING_NODE && self.lineage().is_multiple_of(FAILING)
    }

    /// Returns `true` if a record of the shard waits for a failing one.
    pub(super) fn is_behind_failing(self) -> bool {
        self.is_failing() || self.parent().is_some_and(Self::is_behind_failing)
    }

    /// Items and versions of the shard's records.
    pub(super) fn versions(self) -> &'static [(u64, u64)] {
        match self.node() {
            0 => &[(0, 1), (1, 1), (2, 1), (3, 1)],
            1 if self.is_failing() => &[(0, 2)],
            1 => &[(0, 2), (1, 2)],
            2 => &[(2, 2), (3, 2)],
            3 if self.is_behind_failing() => &[(0, 3), (1, 2)],
            3 => &[(0, 3), (1, 3)],
            _ => &[(2, 3), (3, 3)],
        }
    }

    /// Returns the shard of a record, and its item and version: `None` if the filter excludes it.
    pub(super) fn of_record(record: &Value) -> (Self, Option<(u64, u64)>) {
        let number = record["dynamodb"]["SequenceNumber"].as_str();
        let number: u64 = number.and_then(|number| number.parse().ok()).unwrap_or_default();
        let number = number.saturating_sub(1);
        let (place, index) = (Self(number / 100), usize::try_from(number % 100).unwrap_or_default());
        (place, place.versions().get(index).copied())
    }

    /// Returns the records: writes of latest items, and one of a version item, which the filter excludes.
    pub(super) fn records(self, now: Duration, max_age: Duration) -> Vec<Record> {
        let created = match self.is_failing() {
            true => now.saturating_sub(max_age) + FAILS_FOR,
            false => now,
        };
        let entity = |item: u64| json!({"S": format!("e{}-{item}", self.lineage())});
        let latest = self.versions().iter().map(|(item, version)| {
            json!({
                "PK": entity(*item), "SK": {"S": LATEST_KEY}, "Latest": {"N": version.to_string()},
                "State": {"S": "OK"},
            })
        });
        let stored = json!({"PK": entity(0), "SK": {"S": "v1"}, "State": {"S": "OK"}});
        let records = latest.chain([stored]).zip(self.0 * 100 + 1..).map(|(image, number)| {
            let number = format!("{number:021}");
            let json = json!({
                "eventID": number, "eventVersion": "1.1", "eventSource": "aws:dynamodb", "awsRegion": "us-east-1",
                "eventName": if image["Latest"]["N"] == "1" { "INSERT" } else { "MODIFY" },
                "dynamodb": {
                    "ApproximateCreationDateTime": created.as_secs(),
                    "Keys": {"PK": image["PK"], "SK": image["SK"]}, "NewImage": image,
                    "SequenceNumber": number, "StreamViewType": "NEW_IMAGE",
                },
                "eventSourceARN": STREAM_ARN,
            });
            Some(Record::new(SequenceNumber::new(number)?, created, json))
        });
        records.flatten().collect()
    }
}
