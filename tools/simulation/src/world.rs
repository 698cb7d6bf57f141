//! One run of a schedule: the functions, the mapping and the database, in virtual time.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use dynoxide::{Database, storage_backend};
use futures::future::join_all;
use local::{
    dynamodb::stream::TableStream,
    mapping::{self, Counters, Environment, Identity, Mapping, filter::Filters, settings},
};
use serde_json::{Value, json};
use shared::{
    domain::{entity::EntityId, keys::VersionDigits, sequence::SequenceNumber},
    dynamodb::{Store, read::history::HistoryQuery},
};
use stream_fn::HistoryWriter;
use thiserror::Error;
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};
use writer_fn::Writer;

use crate::{
    functions::{Stream, StreamFunction},
    mutation::Mutation,
    schedule::Schedule,
    setup::{config, dynamodb_client, filters, streams_client},
    surroundings::{Bucket, Kept, Watched},
    wire::{Wire, lock},
};

pub(crate) const TABLE: &str = "Table";
/// What the partition keys of malformed heads begin with.
pub(crate) const MALFORMED: &str = "malformed";
/// 2026-01-01T00:00:00Z
const START: Duration = Duration::from_secs(1_767_225_600);
/// How often upstream delivers again.
pub(crate) const TRIES: u32 = 6;
/// How long the system may take to come to rest.
const PATIENCE: Duration = Duration::from_secs(1800);

/// What came of a run.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// Everything that was written, in its order.
    pub(crate) stream: Vec<Value>,
    pub(crate) items: Vec<Value>,
    /// The records in failure documents.
    pub(crate) given_up: Vec<Value>,
    /// What upstream was told of its updates.
    pub(crate) told: Vec<(usize, Told)>,
    /// The versions that somebody wrote by hand: partition key and sort key.
    pub(crate) by_hand: HashSet<(String, String)>,
    pub(crate) hindered: HashSet<String>,
    /// The versions that a reader sees of each entity, or why it sees none.
    pub(crate) read: BTreeMap<String, Result<Vec<u64>, String>>,
    pub(crate) settled: bool,
    pub(crate) fired: BTreeMap<String, u64>,
}

/// What upstream was told of one update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    /// An outcome and its version.
    Outcome(String, u64),
    /// A message that is not among the failed ones.
    Accepted,
    /// An error that no delivery will mend.
    Refused(String),
}

/// Why a schedule could not be run at all.
#[derive(Debug, Error)]
#[error("the simulation is at fault: {0}")]
pub(crate) struct Broken(pub(crate) String);

/// Runs a schedule.
pub(crate) fn run(schedule: &Schedule, mutation: Option<Mutation>) -> Result<Evidence, Broken> {
    // Where the SDK and the library draw at random, they draw from this.
    fastrand::seed(schedule.seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(|error| Broken(error.to_string()))?;
    runtime.block_on(async { World::new(schedule, mutation)?.run().await })
}

/// The time of the database, of the mapping and of nobody else.
#[derive(Clone, Copy)]
pub(crate) struct Clock(pub(crate) Instant);

impl Clock {
    fn now(self) -> Duration {
        START + self.0.elapsed()
    }
}

impl mapping::Clock for Clock {
    fn now(&self) -> Duration {
        Self::now(*self)
    }
}

/// The simulated environment of the mapping.
struct Simulated;

impl Environment for Simulated {
    type Source = Watched;
    type Invoker = StreamFunction;
    type Destination = Bucket;
    type Positions = Kept;
    type Clock = Clock;
}

impl storage_backend::Clock for Clock {
    fn now_unix_secs(&self) -> u64 {
        self.now().as_secs()
    }

    fn now_unix_secs_f64(&self) -> f64 {
        self.now().as_secs_f64()
    }
}

pub(crate) struct World<'a> {
    pub(crate) schedule: &'a Schedule,
    pub(crate) digits: VersionDigits,
    pub(crate) wire: Wire,
    pub(crate) clock: Clock,
    pub(crate) stream_arn: String,
    pub(crate) writer: Writer,
    pub(crate) reader: Store,
    pub(crate) stream: Arc<Stream>,
    pub(crate) source: Watched,
    pub(crate) bucket: Bucket,
    pub(crate) positions: Kept,
    pub(crate) stopped_for: Mutex<Duration>,
    pub(crate) stop: Notify,
    pub(crate) told: Mutex<Vec<(usize, Told)>>,
    pub(crate) delivered: Mutex<HashSet<usize>>,
    pub(crate) by_hand: Mutex<HashSet<(String, String)>>,
}

impl<'a> World<'a> {
    fn new(schedule: &'a Schedule, mutation: Option<Mutation>) -> Result<Self, Broken> {
        let clock = Clock(Instant::now());
        let database = Database::memory_with_clock(Arc::new(clock)).map_err(|error| Broken(error.to_string()))?;
        let wire = Wire::new(database, schedule.seed, schedule.faults.clone(), mutation);
        let created = wire.by_hand(
            "CreateTable",
            json!({
                "TableName": TABLE, "BillingMode": "PAY_PER_REQUEST",
                "AttributeDefinitions": [{"AttributeName": "PK", "AttributeType": "S"}, {"AttributeName": "SK", "AttributeType": "S"}],
                "KeySchema": [{"AttributeName": "PK", "KeyType": "HASH"}, {"AttributeName": "SK", "KeyType": "RANGE"}],
                "StreamSpecification": {"StreamEnabled": true, "StreamViewType": "NEW_IMAGE"},
            }),
        );
        let stream_arn = created.map_err(Broken)?["TableDescription"]["LatestStreamArn"]
            .as_str()
            .ok_or_else(|| Broken("no stream".to_owned()))?
            .to_owned();
        let settings = &schedule.settings;
        let config = config(settings)?;
        let dynamodb = dynamodb_client(&wire);
        let recorder = HistoryWriter::new(dynamodb.clone(), &config);
        let source = Watched {
            stream: TableStream::new(streams_client(&wire), stream_arn.clone()),
            wire: wire.clone(),
            latest_key: config.digits.latest_key(),
        };
        Ok(Self {
            schedule,
            digits: config.digits,
            clock,
            stream_arn,
            writer: Writer::new(dynamodb.clone(), &config),
            reader: Store::new(dynamodb, TABLE, config.digits),
            stream: Stream::new(recorder, wire.clone()),
            source,
            bucket: Bucket(Arc::new(Mutex::default())),
            positions: Kept(Arc::default()),
            stopped_for: Mutex::default(),
            stop: Notify::new(),
            told: Mutex::default(),
            delivered: Mutex::default(),
            by_hand: Mutex::default(),
            wire,
        })
    }

    async fn run(self) -> Result<Evidence, Broken> {
        let upstream = async {
            let sources = (0..4).map(|source| self.source(source));
            join_all(sources).await;
            self.wire.calm();
            let late = std::mem::take(&mut *lock(&self.stream.late));
            join_all(late).await;
            self.settle().await
        };
        let settled = tokio::select! {
            biased;
            settled = upstream => settled?,
            () = self.map() => false,
        };
        let read = self.read().await?;
        let documents = lock(&self.bucket.0);
        for document in &documents.kept {
            if document["requestContext"]["condition"] == "RecordAgeExceeded" {
                self.wire.happened("record-age-exceeded");
            }
        }
        let records = documents.kept.iter().map(|document| &document["payload"]["Records"]);
        Ok(Evidence {
            stream: self.whole_stream()?,
            items: self.items()?,
            given_up: records.filter_map(Value::as_array).flatten().cloned().collect(),
            told: lock(&self.told).clone(),
            by_hand: lock(&self.by_hand).clone(),
            hindered: lock(&self.stream.hindered).clone(),
            read,
            settled,
            fired: self.wire.fired(),
        })
    }

    /// The mapping, stopped and started again from its last position.
    async fn map(&self) {
        loop {
            let mapping = Mapping::<Simulated> {
                settings: self.mapping_settings(),
                identity: Identity {
                    uuid: "00000000-0000-0000-0000-000000000000".to_owned(),
                    function_arn: "arn:aws:lambda:us-east-1:000000000000:function:stream-fn".to_owned(),
                    stream_arn: self.stream_arn.clone(),
                },
                source: self.source.clone(),
                invoker: StreamFunction(Arc::clone(&self.stream)),
                destination: self.bucket.clone(),
                positions: self.positions.clone(),
                clock: self.clock,
                counters: Counters::default(),
            };
            tokio::select! {
                biased;
                () = self.stop.notified() => {}
                () = mapping.run() => {}
            }
            drop(mapping);
            let stopped_for = *lock(&self.stopped_for);
            sleep(stopped_for).await;
        }
    }

    fn mapping_settings(&self) -> settings::Settings {
        let chosen = &self.schedule.settings;
        settings::Settings {
            batch_size: chosen.batch_size,
            batching_window: Duration::from_secs(chosen.batching_window),
            parallelization_factor: chosen.parallelization_factor,
            bisect_on_function_error: chosen.bisect,
            report_batch_item_failures: true,
            maximum_retry_attempts: Some(chosen.maximum_retry_attempts),
            maximum_record_age: chosen.maximum_record_age.map(Duration::from_secs),
            filters: match self.wire.mutation() {
                Some(Mutation::Filter) => Filters::default(),
                _ => filters(chosen.digits),
            },
            starting_position: settings::StartingPosition::TrimHorizon,
        }
    }

    /// Waits until the mapping has come to the end of the stream.
    async fn settle(&self) -> Result<bool, Broken> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let last = self.whole_stream()?.last().and_then(number);
            let position = lock(&self.positions.0).clone();
            if last.is_none() || last == position {
                return Ok(true);
            }
            sleep(Duration::from_millis(250)).await;
        }
        Ok(false)
    }

    /// What a reader sees of each history, while keys stay unprocessed.
    async fn read(&self) -> Result<BTreeMap<String, Result<Vec<u64>, String>>, Broken> {
        let mut read = BTreeMap::new();
        // A head that somebody wrote by hand has no version.
        let head = |item: &&Value| item["SK"]["S"] == json!(self.digits.latest_key()) && item.get("Latest").is_some();
        for item in self.items()?.iter().filter(head) {
            let name = item["PK"]["S"].as_str().unwrap_or_default();
            let Ok(entity) = EntityId::new(name) else { continue };
            if name.starts_with(MALFORMED) {
                continue;
            }
            let mut seen = self.history(&entity).await;
            for attempt in 1..TRIES {
                if seen.is_ok() {
                    break;
                }
                self.back_off(attempt).await;
                seen = self.history(&entity).await;
            }
            read.insert(name.to_owned(), seen);
        }
        Ok(read)
    }

    async fn history(&self, entity: &EntityId) -> Result<Vec<u64>, String> {
        let history = self.reader.history(entity, HistoryQuery::default()).await;
        let history = history.map_err(|error| error.to_string())?;
        let views = history.ok_or("there is none")?.collect().await;
        let views = views.map_err(|error| error.to_string())?;
        Ok(views.iter().map(|view| view.version.get()).collect())
    }

    fn items(&self) -> Result<Vec<Value>, Broken> {
        let scanned = self.wire.by_hand("Scan", json!({"TableName": TABLE})).map_err(Broken)?;
        Ok(scanned["Items"].as_array().cloned().unwrap_or_default())
    }

    fn whole_stream(&self) -> Result<Vec<Value>, Broken> {
        let ask = |operation: &str, body: Value| self.wire.by_hand(operation, body).map_err(Broken);
        let described = ask("DescribeStream", json!({"StreamArn": self.stream_arn}))?;
        let mut records = Vec::new();
        for shard in described["StreamDescription"]["Shards"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let request = json!({
                "StreamArn": self.stream_arn, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON",
            });
            let mut iterator = ask("GetShardIterator", request)?["ShardIterator"].clone();
            loop {
                let page = ask("GetRecords", json!({"ShardIterator": iterator}))?;
                let read = page["Records"].as_array().cloned().unwrap_or_default();
                if read.is_empty() {
                    break;
                }
                records.extend(read);
                iterator = page["NextShardIterator"].clone();
            }
        }
        Ok(records)
    }
}

fn number(record: &Value) -> Option<SequenceNumber> {
    SequenceNumber::new(record.pointer("/dynamodb/SequenceNumber")?.as_str()?)
}
