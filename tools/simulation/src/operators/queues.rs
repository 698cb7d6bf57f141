//! Queues, as the requests of an operator to SQS see them.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::{caller::lock, clock::Clock};

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Letter {
    pub(crate) id: String,
    pub(crate) body: String,
    /// Time at which it was sent, in milliseconds since 1970.
    pub(crate) sent_millis: u64,
    /// Only in a FIFO queue.
    pub(crate) group: Option<String>,
    pub(crate) deduplication_id: Option<String>,
}

/// The queues of an account, each with its URL. The id of a message is its receipt.
pub(crate) trait Queues: fmt::Debug + Send + Sync {
    /// Returns visible messages, which are then hidden for this duration.
    fn receive(&self, queue: &str, max: usize, hidden_for: Duration) -> Vec<Letter>;

    fn show_after(&self, queue: &str, id: &str, timeout: Duration);

    fn delete(&self, queue: &str, id: &str);

    /// Sends a message. Returns its id.
    fn send(&self, queue: &str, body: String, group: Option<String>, deduplication_id: Option<String>) -> String;

    /// Returns the queues whose dead-letter queue this is.
    fn sources(&self, dead_letters: &str) -> Vec<String>;
}

/// Queues in memory.
#[derive(Debug, Clone)]
pub(crate) struct MemoryQueues {
    clock: Clock,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    sent: u64,
    /// Messages of each queue, with the time from which each is visible, in milliseconds since 1970.
    messages: BTreeMap<String, Vec<(Letter, u64)>>,
    /// Source queues of each dead-letter queue.
    sources: BTreeMap<String, Vec<String>>,
}

impl MemoryQueues {
    /// Creates empty queues. `sources` are the source queues of each dead-letter queue.
    pub(crate) fn new(clock: Clock, sources: impl IntoIterator<Item = (String, Vec<String>)>) -> Self {
        let state = State {
            sources: sources.into_iter().collect(),
            ..State::default()
        };
        Self {
            clock,
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Adds a message that has an id.
    pub(crate) fn add(&self, queue: &str, letter: Letter) {
        let now = self.clock.millis();
        lock(&self.state)
            .messages
            .entry(queue.to_owned())
            .or_default()
            .push((letter, now));
    }

    /// Returns the messages of a queue, also the hidden ones.
    pub(crate) fn messages(&self, queue: &str) -> Vec<Letter> {
        let state = lock(&self.state);
        let messages = state.messages.get(queue).into_iter().flatten();
        messages.map(|(letter, _)| letter.clone()).collect()
    }
}

impl Queues for MemoryQueues {
    fn receive(&self, queue: &str, max: usize, hidden_for: Duration) -> Vec<Letter> {
        let (now, mut state) = (self.clock.millis(), lock(&self.state));
        let messages = state.messages.get_mut(queue).into_iter().flatten();
        let visible = messages.filter(|(_, visible_from)| *visible_from <= now).take(max);
        visible
            .map(|(letter, visible_from)| {
                *visible_from = now + millis(hidden_for);
                letter.clone()
            })
            .collect()
    }

    fn show_after(&self, queue: &str, id: &str, timeout: Duration) {
        let (now, mut state) = (self.clock.millis(), lock(&self.state));
        for (letter, visible_from) in state.messages.get_mut(queue).into_iter().flatten() {
            if letter.id == id {
                *visible_from = now + millis(timeout);
            }
        }
    }

    fn delete(&self, queue: &str, id: &str) {
        if let Some(messages) = lock(&self.state).messages.get_mut(queue) {
            messages.retain(|(letter, _)| letter.id != id);
        }
    }

    fn send(&self, queue: &str, body: String, group: Option<String>, deduplication_id: Option<String>) -> String {
        let (now, mut state) = (self.clock.millis(), lock(&self.state));
        state.sent += 1;
        let letter = Letter {
            id: format!("message-{}", state.sent),
            body,
            sent_millis: now,
            group,
            deduplication_id,
        };
        let id = letter.id.clone();
        state.messages.entry(queue.to_owned()).or_default().push((letter, now));
        id
    }

    fn sources(&self, dead_letters: &str) -> Vec<String> {
        lock(&self.state).sources.get(dead_letters).cloned().unwrap_or_default()
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
