//! Long work of a page in the background, with its progress. A search ends when no page has shown it for [`MAX_UNSEEN`].

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use operations::{
    connection::Connection,
    error::OperationError,
    rate_limit::{Limits, RateLimiter},
};
use shared::{domain::time::EpochMillis, dynamodb::Store, logging::chain};

use crate::{
    background::{self, Work},
    lock::lock,
    time,
};

/// Maximum duration, in milliseconds.
const MAX_TIME: i64 = 60 * 60 * 1000;
/// A browser does not refresh a page in the background.
const MAX_UNSEEN: Duration = Duration::from_secs(10 * 60);

pub(crate) struct Job {
    progress: Progress,
    work: Mutex<Option<Work>>,
}

/// Progress that the work and its pages share.
#[derive(Clone)]
pub(crate) struct Progress(Arc<Mutex<State>>);

#[derive(Debug, Clone)]
pub(crate) struct State {
    /// Amount of work done, and the expected total, 0 if it is not known.
    pub(crate) done: (u64, u64),
    pub(crate) began: EpochMillis,
    pub(crate) ended: Option<EpochMillis>,
    seen: Instant,
    /// Name of the state, and the reason of a failure.
    pub(crate) name: &'static str,
    pub(crate) failure: String,
}

/// Returns the store with a separate meter, so that only its requests are limited.
pub(crate) fn limited(connection: &Connection, limits: Limits) -> (Store, RateLimiter) {
    let (store, meter) = connection.metered();
    (store, RateLimiter::new(meter, limits))
}

impl Job {
    pub(crate) fn start<F>(work: impl FnOnce(Progress) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<(), OperationError>>,
    {
        let progress = Progress(Arc::new(Mutex::new(State::new())));
        let shared = progress.clone();
        let work = background::spawn(async move || match work(shared.clone()).await {
            Ok(()) => shared.end("Done", String::new()),
            Err(error) => shared.end("Failed", chain(&error)),
        });
        let work = Mutex::new(Some(work));
        Self { progress, work }
    }

    pub(crate) fn stop(&self) {
        *lock(&self.work) = None;
        self.progress.end("Stopped", String::new());
    }

    /// Returns the state, for a page that shows it.
    pub(crate) fn state(&self) -> State {
        let mut state = lock(&self.progress.0);
        state.seen = Instant::now();
        state.clone()
    }
}

impl State {
    pub(crate) fn new() -> Self {
        Self {
            done: (0, 0),
            began: time::now(),
            ended: None,
            seen: Instant::now(),
            name: "Running",
            failure: String::new(),
        }
    }

    pub(crate) fn end(&mut self, name: &'static str, failure: String) {
        if self.name == "Running" {
            (self.name, self.failure, self.ended) = (name, failure, Some(time::now()));
        }
    }
}

impl Progress {
    fn end(&self, name: &'static str, failure: String) {
        lock(&self.0).end(name, failure);
    }

    pub(crate) fn set(&self, done: u64, all: u64) {
        lock(&self.0).done = (done, all);
    }

    /// Ends work that takes too long, has a too long file, or that no page shows any more.
    pub(crate) fn check(&self, length: u64) -> Result<(), OperationError> {
        let state = lock(&self.0).clone();
        let why = match () {
            () if state.seen.elapsed() > MAX_UNSEEN => "its page was closed",
            () if time::now().get() - state.began.get() > MAX_TIME => {
                "it takes more than an hour: filter by more, or use the command line"
            }
            () if length > 1 << 30 => "its result has more than 1 GB: filter by more, or use the command line",
            () => return Ok(()),
        };
        Err(OperationError::Refused(why.to_owned()))
    }
}
