//! The function that sends a request: a writer or stream-fn, in its own task.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

tokio::task_local! {
    pub(crate) static CALLER: Arc<Caller>;
}

#[derive(Debug, Default)]
pub(crate) struct Caller {
    pub(crate) is_writer: bool,
    pub(crate) kill: Notify,
    pub(crate) had_fault: Mutex<bool>,
}

impl Caller {
    pub(crate) fn writer() -> Arc<Self> {
        Arc::new(Self {
            is_writer: true,
            ..Self::default()
        })
    }

    pub(crate) fn set_fault(&self) {
        *lock(&self.had_fault) = true;
    }
}

/// Locks a mutex, also if a thread panicked while holding it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
