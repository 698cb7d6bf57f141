//! How updates reach the writers: direct and asynchronous invocations, and a queue.

use std::time::Duration;

use fastrand::Rng;
use futures::{StreamExt as _, stream::FuturesUnordered};
use serde_json::{Value, json};
use shared::domain::{recorded_at::RecordedAt, time::EpochMillis};
use tokio::time::{sleep, timeout};
use writer_fn::event::request::{self, Carrier};

use crate::{
    caller::{Author, Caller, MISDEPLOYED, lock},
    clock::Jump,
    evidence::{Answer, UpstreamResponse},
    functions::{Ended, WRITER_TIMEOUT, WriterResult, deadline, process},
    operators::services::Letter,
    queue::{DeadLetter, Message, Received},
    schedule::{FaultKind, Origin, Point},
    upstream::Upstream,
};

/// Maximum number of attempts of a client.
pub(crate) const MAX_ATTEMPTS: u32 = 6;
/// Delays before the second and the third attempt of an asynchronous invocation.
const ASYNCHRONOUS_DELAYS: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(120)];
/// Number of attempts of a throttled batch in one receive.
const THROTTLED_ATTEMPTS: u32 = 3;
const MAX_CONCURRENCY: usize = 3;

/// Errors that a repeated update does not resolve.
fn is_final(error: &str) -> bool {
    ["VersionConflict", "InvalidEvent"].contains(&error)
}

impl Upstream<'_> {
    /// Returns the event or message body that delivers an update. Every delivery has the same one.
    pub(crate) fn event(&self, index: usize) -> Value {
        let update = &self.schedule.updates[index];
        let sent = *lock(&self.first_sent)
            .entry(index)
            .or_insert_with(|| self.clock.millis());
        let mut event = update.members.clone();
        event["ID"] = json!(update.entity);
        match update.origin {
            Origin::Message | Origin::Invocation => {}
            Origin::Client => event["RequestId"] = json!(update.id),
            Origin::TimedClient => {
                event["RequestId"] = json!(update.id);
                event["RequestSentAt"] = json!(sent.saturating_add_signed(update.sent_offset));
            }
            Origin::Event => {
                let sent = sent.saturating_add_signed(update.sent_offset);
                let time = RecordedAt::since_epoch(Duration::from_secs(sent / 1000)).to_string();
                let source = format!("source-of-{}", update.id);
                event = json!({"id": update.id, "detail-type": "t", "source": source, "time": time, "detail": event});
            }
        }
        event
    }

    /// Invokes one of the writer processes.
    async fn write(&self, updates: &[usize], mut event: Value, invocation: &Carrier) -> WriterResult {
        for update in updates {
            let mut seen = lock(&self.seen);
            let count = seen.deliveries.entry(*update).or_default();
            *count += 1;
            if *count > 1 {
                self.connector.count("duplicate-delivery");
            }
        }
        if updates
            .iter()
            .any(|update| self.schedule.updates[*update].sent_offset != 0)
        {
            self.connector.count("sender-clock-wrong");
        }
        if let Some(mutation) = self.connector.mutation() {
            mutation.event(&mut event);
        }
        let writers = &self.writers;
        let writer = self.connector.draw(|rng| rng.usize(..writers.len()));
        if self.schedule.settings.clock_offsets[writer] != 0 {
            self.connector.count("clock-offset");
        }
        let elapsed = self.clock.0.elapsed();
        let has_jumped = |jump: &Jump| jump.process == writer && Duration::from_millis(jump.at) <= elapsed;
        if self.schedule.settings.clock_jumps.iter().any(has_jumped) {
            self.connector.count("clock-jump");
        }
        let result = self.run_writer(writer, updates, &event.to_string(), invocation).await;
        let is_failed = |response: &Value| {
            response["batchItemFailures"]
                .as_array()
                .is_some_and(|all| !all.is_empty())
        };
        let is_done = matches!(&result, WriterResult::Response(response) if !is_failed(response));
        lock(&self.seen).failed_invocations += u64::from(!is_done);
        result
    }

    /// Delivers an event with these updates in an invocation of a writer process.
    async fn run_writer(&self, number: usize, updates: &[usize], event: &str, invocation: &Carrier) -> WriterResult {
        let connector = &self.connector;
        let fault = connector.fault(Point::InvokeWriter);
        if let Some(kind) = fault {
            connector.count(&kind.name());
        }
        let limit = match fault {
            Some(FaultKind::NotInvoked) => return WriterResult::Throttled,
            Some(FaultKind::FunctionTimeOut) => connector.draw(|rng| Duration::from_millis(rng.u64(1..60))),
            _ => WRITER_TIMEOUT,
        };
        let mutation = connector.mutation();
        let deadline = deadline(WRITER_TIMEOUT, mutation);
        let (writer, number) = match self.misdeployed.of(fault) {
            Some(misdeployed) => (misdeployed, MISDEPLOYED),
            None => (&self.writers[number], number),
        };
        let handle = writer.handle_from(invocation, Some(event), deadline);
        let caller = Caller::of_process(Author::Writer(updates.to_vec()), Some(number));
        match process(&caller, limit, handle).await {
            Ended::TimedOut if fault.is_none() => {
                lock(&self.seen).overruns += 1;
                WriterResult::Lost
            }
            Ended::Died | Ended::TimedOut => WriterResult::Lost,
            _ if fault == Some(FaultKind::Redelivered) => WriterResult::Lost,
            Ended::Returned(Ok(response)) => {
                let mut response = serde_json::to_value(response).unwrap_or_default();
                if let Some(mutation) = mutation {
                    mutation.writer_response(&mut response);
                }
                WriterResult::Response(response)
            }
            Ended::Returned(Err(error)) => WriterResult::Error(error.error_type().to_owned()),
        }
    }

    /// Invokes a writer with one update. Returns `true` if it responded, or a repetition cannot change its error.
    async fn invoke(&self, update: usize, event: Value, invocation: &Carrier) -> bool {
        let from = self.connector.stream().len();
        let response = match self.write(&[update], event, invocation).await {
            WriterResult::Response(response) => {
                let outcome = response["Outcome"].as_str().unwrap_or_default().to_owned();
                UpstreamResponse::Outcome(outcome, response["Version"].as_u64().unwrap_or_default())
            }
            WriterResult::Error(error) if is_final(&error) => {
                if error == "InvalidEvent" {
                    let is_large = self.schedule.updates[update].members.get("Large").is_some();
                    self.connector
                        .count(if is_large { "item-too-large" } else { "missing-map" });
                }
                UpstreamResponse::Rejected(error)
            }
            WriterResult::Error(error) => {
                lock(&self.errors).insert(update, error);
                return false;
            }
            WriterResult::Lost | WriterResult::Throttled => return false,
        };
        self.answer(update, response, from);
        true
    }

    /// Delivers a batch with one message. Returns `true` if it succeeded.
    pub(crate) async fn invoke_batch(&self, update: usize, event: Value, invocation: &Carrier) -> bool {
        let from = self.connector.stream().len();
        let response = self.write(&[update], event, invocation).await;
        let is_accepted = |response: &Value| response["batchItemFailures"].as_array().is_some_and(Vec::is_empty);
        let accepted = matches!(&response, WriterResult::Response(response) if is_accepted(response));
        if accepted {
            self.answer(update, UpstreamResponse::Accepted, from);
        }
        accepted
    }

    /// A client sends an update until there is a response. Returns `true` if there was one.
    pub(crate) async fn direct(&self, update: usize) -> bool {
        let mut event = self.event(update);
        if matches!(
            self.schedule.updates[update].origin,
            Origin::Message | Origin::Invocation
        ) {
            // The client knows what identified it.
            event["RequestId"] = json!(self.schedule.updates[update].id);
            event["RequestSentAt"] = json!(lock(&self.first_sent).get(&update).copied());
        }
        for attempt in 0..MAX_ATTEMPTS {
            self.connector.back_off(attempt).await;
            let invocation = Carrier::invocation(&format!("direct-{update}-{attempt}"));
            if self.invoke(update, event.clone(), &invocation).await {
                return true;
            }
        }
        false
    }

    /// A client sends another update with the request id of one that was applied.
    pub(crate) async fn send_reused(&self, update: usize, event: Value) {
        let invocation = Carrier::invocation("reused");
        if let WriterResult::Response(response) = self.write(&[update], event, &invocation).await {
            lock(&self.seen).reused.push((update, response));
        }
    }

    /// Lambda invokes a writer up to three times, and then sends the event to the dead-letter queue.
    pub(crate) async fn asynchronous(&self, update: usize) {
        let event = self.event(update);
        let id = match self.schedule.updates[update].origin {
            Origin::Invocation => self.schedule.updates[update].id.clone(),
            _ => format!("asynchronous-{update}"),
        };
        let started = self.clock.millis() / 1000;
        for attempt in 0..=ASYNCHRONOUS_DELAYS.len() {
            if attempt > 0 {
                sleep(ASYNCHRONOUS_DELAYS[attempt - 1]).await;
            }
            let first = self.first_attempt(started);
            let mutation = self.connector.mutation();
            let invocation = Carrier {
                first_delivered: mutation.map_or(first, |mutation| mutation.first_attempt(first)),
                ..Carrier::invocation(&id)
            };
            if self.invoke(update, event.clone(), &invocation).await {
                return;
            }
        }
        self.connector.count("asynchronous-discarded");
        let recorded_at = RecordedAt::since_epoch(Duration::from_millis(self.clock.millis())).to_string();
        let body = json!({
            "version": "1.0", "timestamp": recorded_at, "requestPayload": event,
            "requestContext": {"requestId": id, "condition": "RetriesExhausted"},
        });
        let letter = Letter {
            id: format!("letter-{id}"),
            body: body.to_string(),
            sent_millis: self.clock.millis(),
        };
        lock(&self.letters).push(DeadLetter { update, letter });
    }

    /// Returns the time of the first attempt, as a later one reads it from its trace.
    fn first_attempt(&self, started: u64) -> Option<EpochMillis> {
        let trace = format!("Root=1-{started:08x}-0");
        request::first_attempt(Some(&trace), Duration::from_millis(self.clock.millis()))
    }

    /// Sends an update to the queue.
    pub(crate) fn send(&self, update: usize) {
        let own_id = match self.schedule.updates[update].origin {
            Origin::Message => Some(self.schedule.updates[update].id.as_str()),
            _ => None,
        };
        if self.queue.send(update, own_id, self.clock.millis()) {
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
            let now = self.clock.millis();
            let (received, dead) = self.queue.receive(self.schedule.settings.queue_batch_size, now);
            for _ in 0..dead {
                self.connector.count("moved-to-dead-letter-queue");
            }
            let wait = match received {
                Received::Messages(messages) => {
                    running.push(self.deliver_batch(messages));
                    continue;
                }
                Received::Later(time) => Duration::from_millis(time.saturating_sub(now).max(1)),
                Received::Empty => Duration::MAX,
            };
            *lock(&self.queue_is_empty) = running.is_empty() && wait == Duration::MAX;
            tokio::select! {
                biased;
                Some(()) = running.next() => {}
                _ = timeout(wait, self.queue.sent.notified()) => {}
            }
            *lock(&self.queue_is_empty) = false;
        }
    }

    async fn deliver_batch(&self, messages: Vec<Message>) {
        for _ in messages.iter().filter(|message| message.receive_count > 1) {
            self.connector.count("visibility-timeout");
        }
        let (hurried, again) = self.connector.draw(|rng| (rng.u8(..40) == 0, rng.u8(..40) == 0));
        if hurried {
            // The message becomes visible while the function processes it.
            self.connector.count("visibility-too-short");
            lock(&self.seen).overlapping.insert(messages[0].update);
            let from = self.clock.millis() + self.connector.draw(|rng| rng.u64(1..200));
            self.deliver_again(&messages[0].id, from, self.forgets());
        }
        let updates: Vec<_> = messages.iter().map(|message| message.update).collect();
        let records: Vec<_> = (messages.iter())
            .map(|message| {
                let sender = format!("sender-of-{}", self.schedule.updates[message.update].id);
                message.record(&self.event(message.update), &sender)
            })
            .collect();
        let from = self.connector.stream().len();
        let mut response = WriterResult::Throttled;
        for attempt in 0..THROTTLED_ATTEMPTS {
            self.connector.back_off(attempt).await;
            let event = json!({"Records": records});
            response = self.write(&updates, event, &Carrier::invocation("batch")).await;
            if !matches!(response, WriterResult::Throttled) {
                break;
            }
        }
        let WriterResult::Response(response) = response else {
            return;
        };
        let failures = response["batchItemFailures"].as_array().cloned().unwrap_or_default();
        let is_failed = |id: &str| failures.iter().any(|failure| failure["itemIdentifier"] == id);
        for message in messages.iter().filter(|message| !is_failed(&message.id)) {
            self.answer(message.update, UpstreamResponse::Accepted, from);
            self.queue.delete(&message.id);
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
        self.queue.deliver_again(message, from, as_first);
    }

    /// Delivers the message of an update again.
    pub(crate) fn receive_again(&self, update: usize, as_first: bool) {
        if let Some(message) = self.queue.message_of(update) {
            *lock(&self.queue_is_empty) = false;
            self.deliver_again(&message, self.clock.millis(), as_first);
        }
    }

    /// Removes the updates from the dead-letter queues.
    pub(crate) fn take_letters(&self) -> Vec<DeadLetter> {
        let dead = self.queue.take_dead().into_iter().map(|message| DeadLetter {
            update: message.update,
            letter: Letter {
                body: self.event(message.update).to_string(),
                sent_millis: message.sent,
                id: message.id,
            },
        });
        let letters = std::mem::take(&mut *lock(&self.letters));
        dead.chain(letters).collect()
    }

    fn answer(&self, update: usize, response: UpstreamResponse, from: usize) {
        let to = self.connector.stream().len();
        lock(&self.seen).answers.push(Answer {
            update,
            response,
            from,
            to,
        });
    }
}
