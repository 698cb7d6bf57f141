//! Thousands of shards: the mapping reads them with the settings of the template, and delivers their records to a function that takes
//! a few milliseconds.
//!
//! A lineage has five shards. The first one splits into two, and each of these is continued by another one, which stays open.
//! Its four items change once in the shard of each generation:
//!
//! ```text
//! 0 ─┬─▶ 1 ──▶ 3     items 0 and 1
//!    └─▶ 2 ──▶ 4     items 2 and 3
//! ```
//!
//! In some lineages, the records of shard 1 can never be stored, until they are too old. Shards and records are computed from
//! their [`Place`]: nothing is kept in memory for a record that is not read yet.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    ops::Range,
    sync::Mutex,
    time::Duration,
};

use local::mapping::{
    Clock as _, Counters, Destination, Environment, InvocationOutcome, Invoker, Mapping,
    failure::Document,
    position::{InMemory, Position},
    record::Record,
    settings::Settings,
    source::{Page, Shard, Source, SourceError},
};
use serde_json::{Value, json};
use shared::domain::{keys::LATEST_KEY, sequence::SequenceNumber};
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};

use super::{Outcome, Stack};
use crate::{
    caller::lock,
    clock::{Clock, in_virtual_time},
    error::SimulationError,
    functions,
    mapping::{identity, records_of},
    requests::sequence_number,
};

const STREAM_ARN: &str = "arn:aws:dynamodb:us-east-1:000000000000:table/Table/stream/1";
/// Shards of a lineage, by generation.
const NODES: u64 = 5;
/// Number of a version item, which the filter excludes, in the sequence numbers of its shard.
const EXCLUDED: u64 = 9;
/// One of this number of lineages has a shard that fails.
const FAILING: u64 = 20;
/// Shard that fails.
const FAILING_NODE: u64 = 1;
/// Time from the start until the records of a failing shard are too old.
const FAILS_FOR: Duration = Duration::from_secs(120);
/// Duration of an invocation.
const INVOCATION: Duration = Duration::from_millis(10);
/// One of this number of lists fails.
const FAILING_LISTS: u64 = 5;
/// Maximum virtual time.
const TIMEOUT: Duration = Duration::from_secs(900);
/// Maximum delay of a record that waits for no failing shard.
const MAX_DELAY: Duration = Duration::from_secs(30);

/// The number of a shard. Those of a lineage follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place(u64);

impl Place {
    fn lineage(self) -> u64 {
        self.0 / NODES
    }

    fn node(self) -> u64 {
        self.0 % NODES
    }

    fn id(self) -> String {
        format!("shardId-{:08}", self.0)
    }

    fn parent(self) -> Option<Self> {
        let parent = self.0.checked_sub(if self.node() == 1 { 1 } else { 2 });
        parent.map(Self).filter(|_| self.node() > 0)
    }

    fn is_failing(self) -> bool {
        self.node() == FAILING_NODE && self.lineage().is_multiple_of(FAILING)
    }

    /// Returns `true` if a record of the shard waits for a failing one.
    fn is_behind_failing(self) -> bool {
        self.is_failing() || self.parent().is_some_and(Self::is_behind_failing)
    }

    /// The items of its records, and their version.
    fn items(self) -> (Range<u64>, u64) {
        match self.node() {
            0 => (0..4, 1),
            node if node % 2 == 1 => (0..2, node.div_ceil(2) + 1),
            node => (2..4, node / 2 + 1),
        }
    }

    /// Returns the number of its records that the filter includes.
    fn len(self) -> u64 {
        let (items, _) = self.items();
        items.end - items.start
    }

    /// Returns the shard of a record, and its item.
    fn of_record(record: &Value) -> (Self, u64) {
        let number = record["dynamodb"]["SequenceNumber"].as_str();
        let number: u64 = number.and_then(|number| number.parse().ok()).unwrap_or_default();
        (Self(number / 100), (number % 100).saturating_sub(1))
    }

    /// Returns the records: writes of latest items, and one of a version item, which the filter excludes.
    fn records(self, now: Duration, max_age: Duration) -> Vec<Record> {
        let created = match self.is_failing() {
            true => now.saturating_sub(max_age) + FAILS_FOR,
            false => now,
        };
        let (items, version) = self.items();
        let records = items.chain([EXCLUDED]).map(|item| {
            let mut image = json!({"PK": {"S": format!("e{}-{item}", self.lineage())}, "State": {"S": "OK"}});
            image["SK"] = json!({"S": if item == EXCLUDED { "v1" } else { LATEST_KEY }});
            if item != EXCLUDED {
                image["Latest"] = json!({"N": version.to_string()});
            }
            let number = format!("{:021}", self.0 * 100 + item + 1);
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

/// The stream, the function and the on-failure destination.
struct World {
    shards: u64,
    clock: Clock,
    /// Time of the start.
    began: Duration,
    max_age: Duration,
    seen: Mutex<Seen>,
    finished: Notify,
}

/// What was seen.
#[derive(Default)]
struct Seen {
    lists: u64,
    invocations: u64,
    /// Version of each item that is stored or in a failure document, by lineage.
    versions: HashMap<(u64, u64), u64>,
    delays: Vec<Duration>,
    /// Longest delay of a record behind a failing shard.
    behind: Duration,
    /// Records in failure documents.
    documents: BTreeMap<Place, u64>,
    left: u64,
    violations: Vec<String>,
}

impl Seen {
    /// Checks a record that is stored or in a failure document: its version follows the one before.
    fn complete(&mut self, record: &Value, delay: Duration) {
        let (place, item) = Place::of_record(record);
        let (id, (_, version)) = (place.id(), place.items());
        if item == EXCLUDED {
            let violation = format!("{id}: a record that the filter excludes was delivered");
            return self.violations.push(violation);
        }
        let before = self.versions.insert((place.lineage(), item), version).unwrap_or(0);
        if before + 1 != version {
            let violation = format!("{id}: version {version} of item {item} follows {before}");
            self.violations.push(violation);
        }
        match place.is_behind_failing() {
            true => self.behind = self.behind.max(delay),
            false => self.delays.push(delay),
        }
        self.left = self.left.saturating_sub(1);
    }

    /// 5: Checks what a run left.
    fn check(&mut self, shards: &[Place]) {
        self.delays.sort_unstable();
        let mut found = Vec::new();
        if self.left > 0 {
            found.push(format!(
                "{} records are neither stored nor in a failure document",
                self.left
            ));
        }
        if self.delays.last().is_none_or(|longest| *longest > MAX_DELAY) {
            found.push(format!("a record waited {:?}", self.delays.last()));
        }
        for place in shards {
            let count = self.documents.get(place).copied().unwrap_or(0);
            if count != if place.is_failing() { place.len() } else { 0 } {
                found.push(format!("{} has {count} records in failure documents", place.id()));
            }
        }
        let found = found.iter().map(|violation| format!("guarantee 5: {violation}"));
        self.violations.extend(found);
    }
}

impl World {
    fn complete<'r>(&self, records: impl Iterator<Item = &'r Value>) {
        let mut seen = lock(&self.seen);
        records.for_each(|record| seen.complete(record, self.clock.0.elapsed()));
        if seen.left == 0 {
            self.finished.notify_one();
        }
    }
}

impl Source for &'static World {
    async fn shards(&self) -> Result<Vec<Shard>, SourceError> {
        let mut seen = lock(&self.seen);
        seen.lists += 1;
        if seen.lists.is_multiple_of(FAILING_LISTS) {
            return Err(SourceError::Unavailable("a list fails".to_owned()));
        }
        let shard = |place: Place| Shard {
            id: place.id(),
            parent: place.parent().map(Place::id),
        };
        Ok((0..self.shards).map(Place).map(shard).collect())
    }

    async fn iterator(&self, shard: &str, position: &Position) -> Result<String, SourceError> {
        let is_new = matches!(position, Position::TrimHorizon);
        Ok(format!("{shard} {}", if is_new { "new" } else { "read" }))
    }

    async fn read(&self, iterator: &str) -> Result<Page, SourceError> {
        let (shard, state) = iterator.split_once(' ').ok_or(SourceError::ExpiredIterator)?;
        let number = shard.strip_prefix("shardId-").and_then(|number| number.parse().ok());
        let place = number.map(Place).ok_or(SourceError::ExpiredIterator)?;
        let records = match state {
            "new" => place.records(self.began, self.max_age),
            _ => Vec::new(),
        };
        // The last generation stays open.
        let next = (place.node() > 2).then(|| format!("{shard} read"));
        Ok(Page { records, next })
    }
}

impl Invoker for &'static World {
    fn request_id(&self) -> String {
        format!("invocation-{}", lock(&self.seen).invocations)
    }

    async fn invoke(&self, _: &str, payload: String) -> InvocationOutcome {
        lock(&self.seen).invocations += 1;
        let event: Value = serde_json::from_str(&payload).unwrap_or_default();
        let records = functions::records(&event);
        sleep(INVOCATION).await;
        let is_stored = |record: &&Value| !Place::of_record(record).0.is_failing();
        self.complete(records.iter().filter(is_stored));
        let failed = records.iter().filter(|record| !is_stored(record));
        let failed = failed.map(|record| json!({"itemIdentifier": sequence_number(record)}));
        let response = json!({"batchItemFailures": failed.collect::<Vec<_>>()});
        InvocationOutcome::Response(response.to_string().into_bytes())
    }
}

impl Destination for &'static World {
    async fn put(&self, document: Document) -> io::Result<()> {
        let records = records_of(&document.body);
        for record in &records {
            let (place, _) = Place::of_record(record);
            *lock(&self.seen).documents.entry(place).or_default() += 1;
        }
        self.complete(records.iter());
        Ok(())
    }
}

struct ManyShards;

impl Environment for ManyShards {
    type Source = &'static World;
    type Invoker = &'static World;
    type Destination = &'static World;
    type Positions = InMemory;
    type Clock = Clock;
}

/// Runs the mapping until the records of all shards are stored or in failure documents.
pub(crate) fn run(shards: u64) -> Result<Outcome, SimulationError> {
    let settings = Stack::read()?.mapping;
    // Real time, which the result reports.
    let started = shared::clock::since_epoch();
    let mut outcome = in_virtual_time(1, read(settings, shards.div_ceil(NODES) * NODES))?;
    let elapsed = shared::clock::since_epoch().saturating_sub(started);
    outcome.figures["real_seconds"] = json!(elapsed.as_secs_f64());
    outcome.figures["peak_memory_megabytes"] = json!(peak_memory());
    Ok(outcome)
}

async fn read(settings: Settings, shards: u64) -> Outcome {
    let clock = Clock(Instant::now());
    let places: Vec<_> = (0..shards).map(Place).collect();
    let records = places.iter().copied().map(Place::len).sum();
    let seen = Seen {
        left: records,
        ..Seen::default()
    };
    let world: &'static World = Box::leak(Box::new(World {
        shards,
        clock,
        began: clock.now(),
        max_age: settings.maximum_record_age.unwrap_or_default(),
        seen: Mutex::new(seen),
        finished: Notify::new(),
    }));
    let mapping = Mapping::<ManyShards> {
        settings,
        identity: identity(STREAM_ARN.to_owned()),
        source: world,
        invoker: world,
        destination: world,
        positions: InMemory::default(),
        clock,
        counters: Counters::default(),
    };
    tokio::select! {
        biased;
        () = world.finished.notified() => {}
        () = sleep(TIMEOUT) => {}
        () = mapping.run() => {}
    }
    let mut seen = std::mem::take(&mut *lock(&world.seen));
    seen.check(&places);
    let seconds = |delay: Option<&Duration>| delay.map_or(0.0, Duration::as_secs_f64);
    Outcome {
        figures: json!({
            "shards": shards,
            "records": records,
            "failing_shards": places.iter().filter(|place| place.is_failing()).count(),
            "lists": seen.lists,
            "invocations": seen.invocations,
            "documents": seen.documents.len(),
            "delay_p50_seconds": seconds(seen.delays.get(seen.delays.len() / 2)),
            "delay_max_seconds": seconds(seen.delays.last()),
            "delay_behind_failing_seconds": seen.behind.as_secs_f64(),
            "virtual_seconds": clock.0.elapsed().as_secs(),
            "violations": seen.violations.len(),
        }),
        violations: seen.violations,
    }
}

/// Returns the peak memory of this process in megabytes. `None` if the system does not report it.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes / 1024)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

    use super::*;

    #[test]
    fn many_shards_are_listed_rarely_and_read_in_order() {
        let outcome = run(500).unwrap();
        assert!(outcome.violations.is_empty(), "{:?}", outcome.violations);
        let figures = &outcome.figures;
        assert_eq!(figures["shards"], 500);
        assert_eq!(figures["documents"], 5);
        // About one list every 10 s, and not one for each shard that ends.
        assert!(figures["lists"].as_u64().unwrap() < 100, "{figures}");
    }
}
