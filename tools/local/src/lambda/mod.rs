//! Lambda on one machine: functions as real processes of the real runtime, behind the Runtime API and the Invoke API.

mod invoke_api;
mod output;
mod process;
mod report;
mod runtime_api;

use std::{
    collections::BTreeMap,
    fmt::Debug,
    net::TcpListener,
    path::PathBuf,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::Semaphore;
use uuid::Uuid;

use self::{
    process::{End, Process, Ran},
    report::Report,
};
use crate::{
    mapping::{Invocation, InvocationOutcome, Invoker},
    template::{
        Function,
        resolve::{ACCOUNT, REGION},
    },
};

/// The most payload of a synchronous invocation, in bytes.
pub const MAX_PAYLOAD: usize = 6 * 1024 * 1024;
/// How long after a failure an asynchronous invocation is tried again (Lambda developer guide, "Asynchronous
/// invocation").
const ASYNCHRONOUS_RETRIES: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(120)];

/// How function processes are started.
#[derive(Debug, Clone)]
pub struct Host {
    /// The program, and what it takes before the name of a function's binary.
    pub program: PathBuf,
    /// See `program`.
    pub arguments: Vec<String>,
    /// Functions with a program of their own, by their binary's name. It takes no arguments.
    pub bootstraps: BTreeMap<String, PathBuf>,
    /// The variables of every function, besides its own.
    pub environment: BTreeMap<String, String>,
    /// The most processes of one function.
    pub concurrency: usize,
    /// The folder that their output goes to, one file a function.
    pub logs: PathBuf,
}

/// The functions that can be invoked.
#[derive(Debug, Clone)]
pub struct Lambda {
    functions: Arc<Vec<Arc<Running>>>,
    begun: Arc<AtomicU64>,
    watch: Arc<OnceLock<Arc<dyn Watch>>>,
    endpoint: String,
}

/// Is told how invocations ended.
pub trait Watch: Debug + Send + Sync {
    /// The function of this binary was invoked with this event.
    fn invoked(&self, binary: &str, event: &[u8], invoked: &Invoked);
}

/// A function, its processes, and those that wait for one.
#[derive(Debug)]
struct Running {
    function: Function,
    host: Host,
    slots: Semaphore,
    watch: Arc<OnceLock<Arc<dyn Watch>>>,
    processes: Mutex<Vec<Arc<Process>>>,
    idle: Mutex<Vec<Arc<Process>>>,
}

/// A living process.
#[derive(Debug, Clone, Copy)]
pub struct Life {
    /// The system's number for it.
    pub pid: u32,
    /// When it was started.
    pub started: Instant,
    /// When it asked for its first invocation.
    pub ready: Option<Instant>,
}

/// What an invocation came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invoked {
    /// Its request id.
    pub request_id: String,
    /// The function's answer, or its error, as JSON.
    pub payload: Vec<u8>,
    /// Whether the payload is an error.
    pub is_error: bool,
    /// The last 4 KB of its log.
    pub log_tail: Vec<u8>,
}

impl Lambda {
    /// Serves the functions on this listener. Processes start when they are needed.
    pub fn serve(listener: TcpListener, functions: &[Function], host: &Host) -> std::io::Result<Self> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let watch = Arc::new(OnceLock::new());
        let running = functions.iter().map(|function| {
            Arc::new(Running {
                function: function.clone(),
                host: host.clone(),
                slots: Semaphore::new(host.concurrency),
                watch: watch.clone(),
                processes: Mutex::default(),
                idle: Mutex::default(),
            })
        });
        let lambda = Self {
            functions: Arc::new(running.collect()),
            begun: Arc::default(),
            watch,
            endpoint: format!("http://{address}"),
        };
        let router = invoke_api::router(lambda.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(lambda)
    }

    /// Where the Invoke API is, `http://127.0.0.1:9001`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Invokes a function and waits for its answer. `None` where there is no such function.
    pub async fn invoke(&self, name: &str, payload: Vec<u8>) -> Option<Invoked> {
        let function = self.find(name)?;
        self.begun.fetch_add(1, Ordering::Relaxed);
        // On a task of its own, so that a caller who hangs up does not leave a process behind in the middle of it.
        let invoked = tokio::spawn(async move { function.invoke(Uuid::new_v4().to_string(), payload).await });
        invoked.await.ok()
    }

    /// Invokes a function in the background, and again where it fails. `None` where there is no such function.
    fn invoke_later(&self, name: &str, payload: Vec<u8>) -> Option<String> {
        let function = self.find(name)?;
        let request_id = Uuid::new_v4().to_string();
        let id = request_id.clone();
        tokio::spawn(async move {
            let mut waits = ASYNCHRONOUS_RETRIES.into_iter();
            while function.invoke(id.clone(), payload.clone()).await.is_error {
                match waits.next() {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => return,
                }
            }
        });
        Some(request_id)
    }

    /// Tells this one of every invocation from now on. There is one at most: the first.
    pub fn tell(&self, watch: Arc<dyn Watch>) {
        let _ = self.watch.set(watch);
    }

    /// How many synchronous invocations have begun.
    pub fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Kills one living process with SIGKILL: the one that `pick` chooses from this many. False where there is none.
    pub fn kill_one(&self, pick: impl FnOnce(usize) -> usize) -> bool {
        let mut alive = Vec::new();
        for running in self.functions.iter() {
            let processes = running.processes.lock().unwrap_or_else(PoisonError::into_inner);
            alive.extend(processes.iter().filter(|process| process.is_alive()).cloned());
        }
        if alive.is_empty() {
            return false;
        }
        let picked = pick(alive.len());
        alive.get(picked).map(|process| process.kill()).is_some()
    }

    /// Kills every process with SIGKILL.
    pub fn kill_all(&self) {
        for running in self.functions.iter() {
            let processes = running.processes.lock().unwrap_or_else(PoisonError::into_inner);
            processes.iter().for_each(|process| process.kill());
        }
    }

    /// The living processes of a function.
    pub fn processes(&self, name: &str) -> Vec<Life> {
        let Some(running) = self.find(name) else {
            return Vec::new();
        };
        let processes = running.processes.lock().unwrap_or_else(PoisonError::into_inner);
        processes
            .iter()
            .filter(|process| process.is_alive())
            .map(|process| process.life())
            .collect()
    }

    /// A function by its binary, its logical id, or its ARN, whole or from the account on. `$LATEST` is its only version.
    fn find(&self, name: &str) -> Option<Arc<Running>> {
        let (prefix, account) = (arn(""), format!("{ACCOUNT}:function:"));
        let name = name
            .strip_prefix(&prefix)
            .or_else(|| name.strip_prefix(&account))
            .unwrap_or(name);
        let name = name.strip_prefix("function:").unwrap_or(name);
        let name = name.strip_suffix(":$LATEST").unwrap_or(name);
        let is_it = |running: &&Arc<Running>| running.function.binary == name || running.function.logical_id == name;
        self.functions.iter().find(is_it).cloned()
    }
}

impl Running {
    async fn invoke(&self, request_id: String, payload: Vec<u8>) -> Invoked {
        let watched = self.watch.get().map(|watch| (watch, payload.clone()));
        let (ran, pid) = match self.slots.acquire().await {
            Ok(_slot) => self.run(&request_id, payload).await,
            // The semaphore is never closed.
            Err(_) => (Ran::not_started(), None),
        };
        let used = pid.and_then(report::used);
        let (payload, failed) = match ran.end {
            End::Answer(payload) => (payload, None),
            End::Error(payload) => (payload, Some(None)),
            End::TimedOut => {
                let seconds = self.function.timeout.as_secs_f64();
                let message = format!("RequestId: {request_id} Error: Task timed out after {seconds:.2} seconds");
                let kind = "Sandbox.Timedout";
                (error(kind, &message), Some(Some(("timeout", kind))))
            }
            End::Exited => {
                let message = format!("RequestId: {request_id} Error: Runtime exited without providing a reason");
                let kind = "Runtime.ExitError";
                (error(kind, &message), Some(Some(("error", kind))))
            }
        };
        let report = Report {
            request_id: &request_id,
            log: &ran.log,
            duration: ran.duration,
            init: ran.init,
            memory: self.function.memory,
            used,
            failed: failed.flatten(),
        };
        let log_tail = report.tail();
        let is_error = failed.is_some();
        let invoked = Invoked {
            is_error,
            request_id: request_id.clone(),
            payload,
            log_tail,
        };
        if let Some((watch, event)) = watched {
            watch.invoked(&self.function.binary, &event, &invoked);
        }
        invoked
    }

    /// The invocation, and the number of the process that it ran in.
    async fn run(&self, request_id: &str, payload: Vec<u8>) -> (Ran, Option<u32>) {
        let Ok(process) = self.take() else {
            return (Ran::not_started(), None);
        };
        let arn = self.arn();
        let ran = process.run(request_id, payload, &arn, self.function.timeout).await;
        match ran.end {
            End::Answer(_) | End::Error(_) => {
                self.idle
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(process.clone());
            }
            End::TimedOut | End::Exited => {
                process.kill();
                let mut processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
                processes.retain(|other| !Arc::ptr_eq(other, &process));
            }
        }
        (ran, Some(process.life().pid))
    }

    /// A process that is free, or a fresh one.
    fn take(&self) -> std::io::Result<Arc<Process>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(process) = idle.pop() {
            if process.is_alive() {
                return Ok(process);
            }
        }
        drop(idle);
        let mut processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
        processes.retain(|process| process.is_alive());
        let process = Process::start(&self.function, &self.host)?;
        processes.push(process.clone());
        Ok(process)
    }

    fn arn(&self) -> String {
        arn(&self.function.binary)
    }
}

/// The ARN of a function.
pub fn arn(binary: &str) -> String {
    format!("arn:aws:lambda:{REGION}:{ACCOUNT}:function:{binary}")
}

fn error(kind: &str, message: &str) -> Vec<u8> {
    serde_json::json!({"errorType": kind, "errorMessage": message})
        .to_string()
        .into_bytes()
}

/// One function, as the mapping sees it.
#[derive(Debug, Clone)]
pub struct Target {
    /// The functions.
    pub lambda: Lambda,
    /// Which of them.
    pub binary: String,
}

impl Invoker for Target {
    async fn invoke(&self, payload: String) -> Invocation {
        match self.lambda.invoke(&self.binary, payload.into_bytes()).await {
            Some(Invoked {
                request_id,
                payload,
                is_error,
                ..
            }) => Invocation {
                request_id,
                outcome: if is_error {
                    InvocationOutcome::FunctionError
                } else {
                    InvocationOutcome::Response(payload)
                },
            },
            None => Invocation {
                request_id: Uuid::nil().to_string(),
                outcome: InvocationOutcome::NotInvoked,
            },
        }
    }
}
