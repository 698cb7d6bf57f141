//! One run of a schedule: the functions, the mapping and the database, in virtual time.

use std::{
    collections::{BTreeMap, HashSet},
    io,
    path::Path,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{self, AtomicU64},
    },
    time::Duration,
};

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use dynoxide::{Database, storage_backend};
use futures::future::join_all;
use local::{
    dynamodb::stream::TableStream,
    mapping::{
        Counters, Identity, Mapping,
        destination::Destination,
        failure::Document,
        filter::Filters,
        position::{Position, Positions},
        record::Record,
        settings,
        source::{Page, Shard, Source, SourceError},
    },
    template::Template,
};
use serde_json::{Value, json};
use shared::{
    config::Config,
    domain::{
        entity::EntityId, keys::VersionDigits, ledger::Retention, recent::Window, sequence::SequenceNumber,
        update::Ordering,
    },
    dynamodb::{
        Store, client,
        history::HistoryQuery,
        write::{Idempotency, WriteMode, WriteOptions},
    },
};
use stream_fn::Recorder;
use thiserror::Error;
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};
use writer_fn::Writer;

use crate::{
    functions::{Heard, Stream, StreamFunction, write},
    mutation::Mutation,
    schedule::{Schedule, Settings, Step, StepKind},
    wire::{Wire, lock},
};

const TABLE: &str = "Table";
/// What the partition keys of malformed heads begin with.
pub(crate) const MALFORMED: &str = "malformed";
/// 2026-01-01T00:00:00Z
const START: Duration = Duration::from_secs(1_767_225_600);
/// How often upstream delivers again.
const TRIES: u32 = 6;
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
pub(crate) struct Broken(String);

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
struct Clock(Instant);

impl Clock {
    fn now(self) -> Duration {
        START + self.0.elapsed()
    }
}

impl storage_backend::Clock for Clock {
    fn now_unix_secs(&self) -> u64 {
        self.now().as_secs()
    }

    fn now_unix_secs_f64(&self) -> f64 {
        self.now().as_secs_f64()
    }
}

struct World<'a> {
    schedule: &'a Schedule,
    digits: VersionDigits,
    wire: Wire,
    clock: Clock,
    stream_arn: String,
    writer: Writer,
    reader: Store,
    stream: Arc<Stream>,
    source: Watched,
    bucket: Bucket,
    positions: Kept,
    stopped_for: Mutex<Duration>,
    stop: Notify,
    told: Mutex<Vec<(usize, Told)>>,
    delivered: Mutex<HashSet<usize>>,
    by_hand: Mutex<HashSet<(String, String)>>,
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
        let recorder = Recorder::new(dynamodb.clone(), &config);
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
            let mapping = Mapping {
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
                clock: || self.clock.now(),
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

    async fn source(&self, source: u8) {
        let steps = self.schedule.steps.iter().filter(|step| step.source == source);
        for step in steps {
            sleep_until(self.clock.0 + Duration::from_millis(step.at)).await;
            self.step(step).await;
        }
    }

    async fn step(&self, step: &Step) {
        self.count_duplicates(&step.kind);
        match &step.kind {
            StepKind::Direct { update } => self.deliver(*update, self.schedule.updates[*update].json()).await,
            StepKind::EventBridge { update } => {
                let detail = self.schedule.updates[*update].json();
                let event = json!({"id": "event", "detail-type": "t", "source": "s", "detail": detail});
                self.deliver(*update, event).await;
            }
            StepKind::Sqs { updates } => self.deliver_batch(updates.clone()).await,
            StepKind::DeleteHead { entity, create } => {
                self.wire.happened("head-deleted");
                let mut key = json!({"PK": {"S": entity}, "SK": {"S": self.digits.latest_key()}});
                let _ = self.wire.by_hand("DeleteItem", json!({"TableName": TABLE, "Key": key}));
                if *create {
                    self.wire.happened("head-created-by-hand");
                    key["By"] = json!({"S": "hand"});
                    let _ = self.wire.by_hand("PutItem", json!({"TableName": TABLE, "Item": key}));
                }
            }
            StepKind::WriteVersion { entity, ahead } => self.write_version(entity, *ahead),
            StepKind::MalformedHead { number } => {
                self.wire.happened("malformed-record");
                let item = json!({
                    "PK": {"S": format!("{MALFORMED}{number}")}, "SK": {"S": self.digits.latest_key()}, "Latest": {"N": "1"},
                });
                let _ = self.wire.by_hand("PutItem", json!({"TableName": TABLE, "Item": item}));
            }
            StepKind::StopMapping { millis } => {
                self.wire.happened("mapping-stopped");
                *lock(&self.stopped_for) = Duration::from_millis(*millis);
                self.stop.notify_one();
            }
            StepKind::DestinationDown { millis } => {
                lock(&self.bucket.0).down_until = Some(Instant::now() + Duration::from_millis(*millis));
                self.wire.happened("destination-down");
            }
        }
    }

    fn count_duplicates(&self, kind: &StepKind) {
        let updates: &[usize] = match kind {
            StepKind::Direct { update } | StepKind::EventBridge { update } => &[*update],
            StepKind::Sqs { updates } => updates,
            _ => &[],
        };
        let mut delivered = lock(&self.delivered);
        for update in updates {
            if !delivered.insert(*update) {
                self.wire.happened("duplicate-delivery");
            }
        }
    }

    async fn deliver(&self, update: usize, event: Value) {
        for attempt in 0..TRIES {
            self.back_off(attempt).await;
            match write(&self.writer, &event).await {
                Heard::Answer(answer) => {
                    let outcome = answer["Outcome"].as_str().unwrap_or_default().to_owned();
                    let version = answer["Version"].as_u64().unwrap_or_default();
                    return self.tell(update, Told::Outcome(outcome, version));
                }
                Heard::Error(kind) if ["VersionConflict", "InvalidEvent"].contains(&kind.as_str()) => {
                    return self.tell(update, Told::Refused(kind));
                }
                Heard::Error(_) | Heard::Nothing => {}
            }
        }
    }

    async fn deliver_batch(&self, mut updates: Vec<usize>) {
        for attempt in 0..TRIES {
            self.back_off(attempt).await;
            let message = |(index, update): (usize, &usize)| {
                let body = self.schedule.updates[*update].json().to_string();
                json!({"messageId": index.to_string(), "eventSource": "aws:sqs", "body": body})
            };
            let messages: Vec<_> = updates.iter().enumerate().map(message).collect();
            let Heard::Answer(answer) = write(&self.writer, &json!({"Records": messages})).await else {
                continue;
            };
            let failures = answer["batchItemFailures"].as_array().cloned().unwrap_or_default();
            let failed: HashSet<_> = failures
                .iter()
                .map(|failure| failure["itemIdentifier"].clone())
                .collect();
            let mut left = Vec::new();
            for (index, update) in updates.into_iter().enumerate() {
                if failed.contains(&json!(index.to_string())) {
                    left.push(update);
                } else {
                    self.tell(update, Told::Accepted);
                }
            }
            updates = left;
            if updates.is_empty() {
                return;
            }
        }
    }

    async fn back_off(&self, attempt: u32) {
        if attempt > 0 {
            let millis = self.wire.draw(|rng| rng.u64(50..600));
            sleep(Duration::from_millis(millis)).await;
        }
    }

    fn tell(&self, update: usize, told: Told) {
        lock(&self.told).push((update, told));
    }

    fn write_version(&self, entity: &str, ahead: u64) {
        let key = json!({"PK": {"S": entity}, "SK": {"S": self.digits.latest_key()}});
        let head = self.wire.by_hand(
            "GetItem",
            json!({"TableName": TABLE, "Key": key, "ConsistentRead": true}),
        );
        let latest = head
            .ok()
            .and_then(|head| head.pointer("/Item/Latest/N")?.as_str()?.parse().ok());
        let version = shared::domain::version::Version::new(latest.unwrap_or(0u64) + ahead);
        let Some(sort_key) = version.map(|version| self.digits.version_key(version)) else {
            return;
        };
        let put = json!({
            "TableName": TABLE, "ConditionExpression": "attribute_not_exists(PK)",
            "Item": {"PK": {"S": entity}, "SK": {"S": sort_key}, "By": {"S": "hand"}},
        });
        if self.wire.by_hand("PutItem", put).is_ok() {
            self.wire.happened("version-by-hand");
            lock(&self.by_hand).insert((entity.to_owned(), sort_key));
        }
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

fn config(settings: &Settings) -> Result<Config, Broken> {
    let digits = VersionDigits::new(settings.digits).ok_or_else(|| Broken("digits".to_owned()))?;
    let mode: WriteMode = (settings.write_mode.parse()).map_err(|_| Broken("write mode".to_owned()))?;
    Ok(Config {
        table: TABLE.to_owned(),
        digits,
        ordering: if settings.by_time {
            Ordering::Time
        } else {
            Ordering::Arrival
        },
        write: WriteOptions {
            mode,
            idempotency: match settings.window {
                Some(window) => Idempotency::Recent(Window::new(window).ok_or_else(|| Broken("window".to_owned()))?),
                None => Idempotency::Ledger(Retention::default()),
            },
            skip_unchanged: settings.skip_unchanged,
        },
        log_keys: false,
    })
}

/// The filter of the template, by the width of version keys.
fn filters(digits: u8) -> Filters {
    static FILTERS: OnceLock<BTreeMap<u8, Filters>> = OnceLock::new();
    let all = FILTERS.get_or_init(|| {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../template.yaml"));
        let read = |digits: u8| {
            let parameters = [("VersionDigits".to_owned(), digits.to_string())];
            Template::read(path, &parameters).map(|template| template.mapping.filters)
        };
        [1, 2]
            .into_iter()
            .filter_map(|digits| Some((digits, read(digits).ok()?)))
            .collect()
    });
    all.get(&digits).cloned().unwrap_or_default()
}

/// A name that no other client has: the SDK shares what it may retry among all clients of a partition, and runs must not know
/// of each other.
fn partition() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("run-{}", NEXT.fetch_add(1, atomic::Ordering::Relaxed))
}

/// The client of the functions, with the waiting and the retries that they have on AWS.
fn dynamodb_client(wire: &Wire) -> aws_sdk_dynamodb::Client {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::for_tests())
        .timeout_config(client::timeouts())
        .retry_config(client::retries())
        .retry_partition(aws_sdk_dynamodb::config::retry::RetryPartition::new(partition()))
        .http_client(wire.clone())
        .build();
    aws_sdk_dynamodb::Client::from_conf(config)
}

fn streams_client(wire: &Wire) -> aws_sdk_dynamodbstreams::Client {
    let config = aws_sdk_dynamodbstreams::Config::builder()
        .behavior_version(aws_sdk_dynamodbstreams::config::BehaviorVersion::v2026_01_12())
        .region(aws_sdk_dynamodbstreams::config::Region::new("us-east-1"))
        .credentials_provider(aws_sdk_dynamodbstreams::config::Credentials::for_tests())
        .timeout_config(client::timeouts())
        .retry_config(client::retries())
        .retry_partition(aws_sdk_dynamodbstreams::config::retry::RetryPartition::new(partition()))
        .http_client(wire.clone())
        .build();
    aws_sdk_dynamodbstreams::Client::from_conf(config)
}

/// The table's stream, with records that cannot be read.
#[derive(Clone)]
struct Watched {
    stream: TableStream,
    wire: Wire,
    latest_key: String,
}

impl Source for Watched {
    async fn shards(&self) -> Result<Vec<Shard>, SourceError> {
        self.stream.shards().await
    }

    async fn iterator(&self, shard: &str, position: &Position) -> Result<String, SourceError> {
        self.stream.iterator(shard, position).await
    }

    async fn read(&self, iterator: &str) -> Result<Page, SourceError> {
        let mut page = self.stream.read(iterator).await?;
        for record in &mut page.records {
            let mut json = record.json().clone();
            if let Some(mutation) = self.wire.mutation() {
                mutation.record(&self.latest_key, &mut json);
            }
            let key = json.pointer("/dynamodb/Keys/PK/S").and_then(Value::as_str);
            if key.is_some_and(|key| key.starts_with(MALFORMED)) {
                json["dynamodb"]["NewImage"]["Unheard"] = json!({"Q": "of"});
            }
            *record = Record::new(record.sequence_number().clone(), record.created(), json);
        }
        Ok(page)
    }
}

/// The failure destination.
#[derive(Clone)]
struct Bucket(Arc<Mutex<Documents>>);

#[derive(Default)]
struct Documents {
    kept: Vec<Value>,
    down_until: Option<Instant>,
}

impl Destination for Bucket {
    async fn keep(&self, document: Document) -> io::Result<()> {
        let mut documents = lock(&self.0);
        if documents.down_until.is_some_and(|until| Instant::now() < until) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        documents.kept.push(document.body);
        Ok(())
    }
}

/// The positions of the mapping, which outlive it.
#[derive(Clone)]
struct Kept(Arc<Mutex<Option<SequenceNumber>>>);

impl Positions for Kept {
    fn load(&self, _: &str) -> Option<Position> {
        lock(&self.0).clone().map(Position::After)
    }

    fn save(&self, _: &str, position: &SequenceNumber) -> io::Result<()> {
        *lock(&self.0) = Some(position.clone());
        Ok(())
    }
}
