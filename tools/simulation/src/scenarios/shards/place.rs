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
pub(super) const FAILS_FOR: Duration = Duration::from_secs(120);

/// A shard, by its lineage and its place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) lineage: u64,
    pub(super) node: u64,
}

impl Place {
    /// Returns the first shards, lineage by lineage.
    pub(super) fn all(shards: u64) -> impl Iterator<Item = Self> {
        (0..shards).map(|index| Self {
            lineage: index / NODES,
            node: index % NODES,
        })
    }

    pub(super) fn id(self) -> String {
        format!("shardId-{:08}-{}", self.lineage, self.node)
    }

    pub(super) fn parse(id: &str) -> Option<Self> {
        let (lineage, node) = id.strip_prefix("shardId-")?.split_once('-')?;
        Some(Self {
            lineage: lineage.parse().ok()?,
            node: node.parse().ok()?,
        })
    }

    pub(super) fn parent(self) -> Option<Self> {
        let node = match self.node {
            0 => return None,
            1 | 2 => 0,
            node => node - 2,
        };
        Some(Self { node, ..self })
    }

    pub(super) fn is_failing(self) -> bool {
        self.node == FAILING_NODE && self.lineage.is_multiple_of(FAILING)
    }

    /// Returns `true` if a record of the shard waits for a failing one.
    pub(super) fn is_behind_failing(self) -> bool {
        self.is_failing() || self.parent().is_some_and(Self::is_behind_failing)
    }

    /// Items and versions of the shard's records.
    pub(super) fn versions(self) -> &'static [(u64, u64)] {
        match self.node {
            0 => &[(0, 1), (1, 1), (2, 1), (3, 1)],
            1 if self.is_failing() => &[(0, 2)],
            1 => &[(0, 2), (1, 2)],
            2 => &[(2, 2), (3, 2)],
            3 if self.is_behind_failing() => &[(0, 3), (1, 2)],
            3 => &[(0, 3), (1, 3)],
            _ => &[(2, 3), (3, 3)],
        }
    }

    /// Returns the item and the version of a record, `None` if the filter excludes it.
    pub(super) fn version(self, index: u64) -> Option<(u64, u64)> {
        self.versions().get(usize::try_from(index).ok()?).copied()
    }

    /// Returns the sequence number of a record, which shows its place.
    fn number(self, index: u64) -> u64 {
        (self.lineage * NODES + self.node) * 100 + index + 1
    }

    /// Returns the shard and the index of a record by its sequence number.
    pub(super) fn of_number(number: u64) -> (Self, u64) {
        let shard = number.saturating_sub(1) / 100;
        let place = Self {
            lineage: shard / NODES,
            node: shard % NODES,
        };
        (place, number.saturating_sub(1) % 100)
    }

    /// Returns the records: writes of latest items, and one of a version item, which the filter excludes.
    pub(super) fn records(self, now: Duration, max_age: Duration) -> Vec<Record> {
        let created = match self.is_failing() {
            true => now.saturating_sub(max_age) + FAILS_FOR,
            false => now,
        };
        let latest = self.versions().iter().map(|(item, version)| {
            json!({
                "PK": {"S": entity(self.lineage, *item)}, "SK": {"S": LATEST_KEY}, "Latest": {"N": version.to_string()},
                "State": {"S": "OK"},
            })
        });
        let stored = json!({"PK": {"S": entity(self.lineage, 0)}, "SK": {"S": "v1"}, "State": {"S": "OK"}});
        let images = latest.chain([stored]).zip(0..);
        images
            .filter_map(|(image, index)| stream_record(self.number(index), created, &image))
            .collect()
    }
}

fn entity(lineage: u64, item: u64) -> String {
    format!("e{lineage}-{item}")
}

/// Returns `true` for the version item of a record that fails.
pub(super) fn is_never_stored(item: &Value) -> bool {
    let entity = item["PK"]["S"]
        .as_str()
        .and_then(|entity| entity.strip_prefix('e')?.split_once('-'));
    let lineage = entity
        .filter(|(_, item)| *item == "0")
        .and_then(|(lineage, _)| lineage.parse::<u64>().ok());
    item["SK"]["S"] == "v2" && lineage.is_some_and(|lineage| lineage.is_multiple_of(FAILING))
}

/// Returns the text of a sequence number.
pub(super) fn sequence_number(number: u64) -> String {
    format!("{number:021}")
}

/// Returns the stream record of a write of an item, as the mapping delivers it.
fn stream_record(number: u64, created: Duration, image: &Value) -> Option<Record> {
    let number = sequence_number(number);
    let json = json!({
        "eventID": number,
        "eventName": if image["Latest"]["N"] == "1" { "INSERT" } else { "MODIFY" },
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": "us-east-1",
        "dynamodb": {
            "ApproximateCreationDateTime": created.as_secs(),
            "Keys": {"PK": image["PK"], "SK": image["SK"]},
            "NewImage": image,
            "SequenceNumber": number,
            "StreamViewType": "NEW_IMAGE",
        },
        "eventSourceARN": STREAM_ARN,
    });
    Some(Record::new(SequenceNumber::new(number)?, created, json))
}
