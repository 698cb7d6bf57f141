//! Runs one schedule in virtual time: both functions, the event source mapping and the embedded database, in one thread.
//!
//! After the steps of all sources, the faults stop, and the run continues until the mapping reaches the end of the stream.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use dynoxide::Database;
use futures::future::join_all;
use local::{
    dynamodb::stream::TableStream,
    mapping::{Counters, Environment, Identity, Mapping},
};
use serde_json::{Value, json};
use shared::{
    domain::{
        entity::EntityId, keys::LATEST_KEY, quarantine::records_of, recorded_at::RecordedAt, sequence::SequenceNumber,
    },
    dynamodb::{
        Store,
        read::{history::HistoryQuery, versions::ReadError},
    },
};
use stream_fn::HistoryWriter;
use tokio::time::{Instant, sleep};
use writer_fn::Writer;

use crate::{
    caller::lock,
    clock::Clock,
    connector::Connector,
    error::SimulationError,
    evidence::{AsOf, Evidence},
    functions::{StreamFunction, StreamInvoker},
    mapping::{Bucket, FaultySource, KeptPositions, settings},
    mutation::Mutation,
    schedule::{MALFORMED, Schedule, TABLE},
    setup::{config, dynamodb_client, streams_client},
    upstream::{MAX_ATTEMPTS, MappingStop, Upstream},
};

const SETTLE_TIMEOUT: Duration = Duration::from_secs(1800);

pub(crate) fn run(schedule: &Schedule, mutation: Option<Mutation>) -> Result<Evidence, SimulationError> {
    // The random number generator of the SDK and the library.
    fastrand::seed(schedule.seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(SimulationError::Runtime)?;
    runtime.block_on(async { World::new(schedule, mutation)?.run().await })
}

struct Simulated;

impl Environment for Simulated {
    type Source = FaultySource;
    type Invoker = StreamInvoker;
    type Destination = Bucket;
    type Positions = KeptPositions;
    type Clock = Clock;
}

struct World<'a> {
    upstream: Upstream<'a>,
    clock: Clock,
    stream_arn: String,
    reader: Store,
    function: Arc<StreamFunction>,
    source: FaultySource,
    positions: KeptPositions,
}

impl<'a> World<'a> {
    fn new(schedule: &'a Schedule, mutation: Option<Mutation>) -> Result<Self, SimulationError> {
        let clock = Clock(Instant::now());
        let database = Database::memory_with_clock(Arc::new(clock)).map_err(SimulationError::OpenDatabase)?;
        let connector = Connector::new(database, schedule.seed, schedule.faults.clone(), mutation);
        let created = connector.send(
            "CreateTable",
            json!({
                "TableName": TABLE, "BillingMode": "PAY_PER_REQUEST",
                "AttributeDefinitions": [{"AttributeName": "PK", "AttributeType": "S"}, {"AttributeName": "SK", "AttributeType": "S"}],
                "KeySchema": [{"AttributeName": "PK", "KeyType": "HASH"}, {"AttributeName": "SK", "KeyType": "RANGE"}],
                "StreamSpecification": {"StreamEnabled": true, "StreamViewType": "NEW_IMAGE"},
            }),
        )?;
        let stream_arn = created["TableDescription"]["LatestStreamArn"].as_str();
        let stream_arn = stream_arn.ok_or(SimulationError::NoStream)?.to_owned();
        let config = config(&schedule.settings)?;
        let client = dynamodb_client(&connector);
        Ok(Self {
            upstream: Upstream {
                schedule,
                digits: config.digits,
                connector: connector.clone(),
                writers: (schedule.settings.clock_offsets.iter())
                    .map(|offset| Writer::new(client.clone(), &config).with_clock(clock.shifted(*offset)))
                    .collect(),
                clock,
                bucket: Bucket::default(),
                mapping_stop: MappingStop::default(),
                responses: Mutex::default(),
                first_sent: Mutex::default(),
                messages: Mutex::default(),
                deliveries: Mutex::default(),
                manual_versions: Mutex::default(),
            },
            clock,
            function: StreamFunction::new(
                HistoryWriter::new(client.clone(), &config).with_clock(clock.shifted(0)),
                connector.clone(),
            ),
            source: FaultySource {
                stream: TableStream::new(streams_client(&connector), stream_arn.clone()),
                connector,
                listed: Arc::default(),
            },
            stream_arn,
            reader: Store::new(client, TABLE, config.digits),
            positions: KeptPositions(Arc::default()),
        })
    }

    async fn run(self) -> Result<Evidence, SimulationError> {
        let upstream = async {
            let sources = (0..4).map(|source| self.upstream.run_source(source));
            join_all(sources).await;
            self.source.connector.stop_faults();
            self.source.connector.finish_late().await;
            self.settle().await
        };
        let settled = tokio::select! {
            biased;
            settled = upstream => settled?,
            () = self.run_mapping() => false,
        };
        let (read, as_of) = (self.read().await?, self.read_as_of().await?);
        let documents = lock(&self.upstream.bucket.0);
        for document in &documents.kept {
            if document["requestContext"]["condition"] == "RecordAgeExceeded" {
                self.source.connector.count("record-age-exceeded");
            }
        }
        let items = self.items()?;
        let quarantined = records_of(
            items
                .iter()
                .filter_map(|item| serde_json::from_value(item.clone()).ok()),
        );
        let records = documents.kept.iter().map(|document| &document["payload"]["Records"]);
        Ok(Evidence {
            stream: self.whole_stream()?,
            quarantined: (quarantined.iter())
                .map(|quarantined| serde_json::from_str(&quarantined.record))
                .collect::<Result<_, _>>()?,
            items,
            discarded: records.filter_map(Value::as_array).flatten().cloned().collect(),
            responses: lock(&self.upstream.responses).clone(),
            deliveries: lock(&self.upstream.deliveries).clone(),
            manual_versions: lock(&self.upstream.manual_versions).clone(),
            faulty_records: lock(&self.function.faulty_records).clone(),
            read,
            as_of,
            settled,
            faults: self.source.connector.faults(),
        })
    }

    /// Runs the mapping. After a stop it starts again from its last position.
    async fn run_mapping(&self) {
        loop {
            let mapping = Mapping::<Simulated> {
                settings: settings(&self.upstream.schedule.settings, self.source.connector.mutation()),
                identity: Identity {
                    uuid: "00000000-0000-0000-0000-000000000000".to_owned(),
                    function_arn: "arn:aws:lambda:us-east-1:000000000000:function:stream-fn".to_owned(),
                    stream_arn: self.stream_arn.clone(),
                },
                source: self.source.clone(),
                invoker: StreamInvoker(Arc::clone(&self.function)),
                destination: self.upstream.bucket.clone(),
                positions: self.positions.clone(),
                clock: self.clock,
                counters: Counters::default(),
            };
            tokio::select! {
                biased;
                () = self.upstream.mapping_stop.requested.notified() => {}
                () = mapping.run() => {}
            }
            drop(mapping);
            let duration = *lock(&self.upstream.mapping_stop.duration);
            sleep(duration).await;
        }
    }

    /// Waits until the mapping reached the end of the stream. `false` if it did not in time.
    async fn settle(&self) -> Result<bool, SimulationError> {
        let until = Instant::now() + SETTLE_TIMEOUT;
        let mut writes = self.source.connector.writes();
        writes.mark_changed();
        let mut last = None;
        while Instant::now() < until {
            if writes.has_changed().unwrap_or_default() {
                writes.mark_unchanged();
                last = self.whole_stream()?.last().and_then(number);
            }
            let position = lock(&self.positions.0).clone();
            if last.is_none() || last == position {
                return Ok(true);
            }
            sleep(Duration::from_millis(250)).await;
        }
        Ok(false)
    }

    /// Reads the versions of each entity. Faults of these reads leave keys unprocessed.
    async fn read(&self) -> Result<BTreeMap<String, Result<Vec<u64>, ReadError>>, SimulationError> {
        let mut read = BTreeMap::new();
        // A latest item that an operator wrote has no version.
        let is_latest = |item: &&Value| item["SK"]["S"] == LATEST_KEY && item.get("Latest").is_some();
        for item in self.items()?.iter().filter(is_latest) {
            let name = item["PK"]["S"].as_str().unwrap_or_default();
            let Ok(entity) = EntityId::new(name) else { continue };
            if name.starts_with(MALFORMED) {
                continue;
            }
            let mut seen = self.history(&entity).await;
            for attempt in 1..MAX_ATTEMPTS {
                if seen.is_ok() {
                    break;
                }
                self.source.connector.back_off(attempt).await;
                seen = self.history(&entity).await;
            }
            read.insert(name.to_owned(), seen);
        }
        Ok(read)
    }

    /// Reads the entities as of the times of some of their versions.
    async fn read_as_of(&self) -> Result<Vec<AsOf>, SimulationError> {
        const SAMPLES: usize = 12;
        let mut items = self.items()?;
        items.retain(|item| {
            let key = item["SK"]["S"].as_str().unwrap_or_default();
            self.upstream.digits.version_of(key).is_some() && item.get("RecordedAt").is_some()
        });
        self.source.connector.draw(|rng| rng.shuffle(&mut items));
        let mut read = Vec::new();
        for item in items.iter().take(SAMPLES) {
            let text = |name: &str| item[name]["S"].as_str().unwrap_or_default();
            let (Ok(entity), Ok(time)) = (EntityId::new(text("PK")), RecordedAt::parse(text("RecordedAt"))) else {
                continue;
            };
            let view = self.reader.as_of(&entity, time, true).await;
            read.push(AsOf {
                entity: text("PK").to_owned(),
                time: text("RecordedAt").to_owned(),
                version: view.map(|view| view.map(|view| view.version.get())),
            });
        }
        Ok(read)
    }

    async fn history(&self, entity: &EntityId) -> Result<Vec<u64>, ReadError> {
        let history = self.reader.history(entity, HistoryQuery::default()).await?;
        let views = match history {
            Some(history) => history.collect().await?,
            None => Vec::new(),
        };
        Ok(views.iter().map(|view| view.version.get()).collect())
    }

    fn items(&self) -> Result<Vec<Value>, SimulationError> {
        let scanned = self.source.connector.send("Scan", json!({"TableName": TABLE}))?;
        Ok(scanned["Items"].as_array().cloned().unwrap_or_default())
    }

    fn whole_stream(&self) -> Result<Vec<Value>, SimulationError> {
        let connector = &self.source.connector;
        let described = connector.send("DescribeStream", json!({"StreamArn": self.stream_arn}))?;
        let shards = described["StreamDescription"]["Shards"].as_array();
        let mut records = Vec::new();
        for shard in shards.into_iter().flatten() {
            let request = json!({
                "StreamArn": self.stream_arn, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON",
            });
            let mut iterator = connector.send("GetShardIterator", request)?["ShardIterator"].clone();
            loop {
                let page = connector.send("GetRecords", json!({"ShardIterator": iterator}))?;
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
