//! Queues as SQS behaves: visibility timeout, receive count and dead-letter queue. A queue can deliver a message again at any time.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{caller::lock, clock::Clock};

/// Time after which a queue delivers a message again, as in template.yaml.
pub(crate) const VISIBILITY_TIMEOUT_MILLIS: u64 = 180_000;
/// Number of receives after which a message moves to the dead-letter queue, as in template.yaml.
pub(crate) const MAX_RECEIVE_COUNT: u32 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queue {
    Updates,
    DeadLetters,
    /// The updates that a redrive has sent again.
    Resent,
}

/// The queues of an account.
#[derive(Clone)]
pub(crate) struct Queues {
    clock: Clock,
    messages: Arc<Mutex<Vec<Message>>>,
    sent: Arc<Notify>,
}

/// Times are epoch milliseconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Message {
    pub(crate) id: String,
    /// `None` if it was deleted.
    queue: Option<Queue>,
    /// Index of its update, unless an operator has sent it.
    pub(crate) update: Option<usize>,
    /// `None` if the update determines it.
    pub(crate) body: Option<String>,
    pub(crate) sent: u64,
    first_received: Option<u64>,
    visible_from: u64,
    pub(crate) receive_count: u32,
    /// `true` if the next delivery looks like the first one.
    is_forgotten: bool,
    /// Receive count that the last delivery shows.
    shown_count: u32,
}

impl Queues {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            messages: Arc::default(),
            sent: Arc::default(),
        }
    }

    /// Sends a message. Its `own_id` is that of an update that has no other request id: it is sent once. Returns the id of a new
    /// message.
    pub(crate) fn send(
        &self,
        queue: Queue,
        update: Option<usize>,
        own_id: Option<&str>,
        body: Option<String>,
    ) -> Option<String> {
        let (now, mut messages) = (self.clock.millis(), lock(&self.messages));
        let id = own_id.map_or_else(|| format!("message-{}", messages.len()), str::to_owned);
        if messages.iter().any(|message| message.id == id) {
            return None;
        }
        messages.push(Message {
            id: id.clone(),
            queue: Some(queue),
            update,
            body,
            sent: now,
            visible_from: now,
            ..Message::default()
        });
        self.sent.notify_one();
        Some(id)
    }

    /// Waits until a message is sent, or delivered again.
    pub(crate) async fn sent(&self) {
        self.sent.notified().await;
    }

    /// Moves the visible updates that were received too often to the dead-letter queue, with these bodies. Returns their number.
    pub(crate) fn bury(&self, body: impl Fn(usize) -> String) -> usize {
        let (now, mut messages) = (self.clock.millis(), lock(&self.messages));
        let visible = messages
            .iter_mut()
            .filter(|message| message.is_visible(Queue::Updates, now));
        let dead = visible.filter(|message| message.receive_count >= MAX_RECEIVE_COUNT);
        dead.map(|message| {
            message.queue = Some(Queue::DeadLetters);
            message.body = message.update.map(&body);
        })
        .count()
    }

    /// Receives up to `count` messages, which are then hidden for some milliseconds.
    pub(crate) fn receive(&self, queue: Queue, count: usize, hidden: u64) -> Vec<Message> {
        let (now, mut messages) = (self.clock.millis(), lock(&self.messages));
        let visible = messages.iter_mut().filter(|message| message.is_visible(queue, now));
        let received = visible.take(count).map(|message| {
            message.receive_count += 1;
            message.shown_count = message.receive_count;
            if std::mem::take(&mut message.is_forgotten) {
                (message.shown_count, message.first_received) = (1, None);
            }
            message.first_received.get_or_insert(now);
            message.visible_from = now + hidden;
            message.clone()
        });
        received.collect()
    }

    /// Returns the messages of a queue, also the hidden ones.
    pub(crate) fn messages(&self, queue: Queue) -> Vec<Message> {
        let messages = lock(&self.messages);
        let of_queue = messages.iter().filter(|message| message.queue == Some(queue));
        of_queue.cloned().collect()
    }

    /// Returns the time at which the next update becomes visible.
    pub(crate) fn next_visible(&self) -> Option<u64> {
        let messages = lock(&self.messages);
        let updates = messages.iter().filter(|message| message.queue == Some(Queue::Updates));
        updates.map(|message| message.visible_from).min()
    }

    pub(crate) fn delete(&self, id: &str) {
        self.change(id, |message| message.queue = None);
    }

    /// Hides a message for some milliseconds.
    pub(crate) fn hide(&self, id: &str, millis: u64) {
        let until = self.clock.millis() + millis;
        self.change(id, |message| message.visible_from = until);
    }

    /// Delivers an update again from a time on, although it is being processed or was deleted, `as_first` with the receive count of
    /// a first delivery.
    pub(crate) fn deliver_again(&self, id: &str, from: u64, as_first: bool) {
        self.change(id, |message| {
            if message.queue != Some(Queue::DeadLetters) && message.receive_count < MAX_RECEIVE_COUNT {
                message.queue = Some(Queue::Updates);
                message.visible_from = from;
                message.is_forgotten = as_first;
            }
        });
        self.sent.notify_one();
    }

    /// Returns the id of a message of an update.
    pub(crate) fn message_of(&self, update: usize) -> Option<String> {
        let messages = lock(&self.messages);
        let is_of = |message: &&Message| message.update == Some(update) && message.body.is_none();
        messages.iter().find(is_of).map(|message| message.id.clone())
    }

    fn change(&self, id: &str, change: impl FnOnce(&mut Message)) {
        if let Some(message) = lock(&self.messages).iter_mut().find(|message| message.id == id) {
            change(message);
        }
    }
}

impl Message {
    fn is_visible(&self, queue: Queue, now: u64) -> bool {
        self.queue == Some(queue) && self.visible_from <= now
    }

    /// Returns the record of the event for a message with this body.
    pub(crate) fn record(&self, body: &str, sender: &str) -> Value {
        json!({
            "messageId": self.id, "eventSource": "aws:sqs", "body": body,
            "attributes": {
                "ApproximateReceiveCount": self.shown_count.to_string(),
                "ApproximateFirstReceiveTimestamp": self.first_received.unwrap_or(self.sent).to_string(),
                "SentTimestamp": self.sent.to_string(),
                "SenderId": sender,
            },
        })
    }
}
