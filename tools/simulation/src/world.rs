//! Runs one schedule in virtual time: both functions, the event source mapping and the embedded database, in one thread.
//!
//! After the steps of all sources, the faults stop, and the run continues until the mapping reaches the end of the stream.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use aws_sdk_dynamodb::Client;
use dynoxide::Database;
use fastrand::Rng;
use local::mapping::{Counters, Environment, Identity, Mapping};
use serde_json::{Value, json};
use shared::{
    config::Config,
    domain::{
        Item,
        entity::EntityId,
        keys::{LATEST_KEY, VersionDigits},
        quarantine::records_of,
        recorded_at::RecordedAt,
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
    clock::{Clock, ProcessClock},
    connector::Connector,
    deliveries::MAX_ATTEMPTS,
    deployment::Misdeployed,
    error::SimulationError,
    evidence::{AsOf, Evidence, Recovery},
    functions::{StreamFunction, StreamInvoker},
    mapping::{self, Bucket, FaultySource, KeptPositions, settings},
    mutation::Mutation,
    operators::desk::Desk,
    queue::Queue,
    requests::flat_all,
    schedule::{HISTORY, MALFORMED, Schedule, Settings, TABLE},
    setup::{config, dynamodb_client},
    upstream::{MappingStop, Upstream},
};

/// The mapping can be disabled for 25 hours.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(26 * 3600);

pub(crate) fn run(schedule: &Schedule, mutation: Option<Mutation>) -> Result<Evidence, SimulationError> {
    // The random number generator of the SDK and the library.
    fastrand::seed(schedule.seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(SimulationError::Runtime)?;
    runtime.block_on(async { Box::pin(World::new(schedule, mutation)?.run()).await })
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
}

impl<'a> World<'a> {
    fn new(schedule: &'a Schedule, mutation: Option<Mutation>) -> Result<Self, SimulationError> {
        let clock = Clock(Instant::now());
        let database = Database::memory_with_clock(Arc::new(clock)).map_err(SimulationError::OpenDatabase)?;
        let connector = Connector::new(database, schedule.seed, schedule.faults.clone(), mutation);
        let stream_arn = create_table(&connector, TABLE)?;
        connector.open_stream(&stream_arn, schedule.settings.shards)?;
        if schedule.settings.own_history {
            // On AWS it has no stream. Here, the checks learn of its writes from it.
            let arn = create_table(&connector, HISTORY)?;
            connector.open_history(&arn)?;
        }
        let settings = &schedule.settings;
        let digits = config(settings, None)?.digits;
        let client = dynamodb_client(&connector);
        let processes = (0..settings.clock_offsets.len()).map(|process| {
            let config = config(&settings.of_process(process), settings.history())?;
            let clock = clock.of_process(ProcessClock::of(settings, process));
            Ok(writer(&client, &config, mutation).with_clock(clock))
        });
        let writers = processes.collect::<Result<Vec<_>, SimulationError>>()?;
        let store = Store::new(client.clone(), TABLE, digits).with_history(settings.history());
        let function_config = config(settings, settings.history())?;
        Ok(Self {
            upstream: Upstream {
                schedule,
                digits,
                connector: connector.clone(),
                layout: store.clone(),
                writers,
                misdeployed: misdeployed(settings, |config| {
                    writer(&client, config, mutation).with_clock(clock.shifted(0))
                })?,
                clock,
                bucket: Bucket::default(),
                mapping_stop: MappingStop::default(),
                queue: Queue::default(),
                queue_is_empty: Mutex::default(),
                answers: Mutex::default(),
                errors: Mutex::default(),
                reused: Mutex::default(),
                letters: Mutex::default(),
                first_sent: Mutex::default(),
                deliveries: Mutex::default(),
                overlapping: Mutex::default(),
                manual_versions: Mutex::default(),
                desk: Desk::new(&connector, clock, digits, settings),
                purges: Mutex::default(),
                pruned: Mutex::default(),
                pins: Mutex::default(),
                uses_of_copy: Mutex::default(),
                overruns: Mutex::default(),
            },
            clock,
            function: StreamFunction::new(
                history_writer(&client, &function_config, mutation).with_clock(clock.shifted(0)),
                misdeployed(settings, |config| {
                    history_writer(&client, config, mutation).with_clock(clock.shifted(0))
                })?,
                connector.clone(),
                digits,
            ),
            source: FaultySource { connector, clock },
            stream_arn,
            reader: store.with_clock(clock.shifted(0)),
        })
    }

    async fn run(self) -> Result<Evidence, SimulationError> {
        let run = async {
            if self.upstream.schedule.settings.starts_early {
                self.function.start_early().await;
            }
            self.upstream.claim_layout().await?;
            self.upstream.run().await;
            self.upstream.drain().await;
            self.stop_faults().await;
            let mut evidence = self.evidence().await?;
            evidence.recovery = self.recover().await?;
            // With the writes of the recovery, whose records can be trimmed while the mapping is disabled.
            evidence.stream = self.source.connector.stream().records();
            evidence.trimmed = self.source.connector.stream().trimmed();
            evidence.overlapping.clone_from(&lock(&self.upstream.overlapping));
            evidence.answers.clone_from(&lock(&self.upstream.answers));
            evidence.deliveries.clone_from(&lock(&self.upstream.deliveries));
            evidence.faults = self.source.connector.faults();
            Ok(evidence)
        };
        tokio::select! {
            biased;
            evidence = run => evidence,
            () = self.run_mapping() => Err(SimulationError::MappingEnded),
            () = self.upstream.run_queue() => Err(SimulationError::MappingEnded),
        }
    }

    async fn stop_faults(&self) {
        self.source.connector.stop_faults();
        self.upstream.bucket.allow();
        self.source.connector.finish_late().await;
    }

    /// Waits until the mapping has read everything, and returns what can be observed then.
    async fn evidence(&self) -> Result<Evidence, SimulationError> {
        let settled = self.settle().await;
        let (read, as_of) = (self.read().await?, self.read_as_of().await?);
        let connector = &self.source.connector;
        let documents = lock(&self.upstream.bucket.0);
        for document in &documents.kept {
            if document["requestContext"]["condition"] == "RecordAgeExceeded" {
                connector.count("record-age-exceeded");
            }
        }
        let dropped: Vec<_> = documents.dropped.iter().flat_map(mapping::records_of).collect();
        for _ in &dropped {
            connector.count("record-dropped");
        }
        let trimmed = connector.stream().trimmed();
        for _ in &trimmed {
            connector.count("trimmed");
        }
        let items = self.items()?;
        let quarantined = records_of(
            items
                .iter()
                .filter_map(|item| serde_json::from_value(item.clone()).ok()),
        );
        Ok(Evidence {
            quarantined: (quarantined.iter())
                .map(|quarantined| serde_json::from_str(&quarantined.record))
                .collect::<Result<_, _>>()?,
            items,
            recovered_from: connector.stream().len(),
            documents: documents.kept.clone(),
            dropped,
            trimmed,
            manual_versions: lock(&self.upstream.manual_versions).clone(),
            hindered: lock(&self.function.hindered).clone(),
            reused: lock(&self.upstream.reused).clone(),
            overruns: *lock(&self.function.overruns) + *lock(&self.upstream.overruns),
            purges: lock(&self.upstream.purges).clone(),
            pruned: lock(&self.upstream.pruned).clone(),
            pins: lock(&self.upstream.pins).clone(),
            uses_of_copy: lock(&self.upstream.uses_of_copy).clone(),
            read,
            as_of,
            settled,
            ..Evidence::default()
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
                positions: KeptPositions(self.source.connector.stream().clone()),
                clock: self.clock,
                counters: Counters::default(),
            };
            // A mapping that is disabled goes on for some seconds.
            let lag = self
                .source
                .connector
                .draw(|rng| Duration::from_millis(rng.u64(0..2) * rng.u64(0..15_000)));
            mapping
                .run_until(self.upstream.mapping_stop.requested.notified(), lag)
                .await;
            drop(mapping);
            let duration = *lock(&self.upstream.mapping_stop.duration);
            sleep(duration).await;
        }
    }

    /// Waits until the mapping reached the end of the stream. `false` if it did not in time.
    async fn settle(&self) -> bool {
        let started = Instant::now();
        while started.elapsed() < SETTLE_TIMEOUT {
            if self.source.connector.stream().is_done() {
                return true;
            }
            // Most runs end soon, and some after a day.
            sleep((started.elapsed() / 20).max(Duration::from_millis(250))).await;
        }
        false
    }

    /// Recovers from what the faults left: what was discarded is redriven, and what was not answered is sent again.
    async fn recover(&self) -> Result<Recovery, SimulationError> {
        self.upstream.recover().await;
        let answered: HashSet<_> = lock(&self.upstream.answers)
            .iter()
            .map(|answer| answer.update)
            .collect();
        let mut unanswered = Vec::new();
        let mut sent: Vec<_> = lock(&self.upstream.deliveries).keys().copied().collect();
        sent.sort_unstable();
        for update in sent.into_iter().filter(|update| !answered.contains(update)) {
            if !self.upstream.direct(update).await {
                unanswered.push((update, lock(&self.upstream.errors).get(&update).cloned()));
            }
        }
        self.settle().await;
        // Older versions than this count as missing.
        sleep(Duration::from_secs(120)).await;
        Ok(Recovery {
            findings: self.upstream.audit().await,
            items: self.items()?,
            unanswered,
        })
    }

    /// Reads the versions of each entity. Faults of these reads leave keys unprocessed.
    async fn read(&self) -> Result<BTreeMap<String, Result<Vec<(u64, Item)>, ReadError>>, SimulationError> {
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

    /// Reads the entities as of the times of some of their versions, and as of times near them.
    async fn read_as_of(&self) -> Result<Vec<AsOf>, SimulationError> {
        const SAMPLES: usize = 4;
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
            let other = self.source.connector.draw(|rng| near(rng, time));
            for time in [time, other] {
                let view = operations::as_of::as_of(&self.reader, &entity, time, true).await;
                read.push(AsOf {
                    entity: text("PK").to_owned(),
                    time: time.to_string(),
                    version: view.map(|view| view.map(|view| view.version.get())),
                });
            }
        }
        Ok(read)
    }

    async fn history(&self, entity: &EntityId) -> Result<Vec<(u64, Item)>, ReadError> {
        let history = self.reader.history(entity, HistoryQuery::default()).await?;
        let views = match history {
            Some(history) => history.collect().await?,
            None => Vec::new(),
        };
        let read = views.into_iter().map(|view| (view.version.get(), view.attributes));
        Ok(read.collect())
    }

    fn items(&self) -> Result<Vec<Value>, SimulationError> {
        let connector = &self.source.connector;
        let mut items = flat_all(connector.scan(TABLE)?, false)?;
        if self.upstream.schedule.settings.own_history {
            items.extend(flat_all(connector.scan(HISTORY)?, true)?);
        }
        Ok(items)
    }
}

/// Returns a time near another one: between the versions of an entity, before the first, or after the last.
fn near(rng: &mut Rng, time: RecordedAt) -> RecordedAt {
    let span = [1_000, 1_000_000, 1_000_000_000, 3_600_000_000_000][rng.usize(..4)];
    let nanos = Duration::from_nanos(rng.u64(1..=span));
    match rng.bool() {
        true => time.after(nanos),
        false => RecordedAt::since_epoch(time.to_duration().saturating_sub(nanos)),
    }
}

/// Returns `true` if a function checks the layout, unless this mutation removes the check.
fn checks_layout(mutation: Option<Mutation>, unchecked: Mutation) -> bool {
    mutation.is_none_or(|mutation| mutation.checks_layout(unchecked))
}

/// Creates a writer.
fn writer(client: &Client, config: &Config, mutation: Option<Mutation>) -> Writer {
    let writer = Writer::new(client.clone(), config);
    match checks_layout(mutation, Mutation::WriterLayout) {
        true => writer,
        false => writer.with_checked_layout(),
    }
}

/// As [`writer`], for stream-fn.
fn history_writer(client: &Client, config: &Config, mutation: Option<Mutation>) -> HistoryWriter {
    let writer = HistoryWriter::new(client.clone(), config);
    match checks_layout(mutation, Mutation::StreamLayout) {
        true => writer,
        false => writer.with_checked_layout(),
    }
}

/// Creates a function as it is deployed with other layouts than that of the table.
fn misdeployed<T>(settings: &Settings, create: impl Fn(&Config) -> T) -> Result<Misdeployed<T>, SimulationError> {
    let history = match settings.own_history {
        true => None,
        false => Some(HISTORY.to_owned()),
    };
    let mut config_of_width = config(settings, settings.history())?;
    let digits = VersionDigits::new(settings.digits + 1);
    config_of_width.digits = digits.ok_or(SimulationError::InvalidSetting("digits"))?;
    Ok(Misdeployed {
        width: create(&config_of_width),
        history: create(&config(settings, history)?),
    })
}

/// Creates a table with a stream, and returns the ARN of the stream.
pub(crate) fn create_table(connector: &Connector, name: &str) -> Result<String, SimulationError> {
    let created = connector.send(
        "CreateTable",
        json!({
            "TableName": name, "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [{"AttributeName": "PK", "AttributeType": "S"}, {"AttributeName": "SK", "AttributeType": "S"}],
            "KeySchema": [{"AttributeName": "PK", "KeyType": "HASH"}, {"AttributeName": "SK", "KeyType": "RANGE"}],
            "StreamSpecification": {"StreamEnabled": true, "StreamViewType": "NEW_IMAGE"},
        }),
    )?;
    let ttl = json!({"TableName": name, "TimeToLiveSpecification": {"Enabled": true, "AttributeName": "TTL"}});
    connector.send("UpdateTimeToLive", ttl)?;
    let arn = created["TableDescription"]["LatestStreamArn"].as_str();
    Ok(arn.ok_or(SimulationError::NoStream)?.to_owned())
}
