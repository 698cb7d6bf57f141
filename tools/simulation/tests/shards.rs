//! Hundreds of shards: the mapping reads them in virtual time, with the settings of the template, and delivers their records to a function
//! that takes a few milliseconds.
//!
//! A lineage has five shards. The first one splits into two, and each of these is continued by another one, which stays open.
//! Its four items change once in the shard of each generation:
//!
//! ```text
//! 0 ─┬─▶ 1 ──▶ 3     items 1 and 2
//!    └─▶ 2 ──▶ 4     items 3 and 4
//! ```
//!
//! In some lineages, the records of shard 1 can never be stored, until they are too old.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::{collections::HashMap, io, path::Path, sync::Mutex, time::Duration};

use local::{
    mapping::{
        Counters, Destination, Environment, Identity, InvocationOutcome, Invoker, Mapping,
        failure::Document,
        position::{InMemory, Position},
        record::Record,
        source::{Page, Shard, Source, SourceError},
    },
    template::Template,
};
use serde_json::{Value, json};
use shared::domain::sequence::SequenceNumber;
use tokio::time::{Instant, sleep, timeout};

const LINEAGES: u64 = 100;
/// Shards of a lineage.
const NODES: u64 = 5;
/// Number of a version item, which the filter excludes, in the sequence numbers of its shard.
const EXCLUDED: u64 = 9;
/// One of this number of lineages has a shard that fails.
const FAILING: u64 = 20;
/// Time from the start until the records of a failing shard are too old.
const FAILS_FOR: Duration = Duration::from_secs(120);
/// One of this number of lists fails.
const FAILING_LISTS: usize = 5;
/// Virtual time in which all records are stored, or in failure documents.
const RUN: Duration = Duration::from_secs(150);
/// Maximum delay of a record that waits for no failing shard.
const MAX_DELAY: Duration = Duration::from_secs(30);

/// The number of a shard. Those of a lineage follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place(u64);

impl Place {
    fn node(self) -> u64 {
        self.0 % NODES
    }

    fn parent(self) -> Option<Self> {
        let parent = self.0.checked_sub(if self.node() == 1 { 1 } else { 2 });
        parent.map(Self).filter(|_| self.node() > 0)
    }

    fn is_failing(self) -> bool {
        self.node() == 1 && (self.0 / NODES).is_multiple_of(FAILING)
    }

    /// Returns `true` if a record of the shard waits for a failing one.
    fn is_behind_failing(self) -> bool {
        self.is_failing() || self.parent().is_some_and(Self::is_behind_failing)
    }

    /// Returns the version that each of its items gets.
    fn version(self) -> u64 {
        1 + self.node().div_ceil(2)
    }

    /// Returns the shard of a record, and the item that it changes.
    fn of_record(record: &Value) -> (Self, u64) {
        let number = record["dynamodb"]["SequenceNumber"].as_str().unwrap();
        let number: u64 = number.parse().unwrap();
        (Self(number / 100), number % 100)
    }

    /// Returns the records: writes of latest items, and one of a version item, which the filter excludes.
    fn records(self, created: Duration) -> Vec<Record> {
        let items: &[u64] = match self.node() {
            0 => &[1, 2, 3, 4],
            node if node % 2 == 1 => &[1, 2],
            _ => &[3, 4],
        };
        let record = |item: &u64| {
            let keys = json!({
                "PK": {"S": format!("e{}-{item}", self.0 / NODES)}, "SK": {"S": if *item == EXCLUDED { "v1" } else { "v0" }},
            });
            let number = format!("{:021}", self.0 * 100 + item);
            let json = json!({"dynamodb": {"Keys": keys, "NewImage": keys, "SequenceNumber": number}});
            Record::new(SequenceNumber::new(number).unwrap(), created, json)
        };
        items.iter().chain(&[EXCLUDED]).map(record).collect()
    }
}

/// The stream, the function and the on-failure destination.
struct World {
    began: Instant,
    max_age: Duration,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    lists: usize,
    /// Records that are stored or in failure documents, in this order, with their delay.
    completed: Vec<(Place, u64, Duration)>,
    /// Shards of the records in failure documents.
    documents: Vec<Place>,
}

/// Time since 1970 at the start.
const START: Duration = Duration::from_secs(1_767_225_600);

impl World {
    fn complete<'r>(&self, records: impl IntoIterator<Item = &'r Value>) {
        let completed = &mut self.seen.lock().unwrap().completed;
        let places = records.into_iter().map(Place::of_record);
        completed.extend(places.map(|(place, item)| (place, item, self.began.elapsed())));
    }
}

impl Source for &'static World {
    async fn shards(&self) -> Result<Vec<Shard>, SourceError> {
        let lists = &mut self.seen.lock().unwrap().lists;
        *lists += 1;
        if lists.is_multiple_of(FAILING_LISTS) {
            return Err(SourceError::Unavailable("a list fails".to_owned()));
        }
        let id = |place: Place| place.0.to_string();
        let shard = |place: Place| Shard {
            id: id(place),
            parent: place.parent().map(id),
        };
        Ok((0..LINEAGES * NODES).map(Place).map(shard).collect())
    }

    async fn iterator(&self, shard: &str, position: &Position) -> Result<String, SourceError> {
        let is_new = matches!(position, Position::TrimHorizon);
        Ok(format!("{shard} {}", if is_new { "new" } else { "read" }))
    }

    async fn read(&self, iterator: &str) -> Result<Page, SourceError> {
        let (shard, state) = iterator.split_once(' ').unwrap();
        let place = Place(shard.parse().unwrap());
        let created = match place.is_failing() {
            true => START.saturating_sub(self.max_age) + FAILS_FOR,
            false => START,
        };
        let records = if state == "new" {
            place.records(created)
        } else {
            Vec::new()
        };
        // The last generation stays open.
        let next = (place.node() > 2).then(|| format!("{shard} read"));
        Ok(Page { records, next })
    }
}

impl Invoker for &'static World {
    fn request_id(&self) -> String {
        "invocation".to_owned()
    }

    async fn invoke(&self, _: &str, payload: String) -> InvocationOutcome {
        let event: Value = serde_json::from_str(&payload).unwrap();
        sleep(Duration::from_millis(10)).await;
        let records = event["Records"].as_array().unwrap().iter();
        let (failed, stored): (Vec<_>, Vec<_>) = records.partition(|record| Place::of_record(record).0.is_failing());
        self.complete(stored);
        let failed = failed
            .iter()
            .map(|record| json!({"itemIdentifier": record["dynamodb"]["SequenceNumber"]}));
        let response = json!({"batchItemFailures": failed.collect::<Vec<_>>()});
        InvocationOutcome::Response(response.to_string().into_bytes())
    }
}

impl Destination for &'static World {
    async fn put(&self, document: Document) -> io::Result<()> {
        let payload: Value = serde_json::from_str(document.body["payload"].as_str().unwrap()).unwrap();
        let records = payload["Records"].as_array().unwrap();
        let places = records.iter().map(|record| Place::of_record(record).0);
        self.seen.lock().unwrap().documents.extend(places);
        self.complete(records);
        Ok(())
    }
}

struct ManyShards;

impl Environment for ManyShards {
    type Source = &'static World;
    type Invoker = &'static World;
    type Destination = &'static World;
    type Positions = InMemory;
    type Clock = Box<dyn Fn() -> Duration + Send + Sync>;
}

#[tokio::test(start_paused = true)]
async fn many_shards_are_listed_rarely_and_read_in_order() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../template.yaml"));
    let settings = Template::read(path, &[]).unwrap().mapping;
    let began = Instant::now();
    let world: &'static World = Box::leak(Box::new(World {
        began,
        max_age: settings.maximum_record_age.unwrap(),
        seen: Mutex::default(),
    }));
    let mapping = Mapping::<ManyShards> {
        settings,
        identity: Identity {
            uuid: "mapping".to_owned(),
            function_arn: "arn:aws:lambda:us-east-1:000000000000:function:stream-fn".to_owned(),
            stream_arn: "arn:aws:dynamodb:us-east-1:000000000000:table/Table/stream/1".to_owned(),
        },
        source: world,
        invoker: world,
        destination: world,
        positions: InMemory::default(),
        clock: Box::new(move || START + began.elapsed()),
        counters: Counters::default(),
    };
    let _ = timeout(RUN, mapping.run()).await;
    let mut seen = world.seen.lock().unwrap();
    let mut versions = HashMap::<_, u64>::new();
    for (place, item, delay) in &seen.completed {
        assert_ne!(*item, EXCLUDED, "the filter excludes it");
        let version = versions.entry((place.0 / NODES, item)).or_default();
        *version += 1;
        assert_eq!(*version, place.version(), "{place:?} {item}");
        assert!(
            place.is_behind_failing() || *delay <= MAX_DELAY,
            "{place:?} waited {delay:?}"
        );
    }
    // All records are stored or in failure documents.
    assert_eq!(versions.len() as u64, 4 * LINEAGES);
    assert!(versions.values().all(|version| *version == 3), "{versions:?}");
    let failing = (0..LINEAGES * NODES).map(Place).filter(|place| place.is_failing());
    seen.documents.sort();
    assert_eq!(seen.documents, failing.flat_map(|place| [place; 2]).collect::<Vec<_>>());
    // About one list every 10 s, and not one for each shard that ends.
    assert!(seen.lists < 100, "{}", seen.lists);
}
