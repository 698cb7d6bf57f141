//! The commands that operators run, beside the traffic, after the faults, and on a copy of the table: the functions refuse it, and
//! `vzero --table COPY admin prune` and `purge --yes` change no item of the original.

use std::time::Duration;

use operations::{
    error::is_mismatch, failures::source::Source, progress::Silent, prune::EntityPrune, purge::Purge,
    rate_limit::RateLimiter,
};
use serde_json::{Value, json};
use shared::{clock::Deadline, config::Config, dynamodb::Store};
use stream_fn::HistoryWriter;
use writer_fn::{Writer, event::request::Carrier};

use crate::{
    caller::{Author, Caller, OF_COPY, lock},
    error::SimulationError,
    faults::name,
    functions::process,
    operators::{
        COMMAND_TIMEOUT, CommandEnd,
        commands::{create_source, keep_newest},
        is_done,
        services::DEAD_LETTERS,
    },
    queue::{Message, Queue},
    schedule::{BACKFILLED, Command, HISTORY, TABLE, Update},
    setup::{config, dynamodb_client},
    world::{World, deliveries::MAX_ATTEMPTS, latest},
};

/// Maximum number of runs of a command that fails.
const MAX_RUNS: u32 = 4;
/// History table of a deployment that was rolled back.
const ROLLED_BACK: &str = "RolledBack";
/// Table that was restored from a backup of the versioned table.
const COPY: &str = "Copy";
/// Duration of an invocation on it.
const LIMIT: Duration = Duration::from_secs(30);

impl World {
    /// Runs a command of an operator, who repeats it while it fails.
    pub(crate) async fn command(&self, command: &Command) {
        let run = async |_| is_done(&Box::pin(self.run_command(command)).await).then_some(());
        let done = self.connector.retry(MAX_RUNS, run).await;
        if done.is_some() {
            // It guarantees its effect: the checks compare it.
            let records = self.connector.stream.len();
            lock(&self.seen).done.push((command.clone(), records));
        }
    }

    async fn run_command(&self, command: &Command) -> CommandEnd {
        self.connector.count(&name(command));
        match command {
            Command::Backfill(number) => {
                let item = json!({"PK": {"S": format!("{BACKFILLED}{number}")}, "A": {"N": number.to_string()}});
                // It exists if the command is repeated.
                let _ = create_source(&self.connector, &format!("Source{number}"), &[item]);
            }
            Command::UseCopy(entity) => return self.use_copy(entity).await,
            Command::Undo(undo) => return self.undo(undo).await,
            _ => {}
        }
        self.operators.command(command, &self.documents()).await
    }

    /// Lets the functions and an operator use a copy of the table, and notes what they did that is not allowed.
    async fn use_copy(&self, entity: &str) -> CommandEnd {
        // It exists if the command is repeated.
        if self.connector.create_table(COPY, false).is_ok() {
            for item in self.connector.scan(TABLE).unwrap_or_default() {
                let _ = self.connector.put(COPY, &item);
            }
        }
        let history = || self.connector.scan(HISTORY).unwrap_or_default();
        let before = history();
        self.invoke_on_copy(entity).await;
        let used = self.prune_and_purge_copy(entity).await;
        let after = history();
        for item in before.iter().filter(|item| !after.contains(item)) {
            self.misuse(&format!("{} of production was changed", item["SK"]));
        }
        used
    }

    fn misuse(&self, what: &str) {
        let mut seen = lock(&self.seen);
        seen.found.add::<1>(format!("a copy of the table: {what}"));
    }

    /// Invokes a function on the copy, which it has to refuse.
    async fn invoke_refused<T, E>(&self, author: Author, handle: impl Future<Output = Result<T, E>>, misuse: &str) {
        let caller = Caller::of_process(author, Some(OF_COPY));
        if matches!(process(&caller, LIMIT, handle).await, Ok(Ok(_))) {
            self.misuse(misuse);
        }
    }

    /// Invokes both functions, with the layout of the original.
    async fn invoke_on_copy(&self, entity: &str) {
        let Ok(config) = config(&self.schedule.settings) else {
            return;
        };
        let table = COPY.to_owned();
        let (client, config) = (dynamodb_client(&self.connector), Config { table, ..config });
        let writer = Writer::new(client.clone(), &config);
        let event = json!({"ID": entity, "Copy": 1}).to_string();
        let carrier = Carrier::invocation("copy");
        let update = writer.handle(&carrier, Some(&event), Deadline::after(LIMIT));
        self.invoke_refused(Author::Writer(Vec::new()), update, "writer-fn applied an update")
            .await;
        let (keys, mut image) = (latest(entity), latest(entity));
        image["Latest"] = json!({"N": "1000"});
        let record = json!({"eventName": "MODIFY", "dynamodb": {
            "Keys": keys, "NewImage": image, "SequenceNumber": "1", "ApproximateCreationDateTime": 1,
        }});
        let event = json!({"Records": [record]}).to_string();
        let writer = HistoryWriter::new(client, &config);
        let stored = writer.handle(&event, "copy", Deadline::after(LIMIT));
        self.invoke_refused(Author::StreamFunction, stored, "stream-fn processed a record")
            .await;
    }

    /// Prunes and purges an entity. It is done also if the table is refused because it is a copy.
    async fn prune_and_purge_copy(&self, entity: &str) -> CommandEnd {
        let used = async {
            let copy = Store::new(dynamodb_client(&self.connector), COPY, self.digits);
            let layout = match copy.stored_layout().await {
                Err(error) if is_mismatch(&error) => return Ok(()),
                layout => layout?,
            };
            let copy = copy.with_history(layout.and_then(|layout| layout.history));
            let options = keep_newest(1, Duration::ZERO);
            if let Ok(prune) = EntityPrune::plan(&copy, entity, options, &RateLimiter::unlimited()).await {
                prune.run(&Silent).await?;
            }
            Purge::of(&copy, entity).await?.run(Duration::ZERO, |_| {}).await
        };
        let caller = Caller::of_process(Author::Operator, Some(OF_COPY));
        process(&caller, COMMAND_TIMEOUT, used).await.ok()
    }

    /// Stores the layout of the first deployment, as writer-fn does at its start.
    pub(crate) async fn claim_layout(&self) -> Result<(), SimulationError> {
        if !self.schedule.settings.rolled_back {
            let _ = self.store.claim_layout().await;
            return Ok(());
        }
        self.connector.create_table(ROLLED_BACK, false)?;
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
            operators.command(&Command::Redrive, &documents).await;
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
