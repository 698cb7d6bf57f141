//! One process of a function: Lambda's execution environment. It runs one invocation at a time, and ends it when the
//! function responds, fails or exits, or when the time is up.

use std::{
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use axum::body::Bytes;
use tokio::sync::{Notify, mpsc, oneshot};

use super::output::Output;

/// Maximum time from the start of a process to its first request for an invocation.
const INIT_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy)]
pub struct ProcessInfo {
    pub pid: u32,
    pub started: Instant,
    /// Time at which it requested its first invocation.
    pub ready: Option<Instant>,
}

/// A process that requests one invocation after the other from the Runtime API.
#[derive(Debug)]
pub(super) struct Process {
    pid: u32,
    started: Instant,
    ready: OnceLock<Instant>,
    send: mpsc::Sender<Job>,
    jobs: tokio::sync::Mutex<mpsc::Receiver<Job>>,
    state: Mutex<State>,
    kill: Notify,
    output: Output,
}

#[derive(Debug)]
struct State {
    alive: bool,
    /// The invocation in flight, and the channel for its outcome.
    current: Option<(String, oneshot::Sender<ProcessOutcome>)>,
}

#[derive(Debug)]
pub(super) struct Invocation {
    pub(super) request_id: String,
    pub(super) payload: Bytes,
    pub(super) arn: String,
    pub(super) timeout: Duration,
}

#[derive(Debug)]
pub(super) struct Job {
    pub(super) invocation: Invocation,
    /// Signals that the process has received the invocation: the timeout counts from then on.
    pub(super) taken: oneshot::Sender<()>,
}

#[derive(Debug)]
pub(super) struct CompletedInvocation {
    pub(super) outcome: ProcessOutcome,
    pub(super) log: Vec<u8>,
    pub(super) duration: Duration,
    /// Start duration of the process, if this was its first invocation.
    pub(super) init: Option<Duration>,
}

impl CompletedInvocation {
    pub(super) fn not_started() -> Self {
        Self {
            outcome: ProcessOutcome::Exited,
            log: Vec::new(),
            duration: Duration::ZERO,
            init: None,
        }
    }
}

#[derive(Debug)]
pub(super) enum ProcessOutcome {
    Response(Vec<u8>),
    Error(Vec<u8>),
    TimedOut,
    /// The process exited or did not start.
    Exited,
}

impl Process {
    pub(super) fn new(pid: u32, started: Instant, output: Output) -> Self {
        let (send, jobs) = mpsc::channel(1);
        let state = State {
            alive: true,
            current: None,
        };
        Self {
            pid,
            started,
            ready: OnceLock::new(),
            send,
            jobs: tokio::sync::Mutex::new(jobs),
            state: Mutex::new(state),
            kill: Notify::new(),
            output,
        }
    }

    pub(super) fn info(&self) -> ProcessInfo {
        ProcessInfo {
            pid: self.pid,
            started: self.started,
            ready: self.ready.get().copied(),
        }
    }

    pub(super) fn is_alive(&self) -> bool {
        self.state().alive
    }

    pub(super) fn kill(&self) {
        self.kill.notify_one();
    }

    pub(super) async fn killed(&self) {
        self.kill.notified().await;
    }

    /// Marks the process as exited. Dropping the channel of the current invocation ends that invocation.
    pub(super) fn exited(&self) {
        self.output.take();
        let mut state = self.state();
        state.alive = false;
        state.current = None;
    }

    pub(super) async fn run(&self, invocation: Invocation) -> CompletedInvocation {
        let is_first = self.ready.get().is_none();
        let started = Instant::now();
        let outcome = self.outcome(invocation).await;
        let (duration, init) = match self.ready.get().filter(|_| is_first) {
            Some(ready) => (ready.elapsed(), Some(ready.duration_since(self.started))),
            None => (started.elapsed(), None),
        };
        CompletedInvocation {
            outcome,
            log: self.output.take(),
            duration,
            init,
        }
    }

    async fn outcome(&self, invocation: Invocation) -> ProcessOutcome {
        let (sender, mut outcome) = oneshot::channel();
        let (taken, is_taken) = oneshot::channel();
        let timeout = invocation.timeout;
        {
            let mut state = self.state();
            if !state.alive {
                return ProcessOutcome::Exited;
            }
            state.current = Some((invocation.request_id.clone(), sender));
        }
        let work = async {
            self.send.send(Job { invocation, taken }).await.ok()?;
            // A process that exits or reports an init error ends the invocation as well.
            tokio::select! {
                taken = tokio::time::timeout(INIT_TIMEOUT, is_taken) => {
                    taken.ok()?.ok()?;
                    match tokio::time::timeout(timeout, &mut outcome).await {
                        Ok(outcome) => outcome.ok(),
                        Err(_) => Some(ProcessOutcome::TimedOut),
                    }
                }
                outcome = &mut outcome => outcome.ok(),
            }
        };
        let outcome = work.await.unwrap_or(ProcessOutcome::Exited);
        self.state().current = None;
        outcome
    }

    pub(super) async fn next(&self) -> Option<Job> {
        self.ready.get_or_init(Instant::now);
        let job = self.jobs.lock().await.recv().await;
        // Earlier output does not belong to this invocation.
        self.output.take();
        job
    }

    /// Returns `true` if the invocation with this id is in flight.
    pub(super) fn is_current(&self, request_id: &str) -> bool {
        self.state().current.as_ref().is_some_and(|(id, _)| id == request_id)
    }

    /// Ends the invocation with this id. Returns `false` if another one, or none, is in flight.
    pub(super) fn complete(&self, request_id: &str, outcome: ProcessOutcome) -> bool {
        let mut state = self.state();
        match state.current.take() {
            Some((current, sender)) if current == request_id => sender.send(outcome).is_ok(),
            other => {
                state.current = other;
                false
            }
        }
    }

    /// Ends the current invocation with an init error of the runtime.
    pub(super) fn fail(&self, payload: Vec<u8>) {
        if let Some((_, sender)) = self.state().current.take() {
            let _ = sender.send(ProcessOutcome::Error(payload));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
