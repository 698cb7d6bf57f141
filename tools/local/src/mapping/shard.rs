//! The state of one shard: which of its records are done.

use std::sync::{Mutex, PoisonError, atomic::AtomicU64};

use super::{
    counters::{Counters, RecordObserver},
    environment::{Environment, Mapping},
    position::{Positions as _, Tracker},
    record::Record,
};

/// A record in a lane, and its ticket from the tracker.
pub(super) type Entry = (u64, Record);

pub(super) struct Shard<'a, E: Environment> {
    pub(super) mapping: &'a Mapping<E>,
    pub(super) id: &'a str,
    tracker: Mutex<Tracker>,
}

impl<'a, E: Environment> Shard<'a, E> {
    pub(super) fn new(mapping: &'a Mapping<E>, id: &'a str) -> Self {
        let tracker = Mutex::default();
        Self { mapping, id, tracker }
    }

    pub(super) fn track(&self, record: &Record) -> u64 {
        self.tracker().add(record.sequence_number().clone())
    }

    pub(super) fn done(&self, tickets: impl IntoIterator<Item = u64>) {
        if let Some(position) = self.tracker().done(tickets) {
            // If the position cannot be saved, records may be delivered again, which is allowed.
            let _ = self.mapping.positions.save(self.id, &position);
        }
    }

    pub(super) fn count(&self, counter: impl Fn(&Counters) -> &AtomicU64, count: usize) {
        Counters::add(counter(&self.mapping.counters), count);
    }

    pub(super) fn notify(&self, call: impl FnOnce(&dyn RecordObserver)) {
        if let Some(observer) = &self.mapping.counters.observer {
            call(observer.as_ref());
        }
    }

    fn tracker(&self) -> std::sync::MutexGuard<'_, Tracker> {
        self.tracker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
