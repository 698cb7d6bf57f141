//! The commands that operators run, beside the traffic and after the faults.

use std::time::Duration;

use operations::{prune, purge::entity::DEFAULT_WAIT};
use serde_json::{Value, json};
use shared::domain::version::Version;
use writer_fn::event::request::Carrier;

use crate::{
    caller::lock,
    deliveries::MAX_ATTEMPTS,
    error::SimulationError,
    mutation::Mutation,
    operators::{
        CommandEnd, DEAD_LETTERS, UPDATES,
        copy::{create_copy, run_on_copy},
        create_source, is_done,
        services::Letter,
    },
    queue::DeadLetter,
    schedule::{BACKFILLED, Command, HISTORY, TABLE},
    setup::config,
    upstream::Upstream,
    world::create_table,
};

/// Maximum number of runs of a command that fails.
const MAX_RUNS: u32 = 4;
/// Age from which a missing version is a finding.
pub(crate) const LAG: Duration = Duration::from_secs(60);
/// History table of a deployment that was rolled back.
const ROLLED_BACK: &str = "RolledBack";

impl Upstream<'_> {
    /// Runs a command of an operator, who repeats it while it fails.
    pub(crate) async fn command(&self, command: &Command) {
        for run in 0..MAX_RUNS {
            self.connector.back_off(run).await;
            if is_done(&Box::pin(self.run_command(command)).await) {
                self.done(command);
                return;
            }
        }
    }

    /// Notes what a command has promised.
    fn done(&self, command: &Command) {
        match command {
            Command::Purge { entity } => {
                lock(&self.seen)
                    .purges
                    .push((entity.clone(), self.connector.stream().len()));
            }
            Command::Pin { entity, version } => {
                lock(&self.seen).pins.push((entity.clone(), *version));
            }
            _ => {}
        }
    }

    async fn run_command(&self, command: &Command) -> CommandEnd {
        let operators = &self.desk.operators;
        match command {
            Command::Prune { entity, keep } => {
                self.connector.count("prune");
                Box::pin(operators.prune(entity, prune_options(*keep))).await
            }
            Command::PruneTable { keep } => {
                self.connector.count("prune");
                Box::pin(operators.prune_table(prune_options(*keep))).await
            }
            Command::Purge { entity } => {
                self.connector.count("purge");
                let wait = self.mutated(DEFAULT_WAIT, Mutation::purge_wait);
                operators.purge(entity, wait).await
            }
            Command::Repair => {
                self.connector.count("repair");
                self.repair(false).await
            }
            Command::Revive => {
                self.connector.count("repair");
                self.repair(true).await
            }
            Command::Redrive => {
                self.connector.count("redrive");
                let redriven = operators.redrive(&self.documents()).await;
                let quarantine = operators.redrive_quarantine().await;
                if is_done(&redriven) { quarantine } else { redriven }
            }
            Command::Backfill { number } => {
                self.connector.count("backfill");
                let table = format!("Source{number}");
                let item = json!({"PK": {"S": format!("{BACKFILLED}{number}")}, "A": {"N": number.to_string()}});
                // It exists if the command is repeated.
                let _ = create_source(&self.connector, &table, &[item]);
                self.backfill(&table).await
            }
            Command::Adopt => {
                self.connector.count("backfill");
                self.backfill(TABLE).await
            }
            Command::AdoptTable => {
                self.connector.count("table-adopted");
                operators.adopt(HISTORY).await
            }
            Command::Restore { .. } | Command::Delete { .. } | Command::Undelete { .. } => {
                self.connector.count("restore");
                let write = config(&self.schedule.settings, None).map(|config| config.write);
                Box::pin(operators.restore(command, write.unwrap_or_default())).await
            }
            Command::UseCopy { entity } => {
                self.connector.count("table-copied");
                // It exists if the command is repeated.
                let _ = create_copy(&self.connector);
                let before = self.connector.scan(HISTORY).unwrap_or_default();
                let processed = run_on_copy(&self.connector, &self.schedule.settings, entity).await;
                let used = Box::pin(operators.use_copy(entity)).await;
                let after = self.connector.scan(HISTORY).unwrap_or_default();
                let changed = before.into_iter().filter(|item| !after.contains(item));
                let changed = changed.map(|item| format!("{} of production was changed", item["SK"]));
                lock(&self.seen)
                    .uses_of_copy
                    .extend(processed.into_iter().chain(changed));
                used
            }
            Command::Pin { entity, version } => {
                self.connector.count("pin");
                let version = Version::new(*version).unwrap_or(Version::FIRST);
                operators.pin(entity, version).await
            }
        }
    }

    /// Stores the layout of the first deployment, as writer-fn does at its start.
    pub(crate) async fn claim_layout(&self) -> Result<(), SimulationError> {
        let rolled_back = self.schedule.settings.rolled_back;
        if rolled_back {
            create_table(&self.connector, ROLLED_BACK)?;
        }
        let history = match rolled_back {
            true => Some(ROLLED_BACK.to_owned()),
            false => self.layout.own_history().map(str::to_owned),
        };
        let _ = self.layout.clone().with_history(history).claim_layout().await;
        if rolled_back {
            self.connector.send("DeleteTable", json!({"TableName": ROLLED_BACK}))?;
        }
        Ok(())
    }

    /// Returns the findings of an audit of the table.
    pub(crate) async fn audit(&self) -> Vec<Value> {
        self.desk.operators.audit(LAG).await
    }

    async fn backfill(&self, from_table: &str) -> CommandEnd {
        let settings = config(&self.schedule.settings, None);
        let (ordering, write) = settings
            .map(|config| (config.ordering, config.write))
            .unwrap_or_default();
        Box::pin(self.desk.operators.backfill(from_table, ordering, write)).await
    }

    async fn repair(&self, revive: bool) -> CommandEnd {
        let (documents, lag) = (self.documents(), self.mutated(LAG, Mutation::lag));
        self.desk.operators.repair(&documents, (false, revive), lag).await
    }

    fn mutated(&self, time: Duration, change: impl FnOnce(Mutation, Duration) -> Duration) -> Duration {
        let mutation = self.connector.mutation();
        mutation.map_or(time, |mutation| change(mutation, time))
    }

    fn documents(&self) -> Vec<Value> {
        lock(&self.bucket.0).kept.clone()
    }

    /// An operator redrives what was discarded, and repairs the table.
    pub(crate) async fn recover(&self) {
        let operators = &self.desk.operators;
        let letters = self.take_letters();
        for letter in &letters {
            self.desk.queues.add(DEAD_LETTERS, letter.letter.clone());
        }
        let documents = self.documents();
        // A record can fail because of one that follows later.
        for _ in 0..2 {
            if !documents.is_empty() {
                operators.redrive(&documents).await;
            }
            operators.redrive_quarantine().await;
            self.repair(false).await;
            if documents.is_empty() {
                break;
            }
        }
        if !letters.is_empty() {
            operators.redrive_queue(DEAD_LETTERS).await;
        }
        for letter in self.desk.queues.messages(UPDATES) {
            self.connector.count("redriven-update");
            self.redeliver(&letters, &letter).await;
        }
    }

    /// Delivers an update that was redriven, with its new message id.
    async fn redeliver(&self, letters: &[DeadLetter], letter: &Letter) {
        let is_of = |update: usize| (letter.body).contains(&format!("\"{}\"", self.schedule.updates[update].id));
        let Some(update) = letters.iter().map(|letter| letter.update).find(|update| is_of(*update)) else {
            return;
        };
        let body: Value = serde_json::from_str(&letter.body).unwrap_or_default();
        let sender = format!("sender-of-{}", self.schedule.updates[update].id);
        let record = json!({
            "messageId": letter.id, "eventSource": "aws:sqs", "body": body.to_string(),
            "attributes": {
                "ApproximateReceiveCount": "1", "SentTimestamp": letter.sent_millis.to_string(), "SenderId": sender,
                "ApproximateFirstReceiveTimestamp": self.clock.millis().to_string(),
            },
        });
        for attempt in 0..MAX_ATTEMPTS {
            self.connector.back_off(attempt).await;
            let event = json!({"Records": [record]});
            if self.invoke_batch(update, event, &Carrier::invocation("redriven")).await {
                return;
            }
        }
    }
}

fn prune_options(keep: u64) -> prune::Options {
    prune::Options {
        rule: prune::Rule::Keep(keep),
        grace: Duration::from_secs(3600),
        over_gaps: false,
        dry_run: false,
    }
}
