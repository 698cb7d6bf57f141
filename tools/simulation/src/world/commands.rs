//! The commands that operators run, beside the traffic and after the faults.

use super::*;

/// Maximum number of runs of a command that fails.
const MAX_RUNS: u32 = 4;
/// History table of a deployment that was rolled back.
const ROLLED_BACK: &str = "RolledBack";

/// Returns the name under which the result counts a command.
fn name(command: &Command) -> &'static str {
    match command {
        Command::Prune { .. } | Command::PruneTable { .. } => "prune",
        Command::Purge { .. } => "purge",
        Command::Repair | Command::Revive | Command::Raise { .. } => "repair",
        Command::Redrive => "redrive",
        Command::Backfill { .. } | Command::Adopt => "backfill",
        Command::AdoptTable => "table-adopted",
        Command::Restore { .. } | Command::Delete { .. } | Command::Undelete { .. } => "restore",
        Command::UseCopy { .. } => "table-copied",
        Command::Pin { .. } => "pin",
    }
}

impl World<'_> {
    /// Runs a command of an operator, who repeats it while it fails.
    pub(crate) async fn command(&self, command: &Command) {
        let run = async |_| is_done(&Box::pin(self.run_command(command)).await).then_some(());
        let done = self.connector.retry(MAX_RUNS, run).await;
        let (mut seen, records) = (lock(&self.seen), self.connector.stream.len());
        // What it has promised.
        match command {
            _ if done.is_none() => {}
            Command::Purge { entity } => seen.purges.push((entity.clone(), records)),
            Command::Pin { entity, version } => seen.pins.push((entity.clone(), *version)),
            _ => {}
        }
    }

    async fn run_command(&self, command: &Command) -> CommandEnd {
        self.connector.count(name(command));
        match command {
            Command::Backfill { number } => {
                let item = json!({"PK": {"S": format!("{BACKFILLED}{number}")}, "A": {"N": number.to_string()}});
                // It exists if the command is repeated.
                let _ = create_source(&self.connector, &format!("Source{number}"), &[item]);
            }
            Command::UseCopy { entity } => return self.use_copy(entity).await,
            _ => {}
        }
        self.operators.command(command, &self.documents()).await
    }

    /// Lets the functions and an operator use a copy of the table, and notes what they did to the history of production.
    async fn use_copy(&self, entity: &str) -> CommandEnd {
        // It exists if the command is repeated.
        let _ = create_copy(&self.connector);
        let before = self.connector.scan(HISTORY).unwrap_or_default();
        let processed = run_on_copy(&self.connector, &self.schedule.settings, entity).await;
        let used = self.operators.use_copy(entity).await;
        let after = self.connector.scan(HISTORY).unwrap_or_default();
        let changed = before.into_iter().filter(|item| !after.contains(item));
        let changed = changed.map(|item| format!("{} of production was changed", item["SK"]));
        let uses = processed.into_iter().chain(changed);
        lock(&self.seen).uses_of_copy.extend(uses);
        used
    }

    /// Stores the layout of the first deployment, as writer-fn does at its start.
    pub(crate) async fn claim_layout(&self) -> Result<(), SimulationError> {
        if !self.schedule.settings.rolled_back {
            let _ = self.store.claim_layout().await;
            return Ok(());
        }
        create_table(&self.connector, ROLLED_BACK)?;
        let layout = self.store.clone().with_history(Some(ROLLED_BACK.to_owned()));
        let _ = layout.claim_layout().await;
        self.connector.send("DeleteTable", json!({"TableName": ROLLED_BACK}))?;
        Ok(())
    }

    fn documents(&self) -> Vec<Value> {
        lock(&self.bucket.0).kept.clone()
    }

    /// An operator redrives what was discarded, and repairs the table.
    pub(crate) async fn redrive_and_repair(&self) {
        let (operators, queues) = (&self.operators, &self.queues);
        let documents = self.documents();
        // A record can fail because of one that follows later.
        for _ in 0..2 {
            if documents.is_empty() {
                operators.redrive_quarantine().await;
            } else {
                operators.command(&Command::Redrive, &documents).await;
            }
            operators.command(&Command::Repair, &documents).await;
            if documents.is_empty() {
                break;
            }
        }
        if !queues.messages(Queue::DeadLetters).is_empty() {
            operators.redrive(Source::Queue(DEAD_LETTERS.to_owned())).await;
        }
        for message in queues.receive(Queue::Resent, usize::MAX, 0) {
            self.connector.count("redriven-update");
            self.redeliver(&message).await;
        }
    }

    /// Delivers an update that was redriven, with its new message id.
    async fn redeliver(&self, message: &Message) {
        let body = message.body.as_deref().unwrap_or_default();
        let is_of = |update: &Update| body.contains(&format!("\"{}\"", update.id));
        let Some(update) = self.schedule.updates.iter().position(is_of) else {
            return;
        };
        let sender = format!("sender-of-{}", self.schedule.updates[update].id);
        let record = message.record(body, &sender);
        let deliver = async |_| {
            let event = json!({"Records": [record]});
            let is_accepted = self.invoke_batch(update, event, &Carrier::invocation("redriven")).await;
            is_accepted.then_some(())
        };
        self.connector.retry(MAX_ATTEMPTS, deliver).await;
    }
}
