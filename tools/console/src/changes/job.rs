//! Long work of a page in the background, with its progress. It ends when no page has shown it for [`MAX_UNSEEN`].

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use operations::error::OperationError;
use shared::logging::chain;

use crate::{
    background::{self, Work},
    lock::lock,
};

const MAX_TIME: Duration = Duration::from_secs(60 * 60);
/// A browser does not refresh a page in the background.
const MAX_UNSEEN: Duration = Duration::from_secs(10 * 60);

pub(super) struct Job {
    progress: Progress,
    work: Mutex<Option<Work>>,
}

/// Progress that the work and its pages share.
#[derive(Clone)]
pub(super) struct Progress(Arc<Mutex<State>>);

#[derive(Clone)]
pub(super) struct State {
    /// Amount of work done, and the expected total, 0 if it is not known.
    pub(super) done: (u64, u64),
    began: Instant,
    seen: Instant,
    /// Name of the state, and the reason of a failure.
    pub(super) name: &'static str,
    pub(super) failure: String,
}

impl Job {
    pub(super) fn start<F>(work: impl FnOnce(Progress) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<(), OperationError>>,
    {
        let progress = Progress(Arc::new(Mutex::new(State {
            done: (0, 0),
            began: Instant::now(),
            seen: Instant::now(),
            name: "Running",
            failure: String::new(),
        })));
        let shared = progress.clone();
        let work = background::spawn(async move || match work(shared.clone()).await {
            Ok(()) => shared.end("Done", String::new()),
            Err(error) => shared.end("Failed", chain(&error)),
        });
        let work = Mutex::new(Some(work));
        Self { progress, work }
    }

    pub(super) fn stop(&self) {
        *lock(&self.work) = None;
        self.progress.end("Stopped", String::new());
    }

    /// Returns the state, for a page that shows it.
    pub(super) fn state(&self) -> State {
        let mut state = lock(&self.progress.0);
        state.seen = Instant::now();
        state.clone()
    }
}

impl Progress {
    fn end(&self, name: &'static str, failure: String) {
        let mut state = lock(&self.0);
        if state.name == "Running" {
            (state.name, state.failure) = (name, failure);
        }
    }

    pub(super) fn set(&self, done: u64, all: u64) {
        lock(&self.0).done = (done, all);
    }

    /// Ends work that takes too long, has a too long file, or that no page shows any more.
    pub(super) fn check(&self, length: u64) -> Result<(), OperationError> {
        let state = lock(&self.0).clone();
        let why = match () {
            () if state.seen.elapsed() > MAX_UNSEEN => "its page was closed",
            () if state.began.elapsed() > MAX_TIME => {
                "it takes more than an hour: filter by more, or use the command line"
            }
            () if length > 1 << 30 => "its result has more than 1 GB: filter by more, or use the command line",
            () => return Ok(()),
        };
        Err(OperationError::Refused(why.to_owned()))
    }
}
