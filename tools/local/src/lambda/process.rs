//! One process of a function: an execution environment, in Lambda's words.

use std::{
    net::{Ipv4Addr, SocketAddr},
    process::Stdio,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use tokio::{
    process::{Child, Command},
    sync::{Notify, mpsc, oneshot},
};

use super::{Host, Life, output::Output, runtime_api};
use crate::{
    dynamodb::{ACCESS_KEY, access_key},
    template::{Function, resolve::REGION},
};

/// How long a process may take until it asks for its first invocation.
const INIT_TIMEOUT: Duration = Duration::from_secs(10);

/// A process that asks the Runtime API for one invocation after the other.
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
    /// The invocation under way, and who waits for its end.
    current: Option<(String, oneshot::Sender<End>)>,
}

/// An invocation on its way to a process.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) request_id: String,
    pub(super) payload: Vec<u8>,
    pub(super) arn: String,
    pub(super) timeout: Duration,
    /// Told when the process takes the invocation: its time counts from then on.
    pub(super) taken: oneshot::Sender<()>,
}

/// An invocation that is over.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) end: End,
    /// What the process wrote meanwhile.
    pub(super) log: Vec<u8>,
    /// How long it worked.
    pub(super) duration: Duration,
    /// How long the process took to start, where this was its first invocation.
    pub(super) init: Option<Duration>,
}

impl Ran {
    /// There was no process to run it.
    pub(super) fn not_started() -> Self {
        Self {
            end: End::Exited,
            log: Vec::new(),
            duration: Duration::ZERO,
            init: None,
        }
    }
}

/// How an invocation ended.
#[derive(Debug)]
pub(super) enum End {
    /// The function answered.
    Answer(Vec<u8>),
    /// The function said that it failed.
    Error(Vec<u8>),
    /// Its time ran out.
    TimedOut,
    /// Its process ended, or did not start.
    Exited,
}

impl Process {
    /// Starts a process, and serves it a Runtime API of its own.
    pub(super) fn start(function: &Function, host: &Host) -> std::io::Result<Arc<Self>> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let output = Output::open(host.logs.join(format!("{}.log", function.binary)))?;
        let mut command = command(function, host, address, &output)?;
        let started = Instant::now();
        let child = command.spawn()?;
        let (send, jobs) = mpsc::channel(1);
        let process = Arc::new(Self {
            pid: child.id().unwrap_or_default(),
            started,
            ready: OnceLock::new(),
            send,
            jobs: tokio::sync::Mutex::new(jobs),
            state: Mutex::new(State {
                alive: true,
                current: None,
            }),
            kill: Notify::new(),
            output,
        });
        let router = runtime_api::router(process.clone());
        let served = tokio::spawn(async move { axum::serve(listener, router).await });
        let watched = process.clone();
        tokio::spawn(async move {
            watch(watched, child).await;
            served.abort();
        });
        Ok(process)
    }

    pub(super) fn life(&self) -> Life {
        Life {
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

    /// Has the process work on one invocation.
    pub(super) async fn run(&self, request_id: &str, payload: Vec<u8>, arn: &str, timeout: Duration) -> Ran {
        let is_first = self.ready.get().is_none();
        let began = Instant::now();
        let end = self.ended(request_id, payload, arn, timeout).await;
        let (duration, init) = match self.ready.get().filter(|_| is_first) {
            Some(ready) => (ready.elapsed(), Some(ready.duration_since(self.started))),
            None => (began.elapsed(), None),
        };
        Ran {
            end,
            log: self.output.take(),
            duration,
            init,
        }
    }

    async fn ended(&self, request_id: &str, payload: Vec<u8>, arn: &str, timeout: Duration) -> End {
        let (sender, mut end) = oneshot::channel();
        let (taken, is_taken) = oneshot::channel();
        {
            let mut state = self.state();
            if !state.alive {
                return End::Exited;
            }
            state.current = Some((request_id.to_owned(), sender));
        }
        let job = Job {
            request_id: request_id.to_owned(),
            payload,
            arn: arn.to_owned(),
            timeout,
            taken,
        };
        let work = async {
            if self.send.send(job).await.is_err() {
                return End::Exited;
            }
            // A process that dies, or gives up, before it asks ends the invocation as well.
            tokio::select! {
                taken = tokio::time::timeout(INIT_TIMEOUT, is_taken) => match taken {
                    Ok(Ok(())) => match tokio::time::timeout(timeout, &mut end).await {
                        Ok(end) => end.unwrap_or(End::Exited),
                        Err(_) => End::TimedOut,
                    },
                    _ => End::Exited,
                },
                end = &mut end => end.unwrap_or(End::Exited),
            }
        };
        let end = work.await;
        self.state().current = None;
        end
    }

    /// The next invocation, once there is one.
    pub(super) async fn next(&self) -> Option<Job> {
        self.ready.get_or_init(Instant::now);
        let job = self.jobs.lock().await.recv().await;
        // What was written until now is not of this invocation.
        self.output.take();
        job
    }

    /// Ends the invocation of this id. False where it is not the one under way.
    pub(super) fn complete(&self, request_id: &str, end: End) -> bool {
        let mut state = self.state();
        match state.current.take() {
            Some((current, sender)) if current == request_id => sender.send(end).is_ok(),
            other => {
                state.current = other;
                false
            }
        }
    }

    /// The runtime gave up before it asked for an invocation.
    pub(super) fn fail(&self, payload: Vec<u8>) {
        if let Some((_, sender)) = self.state().current.take() {
            let _ = sender.send(End::Error(payload));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for the end of the process, or brings it about.
async fn watch(process: Arc<Process>, mut child: Child) {
    // To wait for a child closes its input, and with it, it would end.
    let _stdin = child.stdin.take();
    tokio::select! {
        _ = child.wait() => {}
        () = process.kill.notified() => {
            let _ = child.kill().await;
        }
    }
    process.output.take();
    let mut state = process.state();
    state.alive = false;
    // Whoever waits learns of it by the sender that is dropped.
    state.current = None;
}

fn command(function: &Function, host: &Host, runtime_api: SocketAddr, output: &Output) -> std::io::Result<Command> {
    let mut command = if let Some(bootstrap) = host.bootstraps.get(&function.binary) {
        Command::new(bootstrap)
    } else {
        let mut command = Command::new(&host.program);
        command.args(&host.arguments).arg(&function.binary);
        command
    };
    command
        .env_clear()
        .envs(&function.environment)
        .envs([
            ("AWS_LAMBDA_RUNTIME_API", runtime_api.to_string().as_str()),
            ("AWS_LAMBDA_FUNCTION_NAME", function.binary.as_str()),
            ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", &function.memory.to_string()),
            ("AWS_LAMBDA_LOG_FORMAT", "JSON"),
            ("AWS_LAMBDA_LOG_LEVEL", &function.log_level),
            ("AWS_REGION", REGION),
            ("AWS_DEFAULT_REGION", REGION),
            ("AWS_ACCESS_KEY_ID", &access_key(&function.binary)),
            ("AWS_SECRET_ACCESS_KEY", ACCESS_KEY),
        ])
        // Last, for it may say who the function is and where.
        .envs(&host.environment)
        // The end of this pipe tells the process that the stack is gone, however it went.
        .stdin(Stdio::piped())
        .stdout(output.stdio()?)
        .stderr(output.stdio()?)
        .kill_on_drop(true);
    Ok(command)
}
