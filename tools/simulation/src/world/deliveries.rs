//! How updates reach the writers: direct and asynchronous invocations, and a queue.

use std::time::Duration;

use fastrand::Rng;
use futures::stream::FuturesUnordered;
use serde_json::{Value, json};
use shared::domain::recorded_at::RecordedAt;
use tokio::time::{sleep, timeout};
use writer_fn::event::request::{self, Carrier};

use crate::{
    caller::{Author, Caller, MISDEPLOYED, lock},
    evidence::{Answer, UpstreamResponse},
    functions::{Death, LOST, NOT_INVOKED, WRITER_TIMEOUT, deadline, deployment, failed, limit, process},
    queue::{Message, Queue, VISIBILITY_TIMEOUT_MILLIS},
    schedule::{FaultKind, Jump, Origin, Point, Update},
    world::World,
};
use futures::StreamExt as _;

/// Maximum number of attempts of a client.
pub(crate) const MAX_ATTEMPTS: u32 = 6;
/// Delays in seconds before the attempts of an asynchronous invocation.
const ASYNCHRONOUS_DELAYS: [u64; 3] = [0, 60, 120];
/// Number of attempts of a throttled batch in one receive.
const THROTTLED_ATTEMPTS: u32 = 3;
const MAX_CONCURRENCY: usize = 3;

/// Errors that a repeated update does not resolve.
const FINAL: [&str; 2] = ["VersionConflict", "InvalidEvent"];

impl World {
    fn update(&self, index: usize) -> &Update {
        &self.schedule.updates[index]
    }

    /// Returns the event or message body that delivers an update. Every delivery has the same one.
    pub(crate) fn event(&self, index: usize) -> Value {
        let set = self.schedule.set_of(index);
        let update = self.update(index);
        let now = self.clock.millis();
        let sent = *lock(&self.seen).first_sent.entry(set[0]).or_insert(now);
        let sent = sent.saturating_add_signed(update.sent_offset);
        let content = |index: &usize| {
            let update = self.update(*index);
            let mut content = update.members.clone();
            content["ID"] = json!(update.entity);
            content
        };
        let mut event = content(&index);
        if set.len() > 1 {
            // The name of the set is the request id.
            let content = |index: &usize| without(content(index), "ChangeSet");
            event = json!({"Updates": set.iter().map(content).collect::<Vec<_>>()});
        }
        match update.origin {
            Origin::Message | Origin::Invocation => {}
            Origin::Client | Origin::LedgerClient => event["RequestId"] = json!(update.id),
            Origin::TimedClient => {
                event["RequestId"] = json!(update.id);
                event["RequestSentAt"] = json!(sent);
            }
            Origin::Event => {
                let time = RecordedAt::since_epoch(Duration::from_secs(sent / 1000)).to_string();
                let source = format!("source-of-{}", update.id);
                event = json!({"id": update.id, "detail-type": "t", "source": source, "time": time, "detail": event});
            }
        }
        event
    }

    /// Counts what is special about a delivery by a writer process.
    fn note(&self, updates: &[usize], process: usize) {
        let (connector, settings) = (&self.connector, &self.schedule.settings);
        for update in updates {
            let mut seen = lock(&self.seen);
            let count = seen.deliveries.entry(*update).or_default();
            *count += 1;
            if *count > 1 {
                connector.count("duplicate-delivery");
            }
        }
        let is_wrong = |update: &usize| self.update(*update).sent_offset != 0;
        let elapsed = self.clock.0.elapsed();
        let has_jumped = |jump: &Jump| jump.process == process && Duration::from_millis(jump.at) <= elapsed;
        for (occurs, name) in [
            (updates.iter().any(is_wrong), "sender-clock-wrong"),
            (settings.clock_offsets[process] != 0, "clock-offset"),
            (settings.clock_jumps.iter().any(has_jumped), "clock-jump"),
        ] {
            if occurs {
                connector.count(name);
            }
        }
    }

    /// Invokes one of the writer processes.
    async fn write(&self, updates: &[usize], mut event: Value, invocation: &Carrier) -> Result<Value, String> {
        let (connector, mutations) = (&self.connector, self.connector.mutations);
        mutations.event(&mut event);
        let is_of_ledger = |update: &usize| self.update(*update).origin == Origin::LedgerClient;
        let number = match self.schedule.settings.windows.iter().position(Option::is_none) {
            Some(ledger) if updates.iter().any(is_of_ledger) => ledger,
            ledger => connector.draw(|rng| rng.usize(..ledger.unwrap_or(self.writers.len()))),
        };
        self.note(updates, number);
        let fault = connector.fault(Point::InvokeWriter);
        if fault == Some(FaultKind::NotInvoked) {
            return Err(NOT_INVOKED.to_owned());
        }
        let limit = limit(fault, WRITER_TIMEOUT, connector);
        let (writer, number) = match deployment(fault) {
            0 => (&self.writers[number], number),
            other => (&self.misdeployed[other - 1], MISDEPLOYED),
        };
        let event = event.to_string();
        let handle = writer.handle(invocation, Some(&event), deadline(WRITER_TIMEOUT, mutations));
        let caller = Caller::of_process(Author::Writer(updates.to_vec()), Some(number));
        let ended = process(&caller, limit, handle).await;
        lock(&self.seen).overruns += u32::from(fault.is_none() && matches!(ended, Err(Death::TimedOut)));
        match ended {
            Ok(Ok(response)) if fault != Some(FaultKind::Redelivered) => {
                let mut response = serde_json::to_value(response).unwrap_or_default();
                mutations.failures("message-failures", &mut response);
                Ok(response)
            }
            Ok(Err(error)) if fault != Some(FaultKind::Redelivered) => Err(error.error_type().to_owned()),
            _ => Err(LOST.to_owned()),
        }
    }

    /// Invokes a writer with one update. Returns `true` if it responded, or a repetition cannot change its error.
    async fn invoke(&self, update: usize, event: Value, invocation: &Carrier) -> bool {
        let from = self.connector.stream.len();
        let set = self.schedule.set_of(update);
        let response = match self.write(&set, event, invocation).await {
            Ok(response) => {
                let outcome = |response: &Value, version: &Value| {
                    let outcome = response["Outcome"].as_str().unwrap_or_default().to_owned();
                    UpstreamResponse::Outcome(outcome, version["Version"].as_u64().unwrap_or_default())
                };
                let of_set = response["Updates"].as_array().into_iter().flatten();
                for (update, version) in set.into_iter().zip(of_set).filter(|(member, _)| *member != update) {
                    self.answer(update, outcome(&response, version), from);
                }
                outcome(&response, response["Updates"].get(0).unwrap_or(&response))
            }
            Err(error) if FINAL.contains(&&*error) => {
                if error == "InvalidEvent" {
                    let is_large = self.update(update).members.get("Large").is_some();
                    let name = if is_large { "item-too-large" } else { "missing-map" };
                    self.connector.count(name);
                }
                UpstreamResponse::Rejected(error)
            }
            Err(error) => {
                lock(&self.seen).errors.insert(update, error);
                return false;
            }
        };
        self.answer(update, response, from);
        true
    }

    /// Delivers a batch with one message. Returns `true` if it succeeded.
    pub(crate) async fn invoke_batch(&self, update: usize, event: Value, invocation: &Carrier) -> bool {
        let from = self.connector.stream.len();
        let response = self.write(&[update], event, invocation).await;
        let is_accepted = |response: &Value| response["batchItemFailures"].as_array().is_some_and(Vec::is_empty);
        let accepted = response.as_ref().is_ok_and(is_accepted);
        if accepted {
            self.answer(update, UpstreamResponse::Accepted, from);
        }
        accepted
    }

    /// A client sends an update until there is a response. Returns `true` if there was one.
    pub(crate) async fn direct(&self, update: usize) -> bool {
        let mut event = self.event(update);
        if matches!(self.update(update).origin, Origin::Message | Origin::Invocation) {
            // The client knows what identified it.
            event["RequestId"] = json!(self.update(update).id);
            event["RequestSentAt"] = json!(lock(&self.seen).first_sent.get(&update).copied());
        }
        let invoke = async |attempt| {
            let invocation = Carrier::invocation(&format!("direct-{update}-{attempt}"));
            let is_answered = self.invoke(update, event.clone(), &invocation).await;
            is_answered.then_some(())
        };
        self.connector.retry(MAX_ATTEMPTS, invoke).await.is_some()
    }

    /// A client sends another update with the request id of one that was applied.
    pub(crate) async fn send_reused(&self, update: usize, event: Value) {
        let invocation = Carrier::invocation("reused");
        if let Ok(response) = self.write(&[update], event, &invocation).await {
            lock(&self.seen).reused.push((update, response));
        }
    }

    /// Lambda invokes a writer up to three times, and then sends the event to the dead-letter queue.
    pub(crate) async fn asynchronous(&self, update: usize) {
        let event = self.event(update);
        let id = match self.update(update).origin {
            Origin::Invocation => self.update(update).id.clone(),
            _ => format!("asynchronous-{update}"),
        };
        let is_first = self.connector.mutations.is("redelivery");
        let trace = format!("Root=1-{:08x}-0", self.clock.millis() / 1000);
        for delay in ASYNCHRONOUS_DELAYS {
            if delay > 0 {
                sleep(Duration::from_secs(delay)).await;
            }
            // The time of the first attempt, as a later one reads it from its trace.
            let first = request::first_attempt(Some(&trace), Duration::from_millis(self.clock.millis()));
            let invocation = Carrier {
                first_delivered: first.filter(|_| !is_first),
                ..Carrier::invocation(&id)
            };
            if self.invoke(update, event.clone(), &invocation).await {
                return;
            }
        }
        self.connector.count("asynchronous-discarded");
        let now = self.clock.millis();
        let body = json!({
            "version": "1.0", "timestamp": RecordedAt::since_epoch(Duration::from_millis(now)).to_string(),
            "requestPayload": event, "requestContext": {"requestId": id, "condition": "RetriesExhausted"},
        });
        let (id, body) = (format!("letter-{id}"), body.to_string());
        self.queues
            .send(Queue::DeadLetters, Some(update), Some(&id), Some(body));
    }

    /// Sends an update to the queue.
    pub(crate) fn send(&self, update: usize) {
        let is_message = self.update(update).origin == Origin::Message;
        let own_id = is_message.then_some(self.update(update).id.as_str());
        let sent = self.queues.send(Queue::Updates, Some(update), own_id, None);
        if sent.is_some() {
            *lock(&self.queue_is_empty) = false;
        }
    }

    /// Delivers the messages of the queue, until it is dropped.
    pub(crate) async fn run_queue(&self) {
        let mut running = FuturesUnordered::new();
        loop {
            if running.len() >= MAX_CONCURRENCY {
                running.next().await;
            }
            for _ in 0..self.queues.bury(|update| self.event(update).to_string()) {
                self.connector.count("moved-to-dead-letter-queue");
            }
            let size = self.schedule.settings.queue_batch_size;
            let messages = self.queues.receive(Queue::Updates, size, VISIBILITY_TIMEOUT_MILLIS);
            if !messages.is_empty() {
                running.push(self.deliver_batch(messages));
                continue;
            }
            let wait = self.queues.next_visible().map_or(Duration::MAX, |time| {
                Duration::from_millis(time.saturating_sub(self.clock.millis()).max(1))
            });
            *lock(&self.queue_is_empty) = running.is_empty() && wait == Duration::MAX;
            tokio::select! {
                biased;
                Some(()) = running.next() => {}
                _ = timeout(wait, self.queues.sent()) => {}
            }
            *lock(&self.queue_is_empty) = false;
        }
    }

    async fn deliver_batch(&self, messages: Vec<Message>) {
        for _ in messages.iter().filter(|message| message.receive_count > 1) {
            self.connector.count("visibility-timeout");
        }
        let (hurried, again) = self.connector.draw(|rng| (rng.u8(..40) == 0, rng.u8(..40) == 0));
        let updates: Vec<_> = messages.iter().filter_map(|message| message.update).collect();
        if hurried {
            // The message becomes visible while the function processes it.
            self.connector.count("visibility-too-short");
            lock(&self.seen).overlapping.extend(updates.first());
            let from = self.clock.millis() + self.connector.draw(|rng| rng.u64(1..200));
            self.deliver_again(&messages[0].id, from, self.forgets());
        }
        let record = |(message, update): (&Message, &usize)| {
            let sender = format!("sender-of-{}", self.update(*update).id);
            message.record(&self.event(*update).to_string(), &sender)
        };
        let records: Vec<_> = messages.iter().zip(&updates).map(record).collect();
        let event = json!({"Records": records});
        let from = self.connector.stream.len();
        let write = async |_| {
            let result = self.write(&updates, event.clone(), &Carrier::invocation("batch")).await;
            (result.as_ref().err().map(String::as_str) != Some(NOT_INVOKED)).then_some(result)
        };
        let Some(Ok(response)) = self.connector.retry(THROTTLED_ATTEMPTS, write).await else {
            return;
        };
        let failed = failed(&response);
        let processed = messages.iter().zip(updates);
        for (message, update) in processed.filter(|(message, _)| !failed.contains(&message.id)) {
            self.answer(update, UpstreamResponse::Accepted, from);
            self.queues.delete(&message.id);
            if again {
                // The request that deletes it is lost.
                self.connector.count("message-not-deleted");
                self.deliver_again(&message.id, self.clock.millis() + 60_000, self.forgets());
            }
        }
    }

    /// Returns `true` if the queue forgets that it has delivered a message.
    fn forgets(&self) -> bool {
        self.schedule.settings.forgets_receives && self.connector.draw(Rng::bool)
    }

    fn deliver_again(&self, message: &str, from: u64, as_first: bool) {
        if as_first {
            self.connector.count("received-as-first");
        }
        self.queues.deliver_again(message, from, as_first);
    }

    /// Delivers the message of an update again.
    pub(crate) fn receive_again(&self, update: usize, as_first: bool) {
        if let Some(message) = self.queues.message_of(update) {
            *lock(&self.queue_is_empty) = false;
            self.deliver_again(&message, self.clock.millis(), as_first);
        }
    }

    fn answer(&self, update: usize, response: UpstreamResponse, from: usize) {
        let to = self.connector.stream.len();
        lock(&self.seen).answers.push(Answer {
            update,
            response,
            from,
            to,
        });
    }
}

/// Returns an object without a member.
fn without(mut object: Value, name: &str) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.remove(name);
    }
    object
}
