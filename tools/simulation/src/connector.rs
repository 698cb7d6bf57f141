//! HTTP connector of the SDK clients: sends requests to the embedded database, in the same process, and injects faults.
//!
//! Each request is assigned to a [`Point`] by its operation and its sender. The schedule defines which requests at a point fail,
//! and how. Without a fault a request takes a few milliseconds of virtual time. Mutations change requests and responses here.

mod partial;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use aws_smithy_runtime_api::client::{
    orchestrator::{HttpRequest, HttpResponse},
    result::ConnectorError,
};
use dynoxide::Database;
use fastrand::Rng;
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::{
    sync::{Notify, futures::Notified},
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::{
    caller::{Author, CALLER, Caller, lock},
    database::{self, BATCH_EXECUTE_STATEMENT, put_all},
    error::SimulationError,
    http::{self, Response, Service},
    mutation::Mutation,
    plan::{FaultPlan, point},
    requests,
    schedule::{Fault, FaultKind, Point},
    stream::{Stream, Write},
    windows::{Scope, Windows},
};

/// The mapping can be disabled for 25 hours.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(26 * 3600);

/// Payload of a panic that a fault causes.
pub(crate) struct InjectedPanic;

#[derive(Clone)]
pub(crate) struct Connector(Arc<Inner>);

struct Inner {
    database: Database,
    started: Instant,
    mutation: Option<Mutation>,
    stream: Stream,
    windows: Mutex<Windows>,
    plan: Mutex<FaultPlan>,
    /// `true` if eventually consistent queries of stream-fn return an earlier state.
    is_stale: AtomicBool,
    /// Tasks that nothing waits for before the faults stop.
    late: Mutex<Vec<JoinHandle<()>>>,
    /// Wakes its waiters, in their order, with each request that can change the table. A `watch` wakes them in a random order.
    writes: Notify,
}

impl Connector {
    pub(crate) fn new(database: Database, seed: u64, faults: Vec<Fault>, mutation: Option<Mutation>) -> Self {
        Self(Arc::new(Inner {
            database,
            started: Instant::now(),
            mutation,
            stream: Stream::default(),
            windows: Mutex::default(),
            plan: Mutex::new(FaultPlan::new(seed, faults)),
            is_stale: AtomicBool::new(false),
            late: Mutex::default(),
            writes: Notify::new(),
        }))
    }

    pub(crate) fn mutation(&self) -> Option<Mutation> {
        self.0.mutation
    }

    /// Creates a table, see [`database::create_table`].
    pub(crate) fn create_table(
        &self,
        name: &str,
        keys: &[&str],
        view: Option<&str>,
    ) -> Result<String, SimulationError> {
        database::create_table(&self.0.database, name, keys, view)
    }

    /// Opens the stream of the table, with this number of shards.
    pub(crate) fn open_stream(&self, arn: &str, shards: u32) -> Result<(), SimulationError> {
        self.0.stream.open(&self.0.database, arn, shards)
    }

    /// Shows the writes to the table of history in the stream, as if both tables were one.
    pub(crate) fn open_history(&self, arn: &str) -> Result<(), SimulationError> {
        self.0.stream.open_history(&self.0.database, arn)
    }

    /// Lets eventually consistent queries of stream-fn return an earlier state.
    pub(crate) fn read_stale(&self, is_stale: bool) {
        self.0.is_stale.store(is_stale, Ordering::Relaxed);
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.0.stream
    }

    /// Sends a request without faults, as another program.
    pub(crate) fn send(&self, operation: &'static str, body: Value) -> Result<Value, SimulationError> {
        let output = database::send(&self.0.database, operation, &body);
        self.written(operation, &Author::Other, None)?;
        output
    }

    /// Puts an item, as another program.
    pub(crate) fn put(&self, table: &str, item: &Value) -> Result<Value, SimulationError> {
        self.send("PutItem", json!({"TableName": table, "Item": item}))
    }

    /// Reads all items of a table without faults, page by page.
    pub(crate) fn scan(&self, table: &str) -> Result<Vec<Value>, SimulationError> {
        let (mut items, mut request) = (Vec::new(), json!({"TableName": table}));
        loop {
            let mut page = self.send("Scan", request.clone())?;
            if let Value::Array(read) = page["Items"].take() {
                items.extend(read);
            }
            match page["LastEvaluatedKey"].take() {
                Value::Null => return Ok(items),
                key => request["ExclusiveStartKey"] = key,
            }
        }
    }

    /// Deletes the items that have expired. Returns their number.
    pub(crate) fn expire(&self) -> Result<usize, SimulationError> {
        let expired = self.0.database.sweep_ttl();
        self.written("DeleteItem", &Author::Other, None)?;
        let operation = "DeleteItem";
        expired.map_err(|source| SimulationError::Request { operation, source })
    }

    /// Closes a shard of the stream and continues it in others.
    pub(crate) fn split(&self) {
        let (choice, in_two) = self.draw(|rng| (rng.usize(..100), rng.u8(..4) > 0));
        if self.0.stream.split(choice, in_two) {
            self.count("shard-split");
            // The readers of the shard learn that it has ended.
            self.0.writes.notify_waiters();
        }
    }

    /// Lets requests fail for a while.
    pub(crate) fn open_window(&self, scope: Scope, duration: Duration) {
        lock(&self.0.windows).open(Instant::now() + duration, scope);
    }

    pub(crate) fn is_stream_denied(&self) -> bool {
        lock(&self.0.windows).is_stream_denied()
    }

    /// Counts a request at this point, and returns its fault, if any.
    pub(crate) fn fault(&self, point: Point) -> Option<FaultKind> {
        lock(&self.0.plan).fault(point)
    }

    pub(crate) fn count(&self, fault: &str) {
        lock(&self.0.plan).count(fault);
    }

    /// Returns a future that waits for the next request that can change the table.
    pub(crate) fn next_write(&self) -> Notified<'_> {
        self.0.writes.notified()
    }

    /// Copies the records of a write to the stream. `process` is the number of the writer process.
    fn written(&self, operation: &str, author: &Author, process: Option<usize>) -> Result<(), SimulationError> {
        if !database::is_read(operation) && operation != "CreateTable" {
            let by = Write {
                author: author.clone(),
                process,
                at: self.0.started.elapsed(),
            };
            self.0.stream.copy(&self.0.database, &by)?;
            self.0.writes.notify_waiters();
        }
        Ok(())
    }

    /// Runs a task that its cause does not wait for.
    pub(crate) fn run_late(&self, task: impl Future<Output = ()> + Send + 'static) {
        lock(&self.0.late).push(tokio::spawn(task));
    }

    pub(crate) fn faults(&self) -> BTreeMap<String, u64> {
        lock(&self.0.plan).occurred().clone()
    }

    /// Stops all faults except those of readers, and waits for all late tasks.
    pub(crate) async fn stop_faults(&self) {
        lock(&self.0.plan).stop();
        lock(&self.0.windows).close();
        let late = std::mem::take(&mut *lock(&self.0.late));
        join_all(late).await;
    }

    /// Waits until the mapping reached the end of the stream. `false` if it did not in time.
    pub(crate) async fn settle(&self) -> bool {
        let started = Instant::now();
        while started.elapsed() < SETTLE_TIMEOUT {
            if self.stream().is_done() {
                return true;
            }
            // Most runs end soon, and some after a day.
            sleep((started.elapsed() / 20).max(Duration::from_millis(250))).await;
        }
        false
    }

    pub(crate) fn draw<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        draw(lock(&self.0.plan).rng())
    }

    /// Waits before a retry. The first attempt has the number 0 and does not wait.
    pub(crate) async fn back_off(&self, attempt: u32) {
        if attempt > 0 {
            let millis = self.draw(|rng| rng.u64(50..600));
            sleep(Duration::from_millis(millis)).await;
        }
    }

    /// Returns the fault of a request: of a window that is open, or of its point.
    fn fault_of(&self, operation: &str, caller: Option<&Caller>, body: &impl Fn() -> Value) -> Option<FaultKind> {
        if let Some(scope) = lock(&self.0.windows).of_request(operation, caller, body) {
            let fault = match scope {
                Scope::StreamFunctionFails | Scope::WriterFails => Some(FaultKind::ErrorBefore),
                Scope::Lossy { percent, .. } => self.draw(|rng| loss(rng, *percent)),
                Scope::SuccessUnanswered { .. } => Some(FaultKind::SuccessUnanswered),
                Scope::Partition(_) | Scope::LayoutThrottled => Some(FaultKind::Throttled),
                Scope::Unresponsive => Some(FaultKind::Hang),
                _ => Some(FaultKind::Denied),
            };
            if fault.is_some() {
                self.count(scope.name());
                return fault;
            }
        }
        let point = point(operation, caller)?;
        let is_write = point == Point::Operator && !database::is_read(operation);
        let of_write = is_write.then(|| self.fault(Point::OperatorWrite)).flatten();
        let fault = self.fault(point).or(of_write)?;
        let is_possible = match fault {
            FaultKind::TransactionConflict => operation == "TransactWriteItems",
            FaultKind::StatementsThrottled | FaultKind::StatementsApplied => operation == BATCH_EXECUTE_STATEMENT,
            // A request is rejected as a whole because of another statement.
            FaultKind::Rejected => {
                operation == BATCH_EXECUTE_STATEMENT && body()["Statements"].as_array().is_some_and(|all| all.len() > 1)
            }
            _ => true,
        };
        if !is_possible {
            return None;
        }
        self.count(&fault.name());
        Some(fault)
    }

    /// Executes a request after its sender has stopped waiting for it.
    fn execute_late(&self, operation: String, mut body: Value) {
        let wait = self.draw(|rng| match rng.bool() {
            true => Duration::from_millis(rng.u64(2000..10_000)),
            false => Duration::from_secs(rng.u64(10..600)),
        });
        if let Some(mutation) = self.mutation() {
            mutation.delayed(&operation, &mut body);
        }
        let connector = self.clone();
        let caller = Caller::current().unwrap_or_else(|| Caller::new(Author::Other));
        self.run_late(CALLER.scope(caller, async move {
            sleep(wait).await;
            let _ = connector.execute(&operation, body.to_string().as_bytes());
        }));
    }

    /// Executes a request, which the mutation may change.
    fn execute(&self, operation: &str, body: &[u8]) -> Response {
        let response = match self.mutation() {
            None => self.execute_as_is(operation, body),
            Some(mutation) => self.execute_mutated(mutation, operation, body),
        };
        let caller = Caller::current();
        let author = caller.as_ref().map_or(Author::Other, |caller| caller.author().clone());
        match self.written(operation, &author, caller.and_then(|caller| caller.process())) {
            Ok(()) => response,
            Err(_) => Response::error(500, "InternalServerError"),
        }
    }

    fn execute_as_is(&self, operation: &str, body: &[u8]) -> Response {
        let is_stale = self.0.is_stale.load(Ordering::Relaxed)
            && operation == "Query"
            && Caller::current().is_some_and(|caller| caller.is_stream_function());
        if is_stale && let Some(response) = self.read_earlier(body) {
            return response;
        }
        database::respond(&self.0.database, operation, body)
    }

    fn execute_mutated(&self, mutation: Mutation, operation: &str, body: &[u8]) -> Response {
        let caller = Caller::current();
        let mut request: Value = serde_json::from_slice(body).unwrap_or_default();
        mutation.request(operation, &mut request);
        if let Some(puts) = mutation.puts(operation, &request) {
            return put_all(&self.0.database, puts);
        }
        let mut response = self.execute_as_is(operation, request.to_string().as_bytes());
        if let Ok(mut body) = serde_json::from_str(&response.body) {
            mutation.response(operation, caller.as_deref(), &request, &mut body);
            response.body = body.to_string();
        }
        response
    }

    /// Executes a request of an operator to another service.
    pub(crate) async fn external(&self, execute: impl Fn() -> Response) -> Result<HttpResponse, ConnectorError> {
        let fault = self.fault(Point::External);
        if let Some(kind) = fault {
            self.count(&kind.name());
        }
        let response = match fault {
            None => execute(),
            Some(FaultKind::KilledBefore) => killed().await,
            Some(kind) => {
                execute();
                match kind {
                    FaultKind::KilledAfter => killed().await,
                    _ => Response::error(500, "InternalServerError"),
                }
            }
        };
        response.into_http()
    }

    async fn delay(&self) {
        let millis = self.draw(|rng| rng.u64(0..12));
        if millis > 0 {
            sleep(Duration::from_millis(millis)).await;
        }
    }
}

/// Ends the process of the current request.
async fn killed<T>() -> T {
    if let Some(caller) = Caller::current() {
        caller.kill.notify_one();
    }
    std::future::pending().await
}

/// Returns the fault of a request, if it is lost: each request and each response with this probability.
fn loss(rng: &mut Rng, percent: u8) -> Option<FaultKind> {
    const OF_REQUEST: &[FaultKind] = &[FaultKind::RequestDropped, FaultKind::Hang, FaultKind::Delayed];
    const OF_RESPONSE: &[FaultKind] = &[FaultKind::ResponseDropped, FaultKind::TimeOut];
    [OF_REQUEST, OF_RESPONSE]
        .into_iter()
        .find_map(|faults| (rng.u8(..100) < percent).then(|| faults[rng.usize(..faults.len())]))
}

/// Notes which items of its sender a fault hinders.
fn hinder(fault: FaultKind, operation: &str, caller: Option<&Caller>, body: &Value) {
    let Some(caller) = caller else { return };
    match fault {
        FaultKind::Panic | FaultKind::KilledBefore | FaultKind::KilledAfter => caller.hinder_all(),
        // Without the check of the layout, no record is processed.
        _ if operation == "DescribeTable" => caller.hinder_all(),
        _ => lock(&caller.hindered).extend(requests::keys(operation, body)),
    }
    caller.set_fault();
}

impl Service for Connector {
    async fn respond(self, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let operation = http::operation(&request).to_owned();
        let body = request.body().bytes().unwrap_or_default();
        let json = || serde_json::from_slice::<Value>(body).unwrap_or_default();
        let caller = Caller::current();
        let fault = self.fault_of(&operation, caller.as_deref(), &json);
        if let Some(kind) = fault {
            hinder(kind, &operation, caller.as_deref(), &json());
        }
        self.delay().await;
        let response = match fault {
            None => self.execute(&operation, body),
            Some(FaultKind::StatementsThrottled) => self.fail_every_second(json(), false),
            Some(FaultKind::StatementsApplied) => self.fail_every_second(json(), true),
            Some(FaultKind::Denied) => Response::error(400, "AccessDeniedException"),
            Some(FaultKind::Rejected) => Response::error(400, "ValidationException"),
            Some(FaultKind::Throttled) => Response::error(400, "ProvisionedThroughputExceededException"),
            Some(FaultKind::ErrorBefore) => Response::error(500, "InternalServerError"),
            Some(FaultKind::ErrorAfter) => {
                let _ = self.execute(&operation, body);
                Response::error(500, "InternalServerError")
            }
            Some(FaultKind::ResponseDropped) => {
                let _ = self.execute(&operation, body);
                return Err(ConnectorError::io("the connection was reset".into()));
            }
            Some(FaultKind::TimeOut) => {
                let response = self.execute(&operation, body);
                sleep(Duration::from_millis(2500)).await;
                response
            }
            Some(FaultKind::RequestDropped) => return Err(ConnectorError::io("the connection was reset".into())),
            Some(FaultKind::SuccessUnanswered) => {
                let response = self.execute(&operation, body);
                if response.status == 200 {
                    sleep(Duration::from_millis(2500)).await;
                }
                response
            }
            Some(FaultKind::Hang) => std::future::pending().await,
            Some(FaultKind::Delayed) => {
                self.execute_late(operation, json());
                std::future::pending().await
            }
            Some(FaultKind::TransactionConflict) => Response {
                status: 400,
                body: json!({
                    "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
                    "CancellationReasons": [{"Code": "TransactionConflict"}, {"Code": "None"}],
                })
                .to_string(),
            },
            Some(FaultKind::Unprocessed) => self.leave_half_unprocessed(&operation, json()),
            Some(FaultKind::Panic) => std::panic::panic_any(InjectedPanic),
            Some(kind) => {
                if kind == FaultKind::KilledAfter {
                    let _ = self.execute(&operation, body);
                }
                killed().await
            }
        };
        self.delay().await;
        response.into_http()
    }
}
