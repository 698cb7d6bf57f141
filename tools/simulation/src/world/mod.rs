//! Runs one schedule in virtual time: both functions, the event source mapping and the embedded database, in one thread.
//!
//! After the steps of all sources, the faults stop, and the run continues until the mapping reaches the end of the stream. Of an
//! attached table, the steps are changes by clients, and only stream-fn has something to do.

mod attached;
mod commands;
mod deliveries;
mod observations;
mod sealing;
mod steps;
mod undo;

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
use stream_fn::{HistoryWriter, Purpose};
use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};
use writer_fn::Writer;

use crate::{
    attached::create_tables,
    caller::lock,
    clock::{Clock, ProcessClock, in_virtual_time},
    connector::Connector,
    error::SimulationError,
    evidence::{Evidence, Seen},
    functions::StreamFunction,
    mapping::{Bucket, mapping, settings},
    mutation::Mutation,
    operators::{Operators, commands::LAG},
    queue::Queues,
    schedule::{Command, HISTORY, Schedule, Step, StepKind, TABLE},
    sealer::Sealer,
    setup::{config, deployments, dynamodb_client},
};

pub(crate) fn run(schedule: &Schedule, mutation: Option<Mutation>) -> Result<Evidence, SimulationError> {
    in_virtual_time(schedule.seed, async {
        Box::pin(World::new(schedule.clone(), mutation)?.run()).await
    })?
}

pub(crate) struct World {
    pub(crate) schedule: Schedule,
    pub(crate) digits: VersionDigits,
    pub(crate) connector: Connector,
    pub(crate) clock: Clock,
    /// The table, as the functions and readers see it.
    pub(crate) store: Store,
    pub(crate) writers: Vec<Writer>,
    /// The other deployments of writer-fn.
    pub(crate) misdeployed: Vec<Writer>,
    pub(crate) function: StreamFunction,
    pub(crate) operators: Operators,
    pub(crate) bucket: Bucket,
    pub(crate) mapping_stop: Notify,
    /// Time from a stop of the mapping until it starts again.
    pub(crate) mapping_pause: Mutex<Duration>,
    pub(crate) queues: Queues,
    /// `true` if the queue has no message, and none is being processed.
    pub(crate) queue_is_empty: Mutex<bool>,
    pub(crate) seen: Seen,
    /// seal-fn, and its log.
    pub(crate) sealer: Option<Sealer>,
}

impl World {
    pub(crate) fn new(schedule: Schedule, mutation: Option<Mutation>) -> Result<Self, SimulationError> {
        let (clock, settings) = (Clock(Instant::now()), &schedule.settings);
        let connector = Connector::new(clock.database()?, schedule.seed, schedule.faults.clone(), mutation);
        lock(&connector.plan).reads_stale = settings.stale_reads;
        let attached = match settings.attached {
            true => Some(create_tables(&connector, settings)?),
            false => None,
        };
        if attached.is_none() {
            let (stream, database) = (&connector.stream, &connector.database);
            stream.open(
                database,
                &connector.create_table(TABLE, settings.sealed && !settings.own_history)?,
                settings.shards,
            )?;
            if settings.own_history {
                // On AWS it has no stream. Here, the checks learn of its writes from it.
                stream.open_history(database, &connector.create_table(HISTORY, settings.sealed)?)?;
            }
        }
        let (configs, client, mutations) = (deployments(settings)?, dynamodb_client(&connector), connector.mutations);
        let is_checked = ["writer-layout", "stream-layout"].map(|guard| mutations.disable(guard));
        let of_writer = |config: &Config| {
            let mut writer = Writer::new(client.clone(), config).with_clock(clock.of_library());
            if is_checked[0] {
                writer = writer.with_checked_layout();
            }
            writer
        };
        let of_stream = |config: Config| {
            let mut writer = match &attached {
                Some(table) => {
                    HistoryWriter::from_store(Store::attached(client.clone(), table.clone()), Purpose::Invocation)
                }
                None => HistoryWriter::new(client.clone(), &config),
            };
            if is_checked[1] {
                writer = writer.with_checked_layout();
            }
            writer.with_clock(clock.of_library())
        };
        let processes = (0..settings.clock_offsets.len()).map(|process| {
            let config = config(&settings.of_process(process))?;
            let clock = clock.of_process(ProcessClock::of(settings, process));
            Ok(of_writer(&config).with_clock(clock))
        });
        let (history, seen, deployed) = (settings.history(), Seen::default(), &configs[0]);
        let store = match &attached {
            Some(table) => Store::attached(client.clone(), table.clone()),
            None => Store::new(client.clone(), TABLE, deployed.digits).with_history(history.clone()),
        };
        let store = store.with_time_index(Some(settings.sealed));
        let digits = store.digits();
        let operators = Operators::new(&connector, clock, digits, history, (deployed.ordering, deployed.write));
        let sealer = settings.sealed.then(|| Sealer::new(&connector, clock)).transpose()?;
        Ok(Self {
            digits,
            clock,
            store: store.with_clock(clock.of_library()),
            writers: processes.collect::<Result<_, SimulationError>>()?,
            misdeployed: configs[1..].iter().map(of_writer).collect(),
            function: StreamFunction {
                deployments: configs.map(of_stream),
                connector: connector.clone(),
                digits,
                is_ordered: settings.attached,
                seen: Arc::clone(&seen),
            },
            queues: operators.queues().clone(),
            operators: operators.with_time_index(settings.sealed),
            sealer,
            connector,
            bucket: Bucket::default(),
            mapping_stop: Notify::new(),
            mapping_pause: Mutex::default(),
            queue_is_empty: Mutex::default(),
            seen,
            schedule,
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
        let is_attached = self.schedule.settings.attached;
        if self.schedule.settings.starts_early {
            self.function.start_early().await;
        }
        if !is_attached {
            self.claim_layout().await?;
        }
        if let Some(sealer) = &self.sealer {
            // Operators find the place of the log from the deployment on.
            let _ = Box::pin(sealer.start()).await;
        }
        self.run_steps().await;
        // Until each message was processed, or moved to the dead-letter queue.
        while !*lock(&self.queue_is_empty) {
            sleep(Duration::from_secs(1)).await;
        }
        lock(&self.bucket.0).denied_until = None;
        self.connector.stop_faults().await;
        self.finish_undos().await;
        let records = if is_attached {
            self.observe_attached().await?
        } else {
            self.observe().await?;
            self.finish_erasures().await;
            self.recover().await?;
            self.finish_sealing().await?;
            // With the writes of the recovery, whose records can be trimmed while the mapping is disabled.
            self.connector.stream.records()
        };
        let mut evidence = std::mem::take(&mut *lock(&self.seen));
        evidence.stream = records;
        evidence.trimmed = self.connector.stream.trimmed();
        evidence.faults = self.connector.faults();
        Ok(evidence)
    }

    /// Carries out all steps. The steps of a source follow each other; what lasts does not delay them.
    async fn run_steps(&self) {
        let steps = &self.schedule.steps;
        let lasts = |kind: &StepKind| {
            use StepKind::{Asynchronous, Command, RestoreState, Seal};
            matches!(kind, Asynchronous(_) | Command(_) | RestoreState(_) | Seal)
        };
        let waits = |step: &&Step| !lasts(&step.kind);
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
            let is_undo = |kind: &StepKind| matches!(kind, StepKind::Command(Command::Undo(_)));
            let lag = match self.schedule.settings.attached || self.schedule.has(is_undo) {
                true => Duration::ZERO,
                false => (self.connector).draw(|rng| Duration::from_millis(rng.u64(0..2) * rng.u64(0..15_000))),
            };
            let stopped = async {
                self.mapping_stop.notified().await;
                sleep(lag).await;
            };
            tokio::select! {
                biased;
                () = stopped => {}
                () = mapping.run() => {}
            }
            drop(mapping);
            let pause = *lock(&self.mapping_pause);
            sleep(pause).await;
        }
    }

    /// Recovers from what the faults left: what was discarded is redriven, and what was not answered is sent again.
    async fn recover(&self) -> Result<(), SimulationError> {
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
        let (findings, items) = (self.operators.audit(LAG).await, self.items()?);
        let mut seen = lock(&self.seen);
        (seen.findings, seen.unanswered) = (findings, unanswered);
        seen.recovered = items.into_iter().collect();
        Ok(())
    }
}

/// Returns the key of a latest item.
pub(crate) fn latest(entity: &str) -> Value {
    json!({"PK": {"S": entity}, "SK": {"S": LATEST_KEY}})
}
