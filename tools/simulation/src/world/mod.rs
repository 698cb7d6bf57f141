//! Runs one schedule in virtual time: both functions, the event source mapping and the embedded database, in one thread.
//!
//! After the steps of all sources, the faults stop, and the run continues until the mapping reaches the end of the stream.

mod commands;
mod deliveries;
mod observations;
mod steps;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::join_all;
use serde_json::{Value, json};
use shared::{
    config::Config,
    domain::keys::{LATEST_KEY, VersionDigits},
    dynamodb::Store,
};
use stream_fn::HistoryWriter;
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};
use writer_fn::Writer;

use crate::{
    caller::lock,
    clock::{Clock, ProcessClock, in_virtual_time},
    connector::Connector,
    error::SimulationError,
    evidence::{Evidence, Recovery, Seen},
    functions::{Misdeployed, StreamFunction},
    mapping::{Bucket, mapping, settings},
    mutation::Mutation,
    operators::{Operators, commands::LAG},
    queue::Queues,
    schedule::{HISTORY, Schedule, Settings, Step, StepKind, TABLE},
    setup::{config, dynamodb_client},
};

pub(crate) fn run(schedule: &Schedule, mutation: Option<Mutation>) -> Result<Evidence, SimulationError> {
    in_virtual_time(schedule.seed, async {
        Box::pin(World::new(schedule, mutation)?.run()).await
    })?
}

pub(crate) struct World<'a> {
    pub(crate) schedule: &'a Schedule,
    pub(crate) digits: VersionDigits,
    pub(crate) connector: Connector,
    pub(crate) clock: Clock,
    /// The table, as the functions and readers see it.
    pub(crate) store: Store,
    pub(crate) writers: Vec<Writer>,
    pub(crate) misdeployed: Misdeployed<Writer>,
    pub(crate) function: StreamFunction,
    pub(crate) operators: Operators,
    pub(crate) bucket: Bucket,
    pub(crate) mapping_stop: MappingStop,
    pub(crate) queues: Queues,
    /// `true` if the queue has no message, and none is being processed.
    pub(crate) queue_is_empty: Mutex<bool>,
    pub(crate) seen: Seen,
}

#[derive(Default)]
pub(crate) struct MappingStop {
    pub(crate) requested: Notify,
    /// Time until the mapping starts again.
    pub(crate) duration: Mutex<Duration>,
}

impl<'a> World<'a> {
    fn new(schedule: &'a Schedule, mutation: Option<Mutation>) -> Result<Self, SimulationError> {
        let (clock, settings) = (Clock(Instant::now()), &schedule.settings);
        let connector = Connector::new(clock.database()?, schedule.seed, schedule.faults.clone(), mutation);
        let (stream, database) = (&connector.stream, &connector.database);
        stream.open(database, &connector.create_table(TABLE)?, settings.shards)?;
        if settings.own_history {
            // On AWS it has no stream. Here, the checks learn of its writes from it.
            stream.open_history(database, &connector.create_table(HISTORY)?)?;
        }
        let (deployed, client, mutations) = (config(settings)?, dynamodb_client(&connector), connector.mutations);
        let of_writer = |config: &Config| {
            let writer = Writer::new(client.clone(), config).with_clock(clock.of_library());
            match mutations.disable(Mutation::WriterLayout) {
                true => writer.with_checked_layout(),
                false => writer,
            }
        };
        let of_stream = |config: &Config| {
            let writer = HistoryWriter::new(client.clone(), config).with_clock(clock.of_library());
            match mutations.disable(Mutation::StreamLayout) {
                true => writer.with_checked_layout(),
                false => writer,
            }
        };
        let processes = (0..settings.clock_offsets.len()).map(|process| {
            let config = config(&settings.of_process(process))?;
            let clock = clock.of_process(ProcessClock::of(settings, process));
            Ok(of_writer(&config).with_clock(clock))
        });
        let (digits, history, seen) = (deployed.digits, settings.history(), Seen::default());
        let store = Store::new(client.clone(), TABLE, digits).with_history(history.clone());
        let write = (deployed.ordering, deployed.write);
        let operators = Operators::new(&connector, clock, digits, history, write);
        Ok(Self {
            schedule,
            digits,
            clock,
            store: store.with_clock(clock.of_library()),
            writers: processes.collect::<Result<_, SimulationError>>()?,
            misdeployed: misdeployed(settings, of_writer)?,
            function: StreamFunction {
                writer: of_stream(&deployed),
                misdeployed: Some(misdeployed(settings, of_stream)?),
                connector: connector.clone(),
                digits,
                is_ordered: false,
                seen: Arc::clone(&seen),
            },
            queues: operators.queues().clone(),
            operators,
            connector,
            bucket: Bucket::default(),
            mapping_stop: MappingStop::default(),
            queue_is_empty: Mutex::default(),
            seen,
        })
    }

    async fn run(self) -> Result<Evidence, SimulationError> {
        tokio::select! {
            biased;
            evidence = self.observe_all() => evidence,
            () = self.run_mapping() => Err(SimulationError::MappingEnded),
            () = self.run_queue() => Err(SimulationError::MappingEnded),
        }
    }

    async fn observe_all(&self) -> Result<Evidence, SimulationError> {
        if self.schedule.settings.starts_early {
            self.function.start_early().await;
        }
        self.claim_layout().await?;
        self.run_steps().await;
        // Until each message was processed, or moved to the dead-letter queue.
        while !*lock(&self.queue_is_empty) {
            sleep(Duration::from_secs(1)).await;
        }
        self.bucket.allow();
        self.connector.stop_faults().await;
        self.observe().await?;
        let recovery = self.recover().await?;
        let mut evidence = std::mem::take(&mut *lock(&self.seen));
        evidence.recovery = recovery;
        // With the writes of the recovery, whose records can be trimmed while the mapping is disabled.
        evidence.stream = self.connector.stream.records();
        evidence.trimmed = self.connector.stream.trimmed();
        evidence.faults = self.connector.faults();
        Ok(evidence)
    }

    /// Carries out all steps. The steps of a source follow each other; what lasts does not delay them.
    async fn run_steps(&self) {
        let steps = &self.schedule.steps;
        let waits = |step: &&Step| !matches!(step.kind, StepKind::Asynchronous(_) | StepKind::Command(_));
        let last = steps.iter().map(|step| step.source).max().unwrap_or(0);
        let sources = (0..=last).map(async |source| {
            for step in steps.iter().filter(|step| step.source == source).filter(waits) {
                self.at(step).await;
            }
        });
        let others = steps.iter().filter(|step| !waits(step)).map(|step| self.at(step));
        tokio::join!(join_all(sources), join_all(others));
    }

    async fn at(&self, step: &Step) {
        sleep_until(self.clock.0 + Duration::from_millis(step.at)).await;
        self.step(step).await;
    }

    /// Runs the mapping. After a stop it starts again from its last position.
    async fn run_mapping(&self) {
        loop {
            let settings = settings(&self.schedule.settings, self.connector.mutations);
            let mapping = mapping(settings, &self.connector, &self.function, &self.bucket, self.clock);
            // A mapping that is disabled or deleted goes on for some seconds (recorded: 15 s and 5 s).
            let lag = (self.connector).draw(|rng| Duration::from_millis(rng.u64(0..2) * rng.u64(0..15_000)));
            let stopped = async {
                self.mapping_stop.requested.notified().await;
                sleep(lag).await;
            };
            tokio::select! {
                biased;
                () = stopped => {}
                () = mapping.run() => {}
            }
            drop(mapping);
            let duration = *lock(&self.mapping_stop.duration);
            sleep(duration).await;
        }
    }

    /// Recovers from what the faults left: what was discarded is redriven, and what was not answered is sent again.
    async fn recover(&self) -> Result<Recovery, SimulationError> {
        self.redrive_and_repair().await;
        let mut unanswered = Vec::new();
        for update in self.unanswered() {
            if !self.direct(update).await {
                unanswered.push((update, lock(&self.seen).errors.get(&update).cloned()));
            }
        }
        self.connector.settle().await;
        // Older versions than this count as missing.
        sleep(Duration::from_secs(120)).await;
        Ok(Recovery {
            findings: self.operators.audit(LAG).await,
            items: self.items()?.into_iter().collect(),
            unanswered,
        })
    }
}

/// Creates a function as it is deployed with other layouts than that of the table.
fn misdeployed<T>(settings: &Settings, create: impl Fn(&Config) -> T) -> Result<Misdeployed<T>, SimulationError> {
    let (mut width, mut history) = (settings.clone(), settings.clone());
    width.digits += 1;
    history.own_history = !history.own_history;
    Ok(Misdeployed {
        width: create(&config(&width)?),
        history: create(&config(&history)?),
    })
}

/// Returns the key of a latest item.
pub(crate) fn latest(entity: &str) -> Value {
    json!({"PK": {"S": entity}, "SK": {"S": LATEST_KEY}})
}
