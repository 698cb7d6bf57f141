//! One process of a function: Lambda's execution environment. It runs one invocation at a time, and ends it when the
//! function responds, fails or exits, or when the time is up.

use std::{
    sync::{Mutex, OnceLock},
    time::{Duration, Instant},
};

use axum::body::Bytes;
use tokio::{
    sync::{Notify, mpsc, oneshot},
    time::timeout,
};

use super::output::Output;
use crate::{
    lock,
    template::{
        Function,
        resolve::{ACCOUNT, REGION},
    },
};

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
    pub(super) function: Function,
    pid: u32,
    started: Instant,
    ready: OnceLock<Instant>,
    send: mpsc::Sender<Invocation>,
    invocations: tokio::sync::Mutex<mpsc::Receiver<Invocation>>,
    state: Mutex<State>,
    kill: Notify,
    output: Output,
}

#[derive(Debug, Default)]
struct State {
    has_exited: bool,
    is_reserved: bool,
    /// The invocation in flight, and the channel for its outcome.
    current: Option<(String, oneshot::Sender<Outcome>)>,
}

#[derive(Debug)]
pub(super) struct Invocation {
    pub(super) request_id: String,
    pub(super) payload: Bytes,
    /// Signals that the process has received the invocation: the timeout counts from then on.
    pub(super) taken: oneshot::Sender<()>,
}

/// The end of an invocation.
#[derive(Debug, Default)]
pub(super) enum Outcome {
    Response(Vec<u8>),
    Error(Vec<u8>),
    TimedOut,
    /// The process exited or did not start.
    #[default]
    Exited,
}

impl Process {
    /// A process that is reserved for its first invocation.
    pub(super) fn new(function: Function, pid: u32, started: Instant, output: Output) -> Self {
        let (send, invocations) = mpsc::channel(1);
        Self {
            function,
            pid,
            started,
            ready: OnceLock::new(),
            send,
            invocations: tokio::sync::Mutex::new(invocations),
            state: Mutex::new(State {
                is_reserved: true,
                ..State::default()
            }),
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
        !lock(&self.state).has_exited
    }

    /// Reserves the process for an invocation. Returns `false` if it has one already.
    pub(super) fn reserve(&self) -> bool {
        !std::mem::replace(&mut lock(&self.state).is_reserved, true)
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
        let mut state = lock(&self.state);
        state.has_exited = true;
        state.current = None;
    }

    /// Runs an invocation, for which the process is reserved, and returns its log. A process without a response is killed.
    pub(super) async fn run(&self, request_id: &str, payload: Bytes) -> (Outcome, Vec<u8>) {
        let outcome = self.outcome(request_id, payload).await.unwrap_or_default();
        let log = self.output.take();
        match outcome {
            Outcome::Response(_) | Outcome::Error(_) => lock(&self.state).is_reserved = false,
            Outcome::TimedOut | Outcome::Exited => {
                self.exited();
                self.kill();
            }
        }
        (outcome, log)
    }

    /// Returns `None` if the process exits, or does not request the invocation in time.
    async fn outcome(&self, request_id: &str, payload: Bytes) -> Option<Outcome> {
        let (sender, mut outcome) = oneshot::channel();
        let (taken, is_taken) = oneshot::channel();
        {
            let mut state = lock(&self.state);
            state.current = (!state.has_exited).then(|| (request_id.to_owned(), sender));
        }
        let invocation = Invocation {
            request_id: request_id.to_owned(),
            payload,
            taken,
        };
        let work = async {
            self.send.send(invocation).await.ok()?;
            // A process that exits or reports an init error ends the invocation as well.
            tokio::select! {
                taken = timeout(INIT_TIMEOUT, is_taken) => {
                    taken.ok()?.ok()?;
                    match timeout(self.function.timeout, &mut outcome).await {
                        Ok(outcome) => outcome.ok(),
                        Err(_) => Some(Outcome::TimedOut),
                    }
                }
                outcome = &mut outcome => outcome.ok(),
            }
        };
        let outcome = work.await;
        lock(&self.state).current = None;
        outcome
    }

    pub(super) async fn next(&self) -> Option<Invocation> {
        self.ready.get_or_init(Instant::now);
        let invocation = self.invocations.lock().await.recv().await;
        // Earlier output does not belong to this invocation.
        self.output.take();
        invocation
    }

    /// Returns `true` if the invocation with this id is in flight.
    pub(super) fn is_current(&self, request_id: &str) -> bool {
        lock(&self.state)
            .current
            .as_ref()
            .is_some_and(|(id, _)| id == request_id)
    }

    /// Ends the current invocation: the one with this id, or any. Returns `false` if it is not in flight.
    pub(super) fn complete(&self, request_id: Option<&str>, outcome: Outcome) -> bool {
        let is_it = |(id, _): &mut (String, _)| request_id.is_none_or(|request_id| id == request_id);
        let current = lock(&self.state).current.take_if(is_it);
        current.is_some_and(|(_, sender)| sender.send(outcome).is_ok())
    }
}

/// Returns the ARN of a function.
pub fn arn(binary: &str) -> String {
    format!("arn:aws:lambda:{REGION}:{ACCOUNT}:function:{binary}")
}
