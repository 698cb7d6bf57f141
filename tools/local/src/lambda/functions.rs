//! The functions of the stack. Each invocation runs in an idle process or a new one, up to the maximum concurrency.

use std::{
    fmt::Debug,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use axum::body::Bytes;
use serde_json::json;
use tokio::sync::Semaphore;
use uuid::Uuid;

use super::{
    process::{CompletedInvocation, Invocation, Process, ProcessInfo, ProcessOutcome},
    report::{self, Report},
    spawn::{self, Host},
};
use crate::{
    listener::budget::{Budget, Reservation},
    mapping::{InvocationOutcome, Invoker},
    template::{
        Function,
        resolve::{ACCOUNT, REGION},
    },
};

/// Delays before the retries of a failed asynchronous invocation.
/// See <https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html>.
const ASYNCHRONOUS_RETRIES: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(120)];

/// Maximum number of synchronous invocations through the Invoke API at the same time, for each function, and the same for
/// asynchronous ones until the end of their first attempt, and for those that are retried.
const MAX_INVOCATIONS: usize = 1000;
/// Maximum number of bytes of their payloads.
const MAX_PAYLOADS: usize = 64 * 1024 * 1024;

/// Error type of an invocation whose process exited or was killed.
pub const EXITED: &str = "Runtime.ExitError";
/// Error type of an invocation that timed out.
pub const TIMED_OUT: &str = "Sandbox.Timedout";

/// The functions of the stack. Clones share the same processes.
#[derive(Debug, Clone)]
pub struct Lambda {
    functions: Arc<Vec<Arc<HostedFunction>>>,
    observer: Arc<OnceLock<Arc<dyn InvocationObserver>>>,
    endpoint: String,
}

pub trait InvocationObserver: Debug + Send + Sync {
    /// Called after the last attempt of an invocation.
    fn invoked(&self, binary: &str, event: &[u8], output: &InvokeOutput);
}

#[derive(Debug)]
pub(super) struct HostedFunction {
    function: Function,
    host: Host,
    slots: Semaphore,
    /// Synchronous invocations through the Invoke API.
    pub(super) requests: Budget,
    /// Asynchronous invocations whose first attempt has not ended.
    pub(super) events: Budget,
    /// Asynchronous invocations that are retried.
    retries: Budget,
    observer: Arc<OnceLock<Arc<dyn InvocationObserver>>>,
    processes: Mutex<Vec<Arc<Process>>>,
    idle: Mutex<Vec<Arc<Process>>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvokeOutput {
    pub request_id: String,
    /// The function's response or error, in JSON.
    pub payload: Vec<u8>,
    pub is_error: bool,
    /// The last 4 KB of the log.
    pub log_tail: Vec<u8>,
}

impl Lambda {
    pub(super) fn new(address: SocketAddr, functions: &[Function], host: &Host) -> Self {
        let observer = Arc::new(OnceLock::new());
        let hosted = functions.iter().map(|function| {
            Arc::new(HostedFunction {
                function: function.clone(),
                host: host.clone(),
                slots: Semaphore::new(host.concurrency),
                requests: Budget::new(MAX_INVOCATIONS, MAX_PAYLOADS),
                events: Budget::new(MAX_INVOCATIONS, MAX_PAYLOADS),
                retries: Budget::new(MAX_INVOCATIONS, MAX_PAYLOADS),
                observer: observer.clone(),
                processes: Mutex::default(),
                idle: Mutex::default(),
            })
        });
        Self {
            functions: Arc::new(hosted.collect()),
            observer,
            endpoint: format!("http://{address}"),
        }
    }

    /// Returns the URL of the Invoke API, such as `http://127.0.0.1:9001`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Invokes a function and waits for its response. Returns `None` if there is no such function.
    pub async fn invoke(&self, name: &str, payload: impl Into<Bytes>) -> Option<InvokeOutput> {
        self.invoke_as(request_id(), name, payload, |_| true).await
    }

    /// Invokes a function with this request id. A second invocation with the same id is a retry of the first. `is_last` returns
    /// `false` if the caller retries the invocation: then the observer is not called.
    pub async fn invoke_as(
        &self,
        request_id: String,
        name: &str,
        payload: impl Into<Bytes>,
        is_last: impl FnOnce(&InvokeOutput) -> bool + Send + 'static,
    ) -> Option<InvokeOutput> {
        let (function, payload) = (self.find(name)?, payload.into());
        // A separate task: if the caller disconnects, the process still finishes the invocation.
        let output = tokio::spawn(async move {
            let output = function.invoke(request_id, payload.clone()).await;
            if is_last(&output) {
                function.observe(&payload, &output);
            }
            output
        });
        output.await.ok()
    }

    /// Sets the observer of all later invocations. Only the first call has an effect.
    pub fn observe(&self, observer: Arc<dyn InvocationObserver>) {
        let _ = self.observer.set(observer);
    }

    /// Kills all processes with SIGKILL.
    pub fn kill_all(&self) {
        for hosted in self.functions.iter() {
            hosted.processes().iter().for_each(|process| process.kill());
        }
    }

    pub fn processes(&self, name: &str) -> Vec<ProcessInfo> {
        let hosted = self.find(name);
        let processes = hosted.map(|hosted| hosted.processes().clone()).unwrap_or_default();
        let alive = processes.iter().filter(|process| process.is_alive());
        alive.map(|process| process.info()).collect()
    }

    /// Finds a function by its binary, its logical id, or its full or partial ARN. `$LATEST` is the only version.
    pub(super) fn find(&self, name: &str) -> Option<Arc<HostedFunction>> {
        let (prefix, account) = (arn(""), format!("{ACCOUNT}:function:"));
        let name = name
            .strip_prefix(&prefix)
            .or_else(|| name.strip_prefix(&account))
            .unwrap_or(name);
        let name = name.strip_prefix("function:").unwrap_or(name);
        let name = name.strip_suffix(":$LATEST").unwrap_or(name);
        let matches =
            |hosted: &&Arc<HostedFunction>| hosted.function.binary == name || hosted.function.logical_id == name;
        self.functions.iter().find(matches).cloned()
    }
}

/// Returns a new request id.
pub(super) fn request_id() -> String {
    Uuid::new_v4().to_string()
}

impl HostedFunction {
    /// Starts an asynchronous invocation, with retries if it fails, and returns its request id.
    ///
    /// The reservation lasts until the end of the first attempt: an invocation that is retried has a place among the retries, so it
    /// does not block others during the delays. Without such a place, there is no retry, and the first attempt is the last.
    pub(super) fn invoke_async(self: Arc<Self>, payload: Bytes, reservation: Reservation) -> String {
        let request_id = request_id();
        let id = request_id.clone();
        tokio::spawn(async move {
            let mut output = self.invoke(id.clone(), payload.clone()).await;
            let retry = output.is_error.then(|| self.retries.reserve(payload.len()));
            drop(reservation);
            if let Some(Ok(_retry)) = retry {
                for delay in ASYNCHRONOUS_RETRIES {
                    tokio::time::sleep(delay).await;
                    output = self.invoke(id.clone(), payload.clone()).await;
                    if !output.is_error {
                        break;
                    }
                }
            }
            self.observe(&payload, &output);
        });
        request_id
    }

    fn observe(&self, payload: &[u8], output: &InvokeOutput) {
        if let Some(observer) = self.observer.get() {
            observer.invoked(&self.function.binary, payload, output);
        }
    }

    async fn invoke(&self, request_id: String, payload: Bytes) -> InvokeOutput {
        let (completed, pid) = match self.slots.acquire().await {
            Ok(_slot) => self.run(&request_id, payload).await,
            // The semaphore is never closed.
            Err(_) => (CompletedInvocation::not_started(), None),
        };
        let id = &request_id;
        let killed = |status, kind, reason: &str| {
            let message = format!("RequestId: {id} Error: {reason}");
            let payload = json!({"errorType": kind, "errorMessage": message}).to_string();
            (payload.into_bytes(), true, Some((status, kind)))
        };
        let (payload, is_error, failed) = match completed.outcome {
            ProcessOutcome::Response(payload) => (payload, false, None),
            ProcessOutcome::Error(payload) => (payload, true, None),
            ProcessOutcome::TimedOut => {
                let seconds = self.function.timeout.as_secs_f64();
                killed(
                    "timeout",
                    TIMED_OUT,
                    &format!("Task timed out after {seconds:.2} seconds"),
                )
            }
            ProcessOutcome::Exited => killed("error", EXITED, "Runtime exited without providing a reason"),
        };
        let report = Report {
            request_id: id,
            log: &completed.log,
            duration: completed.duration,
            init: completed.init,
            memory: self.function.memory,
            used: pid.and_then(report::max_memory_used),
            failed,
        };
        let log_tail = report.tail();
        InvokeOutput {
            request_id,
            payload,
            is_error,
            log_tail,
        }
    }

    /// Runs the invocation. Returns its end, and the id of its process.
    async fn run(&self, request_id: &str, payload: Bytes) -> (CompletedInvocation, Option<u32>) {
        let Ok(process) = self.take() else {
            return (CompletedInvocation::not_started(), None);
        };
        let invocation = Invocation {
            request_id: request_id.to_owned(),
            payload,
            arn: arn(&self.function.binary),
            timeout: self.function.timeout,
        };
        let completed = process.run(invocation).await;
        match completed.outcome {
            ProcessOutcome::Response(_) | ProcessOutcome::Error(_) => self.idle().push(process.clone()),
            ProcessOutcome::TimedOut | ProcessOutcome::Exited => {
                process.kill();
                self.processes().retain(|other| !Arc::ptr_eq(other, &process));
            }
        }
        (completed, Some(process.info().pid))
    }

    fn processes(&self) -> MutexGuard<'_, Vec<Arc<Process>>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Arc<Process>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an idle process, or starts one.
    fn take(&self) -> std::io::Result<Arc<Process>> {
        let mut idle = self.idle();
        while let Some(process) = idle.pop() {
            if process.is_alive() {
                return Ok(process);
            }
        }
        drop(idle);
        let mut processes = self.processes();
        processes.retain(|process| process.is_alive());
        let process = spawn::start(&self.function, &self.host)?;
        processes.push(process.clone());
        Ok(process)
    }
}

pub fn arn(binary: &str) -> String {
    format!("arn:aws:lambda:{REGION}:{ACCOUNT}:function:{binary}")
}

/// Invokes one function for an event source mapping.
#[derive(Debug, Clone)]
pub struct FunctionInvoker {
    pub lambda: Lambda,
    pub binary: String,
}

impl Invoker for FunctionInvoker {
    fn request_id(&self) -> String {
        request_id()
    }

    async fn invoke(&self, request_id: &str, payload: String) -> InvocationOutcome {
        let invoked = self
            .lambda
            .invoke_as(request_id.to_owned(), &self.binary, payload.into_bytes(), |_| true);
        match invoked.await {
            Some(output) if output.is_error => InvocationOutcome::FunctionError,
            Some(output) => InvocationOutcome::Response(output.payload),
            None => InvocationOutcome::NotInvoked,
        }
    }
}
