//! Senders of updates: a queue, asynchronous invocations, and direct callers.

use std::time::Duration;

use local::mapping::Clock as _;
use serde_json::{Value, json};
use shared::{clock::Deadline, domain::time::EpochMillis};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use writer_fn::{Writer, request::Carrier};

use super::settings::Stack;
use crate::clock::Clock;

/// Waits before the second and third attempt of an asynchronous invocation, see
/// [Error handling](https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html).
const ASYNCHRONOUS_RETRIES: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(120)];

/// Way in which an update arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Queue,
    Asynchronous,
    Direct,
}

impl Way {
    /// Returns the way of an update: one after the other.
    pub(super) fn of(update: usize) -> Self {
        [Self::Queue, Self::Asynchronous, Self::Direct][update % 3]
    }
}

/// Final knowledge of the sender of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Acknowledged,
    DeadLetter,
    /// The caller received an error.
    Error,
}

pub(super) struct Senders<'a> {
    pub(super) writer: &'a Writer,
    pub(super) stack: &'a Stack,
    pub(super) clock: Clock,
}

impl Senders<'_> {
    /// Sends an update at a time. Its id is that of the message or the invocation, or its `RequestId`.
    pub(super) async fn send(&self, at: Instant, id: &str, mut update: Value) -> (Fate, u64) {
        sleep_until(at).await;
        let way = Way::of(id.parse().unwrap_or_default());
        let mut failed = 0;
        let fate = match way {
            Way::Queue => self.queue(id, &update, &mut failed).await,
            Way::Asynchronous => self.asynchronous(id, &update, &mut failed).await,
            Way::Direct => {
                update["RequestId"] = json!(id);
                update["RequestSentAt"] = json!(self.clock.millis());
                let response = self.invoke(&Carrier::invocation(id), &update).await;
                failed += u64::from(response.is_none());
                response.map_or(Fate::Error, |_| Fate::Acknowledged)
            }
        };
        (fate, failed)
    }

    async fn queue(&self, id: &str, update: &Value, failed: &mut u64) -> Fate {
        let sent = self.clock.millis();
        for receive in 1..=self.stack.max_receives {
            let received = Instant::now();
            let event = json!({"Records": [{
                "messageId": id, "eventSource": "aws:sqs", "body": update.to_string(),
                "attributes": {
                    "ApproximateReceiveCount": receive.to_string(),
                    "ApproximateFirstReceiveTimestamp": sent.to_string(),
                    "SentTimestamp": sent.to_string(),
                    "SenderId": "sender",
                },
            }]});
            let response = self.invoke(&Carrier::invocation("invocation"), &event).await;
            let failures = response.map(|response| response["batchItemFailures"].clone());
            if failures.is_some_and(|failures| failures.as_array().is_none_or(Vec::is_empty)) {
                return Fate::Acknowledged;
            }
            *failed += 1;
            sleep_until(received + self.stack.visibility_timeout).await;
        }
        Fate::DeadLetter
    }

    async fn asynchronous(&self, id: &str, update: &Value, failed: &mut u64) -> Fate {
        let began = i64::try_from(self.clock.now().as_millis()).unwrap_or_default();
        let mut carrier = Carrier::invocation(id);
        for wait in [Duration::ZERO].into_iter().chain(ASYNCHRONOUS_RETRIES) {
            sleep(wait).await;
            if self.invoke(&carrier, update).await.is_some() {
                return Fate::Acknowledged;
            }
            *failed += 1;
            // As the trace of a later attempt shows it.
            carrier.first_delivered = Some(EpochMillis::new(began));
        }
        Fate::DeadLetter
    }

    /// Returns the response of writer-fn, `None` after an error or a timeout.
    async fn invoke(&self, carrier: &Carrier, event: &Value) -> Option<Value> {
        let event = event.to_string();
        let limit = self.stack.writer_timeout;
        let handle = self.writer.handle_from(carrier, Some(&event), Deadline::after(limit));
        let response = timeout(limit, handle).await.ok()?.ok()?;
        serde_json::to_value(response).ok()
    }
}
