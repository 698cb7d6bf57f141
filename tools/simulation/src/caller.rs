//! The program that sends a request: a writer, stream-fn or an operator's command, in its own task.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use shared::domain::{entity::RESERVED, keys::LATEST_KEY};
use tokio::sync::Notify;

use crate::requests::is_version_key;

/// Number of the process of a function that is deployed with another layout than that of the table.
pub(crate) const MISDEPLOYED: usize = 1000;
/// Number of the processes that use a copy of the table.
pub(crate) const OF_COPY: usize = 1001;
/// Number of the processes that undo.
pub(crate) const OF_UNDO: usize = 1002;

tokio::task_local! {
    pub(crate) static CALLER: Arc<Caller>;
}

/// Author of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Author {
    /// A writer, in the delivery of these updates.
    Writer(Vec<usize>),
    StreamFunction,
    /// An instance of seal-fn.
    Sealer,
    /// A command of an operator, other than a redrive.
    Operator,
    /// A redrive.
    Redrive,
    /// Another program, an operator without a command, or DynamoDB when an item expired.
    Other,
}

#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) author: Author,
    /// Number of the writer process.
    pub(crate) process: Option<usize>,
    pub(crate) kill: Notify,
    /// Partition keys and sort keys of the items for which faults hinder its requests. `None` if they hinder everything.
    hindered: Mutex<Option<HashSet<(String, String)>>>,
}

impl Caller {
    pub(crate) fn new(author: Author) -> Arc<Self> {
        Self::of_process(author, None)
    }

    /// Creates the caller of an invocation of this writer process.
    pub(crate) fn of_process(author: Author, process: Option<usize>) -> Arc<Self> {
        Arc::new(Self {
            author,
            process,
            kill: Notify::new(),
            hindered: Mutex::new(Some(HashSet::new())),
        })
    }

    /// Returns the sender of the current task's requests, `None` for a reader or the mapping.
    pub(crate) fn current() -> Option<Arc<Self>> {
        CALLER.try_with(Arc::clone).ok()
    }

    /// Returns `true` if the caller is a writer that delivers an update.
    pub(crate) fn delivers(&self, update: usize) -> bool {
        matches!(&self.author, Author::Writer(updates) if updates.contains(&update))
    }

    pub(crate) fn is_writer(&self) -> bool {
        matches!(self.author, Author::Writer(_))
    }

    pub(crate) fn is_stream_function(&self) -> bool {
        self.author == Author::StreamFunction
    }

    pub(crate) fn is_sealer(&self) -> bool {
        self.author == Author::Sealer
    }

    pub(crate) fn is_operator(&self) -> bool {
        matches!(self.author, Author::Operator | Author::Redrive)
    }

    pub(crate) fn is_undo(&self) -> bool {
        self.process == Some(OF_UNDO)
    }

    /// Notes that a fault hinders requests for items with these partition keys and sort keys.
    pub(crate) fn hinder(&self, keys: Vec<(String, String)>) {
        if let Some(hindered) = &mut *lock(&self.hindered) {
            hindered.extend(keys);
        }
    }

    /// Notes that a fault hinders everything that the caller does.
    pub(crate) fn hinder_all(&self) {
        *lock(&self.hindered) = None;
    }

    /// Returns `true` if a fault hinders the put of a version item. A fault of a request for another item of the entity, such as
    /// its purge marker, hinders all of its versions.
    pub(crate) fn hinders(&self, entity: &str, sort_key: &str) -> bool {
        let hinders = |(partition_key, key): &(String, String)| {
            let is_needed = key == sort_key || !is_version_key(key) && key != LATEST_KEY;
            partition_key == entity && is_needed || partition_key.starts_with(RESERVED)
        };
        let hindered = lock(&self.hindered);
        hindered.as_ref().is_none_or(|keys| keys.iter().any(hinders))
    }
}

/// Locks a mutex, also if a thread panicked while holding it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
