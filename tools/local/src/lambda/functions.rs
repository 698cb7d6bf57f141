//! The functions of the stack. Each invocation runs in an idle process or a new one, up to the maximum concurrency.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use axum::body::Bytes;
use serde_json::json;
use tokio::sync::Semaphore;
use uuid::Uuid;

use super::{
    process::{Outcome, Process, ProcessInfo, arn},
    spawn::{self, Host},
};
use crate::{
    lock,
    mapping::{InvocationOutcome, Invoker},
    template::{Function, resolve::ACCOUNT},
};

/// Delays before the retries of a failed asynchronous invocation.
/// See <https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html>.
const ASYNCHRONOUS_RETRIES: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(120)];

/// Maximum number of bytes of a log tail.
const MAX_TAIL: usize = 4096;

/// Error type of an invocation whose process exited or was killed.
pub const EXITED: &str = "Runtime.ExitError";
/// Error type of an invocation that timed out.
pub const TIMED_OUT: &str = "Sandbox.Timedout";

/// The functions of the stack. Clones share the same processes.
#[derive(Clone)]
pub struct Lambda {
    functions: Arc<Vec<Arc<HostedFunction>>>,
    observer: Arc<OnceLock<Observer>>,
    endpoint: String,
}

/// Called after the last attempt of an invocation, with the binary of the function, the event and the output.
type Observer = Box<dyn Fn(&str, &[u8], &InvokeOutput) + Send + Sync>;

pub(super) struct HostedFunction {
    function: Function,
    host: Host,
    slots: Semaphore,
    observer: Arc<OnceLock<Observer>>,
    processes: Mutex<Vec<Arc<Process>>>,
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
                observer: observer.clone(),
                processes: Mutex::default(),
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
    pub fn observe(&self, observer: impl Fn(&str, &[u8], &InvokeOutput) + Send + Sync + 'static) {
        let _ = self.observer.set(Box::new(observer));
    }

    /// Kills all processes with SIGKILL.
    pub fn kill_all(&self) {
        for hosted in self.functions.iter() {
            lock(&hosted.processes).iter().for_each(|process| process.kill());
        }
    }

    pub fn processes(&self, name: &str) -> Vec<ProcessInfo> {
        let hosted = self.find(name);
        let processes = hosted.map(|hosted| lock(&hosted.processes).clone());
        let alive = processes.into_iter().flatten().filter(|process| process.is_alive());
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
    pub(super) fn invoke_async(self: Arc<Self>, payload: Bytes) -> String {
        let request_id = request_id();
        let id = request_id.clone();
        tokio::spawn(async move {
            let mut output = self.invoke(id.clone(), payload.clone()).await;
            for delay in ASYNCHRONOUS_RETRIES {
                if !output.is_error {
                    break;
                }
                tokio::time::sleep(delay).await;
                output = self.invoke(id.clone(), payload.clone()).await;
            }
            self.observe(&payload, &output);
        });
        request_id
    }

    fn observe(&self, payload: &[u8], output: &InvokeOutput) {
        if let Some(observer) = self.observer.get() {
            observer(&self.function.binary, payload, output);
        }
    }

    async fn invoke(&self, request_id: String, payload: Bytes) -> InvokeOutput {
        // The semaphore is never closed.
        let _slot = self.slots.acquire().await;
        let (outcome, mut log) = match self.take() {
            Ok(process) => process.run(&request_id, payload).await,
            Err(_) => Default::default(),
        };
        let killed = |kind, reason: &str| {
            let message = format!("RequestId: {request_id} Error: {reason}");
            let payload = json!({"errorType": kind, "errorMessage": message});
            (payload.to_string().into_bytes(), true)
        };
        let seconds = self.function.timeout.as_secs_f64();
        let (payload, is_error) = match outcome {
            Outcome::Response(payload) => (payload, false),
            Outcome::Error(payload) => (payload, true),
            Outcome::TimedOut => killed(TIMED_OUT, &format!("Task timed out after {seconds:.2} seconds")),
            Outcome::Exited => killed(EXITED, "Runtime exited without providing a reason"),
        };
        let log_tail = log.split_off(log.len().saturating_sub(MAX_TAIL));
        InvokeOutput {
            request_id,
            payload,
            is_error,
            log_tail,
        }
    }

    /// Returns an idle process, or starts one, and reserves it.
    fn take(&self) -> std::io::Result<Arc<Process>> {
        let mut processes = lock(&self.processes);
        processes.retain(|process| process.is_alive());
        if let Some(idle) = processes.iter().find(|process| process.reserve()) {
            return Ok(idle.clone());
        }
        let process = spawn::start(&self.function, &self.host)?;
        processes.push(process.clone());
        Ok(process)
    }
}

/// Invokes one function for an event source mapping.
#[derive(Clone)]
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
