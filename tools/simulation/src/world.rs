//! Runs one schedule in virtual time: both functions, the event source mapping and the embedded database, in one thread.
//!
//! After the steps of all sources, the faults stop, and the run continues until the mapping reaches the end of the stream.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use aws_sdk_dynamodb::Client;
use fastrand::Rng;
use operations::as_of::as_of;
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
    clock::{Clock, ProcessClock, in_virtual_time},
    connector::Connector,
    deliveries::MAX_ATTEMPTS,
    error::SimulationError,
    evidence::{AsOf, Evidence, Recovery},
    functions::{Misdeployed, StreamFunction},
    mapping::{self, Bucket, settings},
    mutation::Mutation,
    operators::Desk,
    queue::Queue,
    requests::flat_all,
    schedule::{HISTORY, MALFORMED, Schedule, Settings, TABLE},
    setup::{config, dynamodb_client},
    upstream::{MappingStop, Upstream},
};

pub(crate) fn run(schedule: &Schedule, mutation: Option<Mutation>) -> Result<Evidence, SimulationError> {
    in_virtual_time(schedule.seed, async {
        Box::pin(World::new(schedule, mutation)?.run()).await
    })?
}

struct World<'a> {
    upstream: Upstream<'a>,
    reader: Store,
    function: Arc<StreamFunction>,
}

impl<'a> World<'a> {
    fn new(schedule: &'a Schedule, mutation: Option<Mutation>) -> Result<Self, SimulationError> {
        let clock = Clock(Instant::now());
        let connector = Connector::new(clock.database()?, schedule.seed, schedule.faults.clone(), mutation);
        connector.open_stream(&create_table(&connector, TABLE)?, schedule.settings.shards)?;
        if schedule.settings.own_history {
            // On AWS it has no stream. Here, the checks learn of its writes from it.
            connector.open_history(&create_table(&connector, HISTORY)?)?;
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
                seen: Mutex::default(),
                errors: Mutex::default(),
                letters: Mutex::default(),
                first_sent: Mutex::default(),
                desk: Desk::new(&connector, clock, digits, settings.history()),
            },
            function: StreamFunction::new(
                history_writer(&client, &function_config, mutation).with_clock(clock.shifted(0)),
                Some(misdeployed(settings, |config| {
                    history_writer(&client, config, mutation).with_clock(clock.shifted(0))
                })?),
                connector,
                digits,
                false,
            ),
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
            self.upstream.bucket.allow();
            self.connector().stop_faults().await;
            self.observe().await?;
            let recovery = self.recover().await?;
            let mut evidence = std::mem::take(&mut *lock(&self.upstream.seen));
            evidence.recovery = recovery;
            evidence.hindered.clone_from(&lock(&self.function.hindered));
            evidence.overruns += *lock(&self.function.overruns);
            // With the writes of the recovery, whose records can be trimmed while the mapping is disabled.
            evidence.stream = self.connector().stream().records();
            evidence.trimmed = self.connector().stream().trimmed();
            evidence.faults = self.connector().faults();
            Ok(evidence)
        };
        tokio::select! {
            biased;
            evidence = run => evidence,
            () = self.run_mapping() => Err(SimulationError::MappingEnded),
            () = self.upstream.run_queue() => Err(SimulationError::MappingEnded),
        }
    }

    fn connector(&self) -> &Connector {
        &self.upstream.connector
    }

    /// Waits until the mapping has read everything, and notes what can be observed then.
    async fn observe(&self) -> Result<(), SimulationError> {
        let settled = self.connector().settle().await;
        let settled_after = self.upstream.clock.0.elapsed();
        let (read, as_of) = (self.read().await?, self.read_as_of().await?);
        let connector = self.connector();
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
        for _ in &connector.stream().trimmed() {
            connector.count("trimmed");
        }
        let items = self.items()?;
        let quarantined = records_of(
            items
                .iter()
                .filter_map(|item| serde_json::from_value(item.clone()).ok()),
        );
        let given_up = self.unanswered();
        let mut seen = lock(&self.upstream.seen);
        seen.quarantined = (quarantined.iter())
            .map(|quarantined| serde_json::from_str(&quarantined.record))
            .collect::<Result<_, _>>()?;
        (seen.items, seen.given_up, seen.recovered_from) = (items, given_up, connector.stream().len());
        (seen.documents, seen.dropped) = (documents.kept.clone(), dropped);
        (seen.read, seen.as_of) = (read, as_of);
        (seen.settled, seen.settled_after) = (settled, settled_after);
        seen.failed_invocations += self.function.failed.load(Ordering::Relaxed);
        Ok(())
    }

    /// Returns the updates that were sent and have no answer.
    fn unanswered(&self) -> Vec<usize> {
        let seen = lock(&self.upstream.seen);
        let answered: HashSet<_> = seen.answers.iter().map(|answer| answer.update).collect();
        let mut sent: Vec<_> = seen.deliveries.keys().copied().collect();
        sent.sort_unstable();
        sent.retain(|update| !answered.contains(update));
        sent
    }

    /// Runs the mapping. After a stop it starts again from its last position.
    async fn run_mapping(&self) {
        loop {
            let Upstream {
                schedule,
                bucket,
                clock,
                ..
            } = &self.upstream;
            let settings = settings(&schedule.settings, self.connector().mutation());
            let mapping = mapping::mapping(settings, self.connector(), &self.function, bucket, *clock);
            // A mapping that is disabled or deleted goes on for some seconds (recorded: 15 s and 5 s).
            let lag = (self.connector()).draw(|rng| Duration::from_millis(rng.u64(0..2) * rng.u64(0..15_000)));
            let stopped = async {
                self.upstream.mapping_stop.requested.notified().await;
                sleep(lag).await;
            };
            tokio::select! {
                biased;
                () = stopped => {}
                () = mapping.run() => {}
            }
            drop(mapping);
            let duration = *lock(&self.upstream.mapping_stop.duration);
            sleep(duration).await;
        }
    }

    /// Recovers from what the faults left: what was discarded is redriven, and what was not answered is sent again.
    async fn recover(&self) -> Result<Recovery, SimulationError> {
        self.upstream.recover().await;
        let mut unanswered = Vec::new();
        for update in self.unanswered() {
            if !self.upstream.direct(update).await {
                unanswered.push((update, lock(&self.upstream.errors).get(&update).cloned()));
            }
        }
        self.connector().settle().await;
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
                self.connector().back_off(attempt).await;
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
        self.connector().draw(|rng| rng.shuffle(&mut items));
        let mut read = Vec::new();
        for item in items.iter().take(SAMPLES) {
            let text = |name: &str| item[name]["S"].as_str().unwrap_or_default();
            let (Ok(entity), Ok(time)) = (EntityId::new(text("PK")), RecordedAt::parse(text("RecordedAt"))) else {
                continue;
            };
            let other = self.connector().draw(|rng| near(rng, time));
            for time in [time, other] {
                let view = as_of(&self.reader, &entity, time, true).await;
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
        let connector = self.connector();
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

/// Creates a table with a stream and expiring items, and returns the ARN of the stream.
pub(crate) fn create_table(connector: &Connector, name: &str) -> Result<String, SimulationError> {
    let arn = connector.create_table(name, &["PK", "SK"], Some("NEW_IMAGE"))?;
    let ttl = json!({"TableName": name, "TimeToLiveSpecification": {"Enabled": true, "AttributeName": "TTL"}});
    connector.send("UpdateTimeToLive", ttl)?;
    Ok(arn)
}
