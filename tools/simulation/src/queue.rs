//! A queue as SQS behaves: visibility timeout, receive count and dead-letter queue. It can deliver a message again at any time.

use std::sync::Mutex;

use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::{caller::lock, operators::services::Letter};

/// Time after which a queue delivers a message again, as in template.yaml.
pub(crate) const VISIBILITY_TIMEOUT_MILLIS: u64 = 180_000;
/// Number of receives after which a message moves to the dead-letter queue, as in template.yaml.
pub(crate) const MAX_RECEIVE_COUNT: u32 = 5;

#[derive(Default)]
pub(crate) struct Queue {
    messages: Mutex<Vec<Message>>,
    pub(crate) sent: Notify,
}

/// Times are epoch milliseconds.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) id: String,
    pub(crate) update: usize,
    pub(crate) sent: u64,
    first_received: Option<u64>,
    visible_from: u64,
    pub(crate) receive_count: u32,
    /// `true` if the next delivery looks like the first one.
    is_forgotten: bool,
    /// Receive count that the last delivery shows.
    shown_count: u32,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Queued,
    Deleted,
    /// In the dead-letter queue.
    Dead,
}

/// Result of a receive request.
pub(crate) enum Received {
    Messages(Vec<Message>),
    /// The next message becomes visible at this time.
    Later(u64),
    Empty,
}

/// An update that was given up: a message in a dead-letter queue.
#[derive(Debug, Clone)]
pub(crate) struct DeadLetter {
    pub(crate) update: usize,
    pub(crate) letter: Letter,
}

impl Queue {
    /// Sends an update. `own_id` is the message id of an update that has no other request id: it is sent once.
    /// Returns `true` if there is a new message.
    pub(crate) fn send(&self, update: usize, own_id: Option<&str>, now: u64) -> bool {
        let mut messages = lock(&self.messages);
        let id = own_id.map_or_else(|| format!("message-{}", messages.len()), str::to_owned);
        if messages.iter().any(|message| message.id == id) {
            return false;
        }
        messages.push(Message {
            id,
            update,
            sent: now,
            first_received: None,
            visible_from: now,
            receive_count: 0,
            is_forgotten: false,
            shown_count: 0,
            state: State::Queued,
        });
        self.sent.notify_one();
        true
    }

    /// Receives up to `count` messages. Returns also the number of messages that moved to the dead-letter queue.
    pub(crate) fn receive(&self, count: usize, now: u64) -> (Received, usize) {
        let mut messages = lock(&self.messages);
        let mut dead = 0;
        let is_visible = |message: &&mut Message| message.state == State::Queued && message.visible_from <= now;
        for message in messages.iter_mut().filter(is_visible) {
            if message.receive_count >= MAX_RECEIVE_COUNT {
                message.state = State::Dead;
                dead += 1;
            }
        }
        let mut received = Vec::new();
        for message in messages.iter_mut().filter(is_visible).take(count) {
            message.receive_count += 1;
            message.shown_count = message.receive_count;
            if std::mem::take(&mut message.is_forgotten) {
                (message.shown_count, message.first_received) = (1, None);
            }
            message.first_received.get_or_insert(now);
            message.visible_from = now + VISIBILITY_TIMEOUT_MILLIS;
            received.push(message.clone());
        }
        if !received.is_empty() {
            return (Received::Messages(received), dead);
        }
        let queued = messages.iter().filter(|message| message.state == State::Queued);
        let next = queued.map(|message| message.visible_from).min();
        (next.map_or(Received::Empty, Received::Later), dead)
    }

    pub(crate) fn delete(&self, id: &str) {
        self.change(id, |message| message.state = State::Deleted);
    }

    /// Delivers a message again from a time on, although it is being processed or was deleted, `as_first` with the receive count of
    /// a first delivery.
    pub(crate) fn deliver_again(&self, id: &str, from: u64, as_first: bool) {
        self.change(id, |message| {
            if message.state != State::Dead && message.receive_count < MAX_RECEIVE_COUNT {
                message.state = State::Queued;
                message.visible_from = from;
                message.is_forgotten = as_first;
            }
        });
        self.sent.notify_one();
    }

    /// Returns the id of a message of an update.
    pub(crate) fn message_of(&self, update: usize) -> Option<String> {
        let messages = lock(&self.messages);
        let of_update = messages.iter().find(|message| message.update == update);
        of_update.map(|message| message.id.clone())
    }

    /// Removes the messages of the dead-letter queue and returns their updates.
    pub(crate) fn take_dead(&self) -> Vec<Message> {
        let mut messages = lock(&self.messages);
        let (dead, rest) = messages.drain(..).partition(|message| message.state == State::Dead);
        *messages = rest;
        dead
    }

    fn change(&self, id: &str, change: impl FnOnce(&mut Message)) {
        if let Some(message) = lock(&self.messages).iter_mut().find(|message| message.id == id) {
            change(message);
        }
    }
}

impl Message {
    /// Returns the record of the event for a message with this body.
    pub(crate) fn record(&self, body: &Value, sender: &str) -> Value {
        json!({
            "messageId": self.id, "eventSource": "aws:sqs", "body": body.to_string(),
            "attributes": {
                "ApproximateReceiveCount": self.shown_count.to_string(),
                "ApproximateFirstReceiveTimestamp": self.first_received.unwrap_or(self.sent).to_string(),
                "SentTimestamp": self.sent.to_string(),
                "SenderId": sender,
            },
        })
    }
}
