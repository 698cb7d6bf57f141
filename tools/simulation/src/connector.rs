//! HTTP connector of the SDK clients: sends requests to the embedded database, in the same process, and injects faults.
//!
//! Each request is assigned to a [`Point`] by its operation and its sender. The schedule defines which requests at a point fail,
//! and how. Without a fault a request takes a few milliseconds of virtual time. Mutations change requests and responses here.

mod faulty;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
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
    sync::Notify,
    task::JoinHandle,
    time::{Instant, sleep},
};

pub(crate) use self::faulty::{InjectedPanic, SLOW, STALENESS, TOO_LATE, killed};
use crate::{
    caller::{Author, CALLER, Caller, lock},
    database::{self, put_all},
    error::SimulationError,
    faults::FaultPlan,
    http::{self, Response, Service},
    mutation::{Mutation, Mutations},
    requests,
    schedule::{Fault, FaultKind, Point},
    stream::{Stream, Write},
};

/// The mapping can be disabled for 25 hours.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(26 * 3600);

#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) database: Database,
    started: Instant,
    pub(crate) mutations: Mutations,
    pub(crate) stream: Stream,
    pub(crate) plan: Arc<Mutex<FaultPlan>>,
    /// Tasks that nothing waits for before the faults stop.
    late: Arc<Mutex<Vec<JoinHandle<()>>>>,
    /// Wakes its waiters, in their order, with each request that can change the table. A `watch` wakes them in a random order.
    pub(crate) writes: Arc<Notify>,
}

impl Connector {
    pub(crate) fn new(database: Database, seed: u64, faults: Vec<Fault>, mutation: Option<Mutation>) -> Self {
        Self {
            database,
            started: Instant::now(),
            mutations: Mutations(mutation),
            stream: Stream::default(),
            plan: Arc::new(Mutex::new(FaultPlan::new(seed, faults))),
            late: Arc::default(),
            writes: Arc::default(),
        }
    }

    /// Sends a request without faults, as another program.
    pub(crate) fn send(&self, operation: &'static str, body: Value) -> Result<Value, SimulationError> {
        let output = database::send(&self.database, operation, &body);
        self.written(operation, &Author::Other, None)?;
        output
    }

    /// Creates a table with a stream and expiring items, and with the index by time or without, and returns the ARN of the stream.
    pub(crate) fn create_table(&self, name: &str, is_indexed: bool) -> Result<String, SimulationError> {
        let arn = database::create_table(&self.database, name, &["PK", "SK"], Some("NEW_IMAGE"), is_indexed)?;
        let ttl = json!({"TableName": name, "TimeToLiveSpecification": {"Enabled": true, "AttributeName": "TTL"}});
        self.send("UpdateTimeToLive", ttl)?;
        Ok(arn)
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
        let (expired, operation) = (self.database.sweep_ttl(), "DeleteItem");
        self.written(operation, &Author::Other, None)?;
        expired.map_err(|source| SimulationError::Request { operation, source })
    }

    /// Closes a shard of the stream and continues it in others.
    pub(crate) fn split(&self) {
        let (choice, in_two) = self.draw(|rng| (rng.usize(..100), rng.u8(..4) > 0));
        if self.stream.split(choice, in_two) {
            self.count("shard-split");
            // The readers of the shard learn that it has ended.
            self.writes.notify_waiters();
        }
    }

    /// Notes a request or invocation at this point, and returns its fault, if any, which is counted.
    pub(crate) fn fault(&self, point: Point) -> Option<FaultKind> {
        lock(&self.plan).fault(point)
    }

    pub(crate) fn count(&self, fault: &str) {
        lock(&self.plan).count(fault);
    }

    /// Copies the records of a write to the stream. `process` is the number of the writer process.
    fn written(&self, operation: &str, author: &Author, process: Option<usize>) -> Result<(), SimulationError> {
        if !database::is_read(operation) && operation != "CreateTable" {
            let by = Write {
                author: author.clone(),
                process,
                at: self.started.elapsed(),
            };
            self.stream.copy(&self.database, &by)?;
            self.writes.notify_waiters();
        }
        Ok(())
    }

    /// Runs a task that its cause does not wait for.
    pub(crate) fn run_late(&self, task: impl Future<Output = ()> + Send + 'static) {
        lock(&self.late).push(tokio::spawn(task));
    }

    pub(crate) fn faults(&self) -> BTreeMap<String, u64> {
        lock(&self.plan).occurred.clone()
    }

    /// Stops all faults except those of readers, and waits for all late tasks.
    pub(crate) async fn stop_faults(&self) {
        lock(&self.plan).stop();
        let late = std::mem::take(&mut *lock(&self.late));
        join_all(late).await;
    }

    /// Waits until the mapping reached the end of the stream. `false` if it did not in time.
    pub(crate) async fn settle(&self) -> bool {
        let started = Instant::now();
        while started.elapsed() < SETTLE_TIMEOUT {
            if self.stream.is_done() {
                return true;
            }
            // Most runs end soon, and some after a day.
            sleep((started.elapsed() / 20).max(Duration::from_millis(250))).await;
        }
        false
    }

    pub(crate) fn draw<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        draw(&mut lock(&self.plan).rng)
    }

    /// Repeats an attempt, with pauses, until it has a result. `None` if none of this number of attempts has one.
    pub(crate) async fn retry<T>(&self, attempts: u32, mut attempt: impl AsyncFnMut(u32) -> Option<T>) -> Option<T> {
        for number in 0..attempts {
            if number > 0 {
                let millis = self.draw(|rng| rng.u64(50..600));
                sleep(Duration::from_millis(millis)).await;
            }
            if let Some(result) = attempt(number).await {
                return Some(result);
            }
        }
        None
    }

    /// Executes a request after its sender has stopped waiting for it.
    fn execute_late(&self, operation: String, mut body: Value) {
        let wait = self.draw(|rng| match rng.bool() {
            true => Duration::from_millis(rng.u64(2000..10_000)),
            false => Duration::from_secs(rng.u64(10..600)),
        });
        self.mutations.delayed(&operation, &mut body);
        let connector = self.clone();
        let caller = Caller::current().unwrap_or_else(|| Caller::new(Author::Other));
        self.run_late(CALLER.scope(caller, async move {
            sleep(wait).await;
            let _ = connector.execute(&operation, body.to_string().as_bytes());
        }));
    }

    /// Executes a request, which the mutation may change.
    fn execute(&self, operation: &str, body: &[u8]) -> Response {
        let caller = Caller::current();
        let caller = caller.as_deref();
        let response = match self.mutations.0 {
            None => self.execute_as_is(operation, body),
            Some(_) => self.execute_mutated(caller, operation, body),
        };
        let author = caller.map_or(Author::Other, |caller| caller.author.clone());
        match self.written(operation, &author, caller.and_then(|caller| caller.process)) {
            Ok(()) => response,
            Err(_) => Response::error(500, "InternalServerError"),
        }
    }

    fn execute_as_is(&self, operation: &str, body: &[u8]) -> Response {
        let reads_stale = |caller: Arc<Caller>| match operation {
            "Query" => caller.is_stream_function() || caller.is_undo(),
            _ => operation == "Scan" && caller.is_undo(),
        };
        let is_sealer = Caller::current().is_some_and(|caller| caller.is_sealer());
        if is_sealer
            && lock(&self.plan).reads_stale
            && let Some(response) = self.read_of_sealer(operation, body)
        {
            return response;
        }
        let is_stale = lock(&self.plan).reads_stale && Caller::current().is_some_and(reads_stale);
        if is_stale && let Some(response) = self.read_earlier(operation, body) {
            return response;
        }
        database::respond(&self.database, operation, body)
    }

    fn execute_mutated(&self, caller: Option<&Caller>, operation: &str, body: &[u8]) -> Response {
        let mut request: Value = serde_json::from_slice(body).unwrap_or_default();
        self.mutations.request(operation, &mut request);
        if let Some(puts) = self.mutations.puts(operation, &request) {
            return put_all(&self.database, puts);
        }
        if self.mutations.skips(caller, operation, &request) {
            return Response::ok(&json!({}));
        }
        let mut response = self.execute_as_is(operation, request.to_string().as_bytes());
        Mutations::executed(&response);
        self.mutations.answer(caller, &request, &mut response);
        if let Ok(mut body) = serde_json::from_str(&response.body) {
            self.mutations.response(operation, caller, &request, &mut body);
            response.body = body.to_string();
        }
        response
    }

    /// Executes a request of an operator to another service.
    pub(crate) async fn external(&self, execute: impl Fn() -> Response) -> Result<HttpResponse, ConnectorError> {
        let fault = self.fault(Point::External);
        if fault == Some(FaultKind::KilledBefore) {
            killed::<()>().await;
        }
        let response = match (execute(), fault) {
            (response, None) => response,
            (_, Some(FaultKind::KilledAfter)) => killed().await,
            (_, Some(_)) => Response::error(500, "InternalServerError"),
        };
        response.into_http()
    }

    pub(crate) async fn delay(&self) {
        let millis = self.draw(|rng| rng.u64(0..12));
        if millis > 0 {
            sleep(Duration::from_millis(millis)).await;
        }
    }
}

/// Notes which items of its sender a fault hinders.
fn hinder(fault: FaultKind, operation: &str, caller: Option<&Caller>, body: &Value) {
    let Some(caller) = caller else { return };
    let is_deadly = matches!(
        fault,
        FaultKind::Panic | FaultKind::KilledBefore | FaultKind::KilledAfter
    );
    // Without the check of the layout, no record is processed.
    if is_deadly || operation == "DescribeTable" {
        caller.hinder_all();
    } else {
        caller.hinder(requests::keys(operation, body));
    }
}

impl Service for Connector {
    async fn respond(self, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let operation = http::operation(&request);
        let body = request.body().bytes().unwrap_or_default();
        let json = || serde_json::from_slice::<Value>(body).unwrap_or_default();
        let caller = Caller::current();
        let fault = lock(&self.plan).of_request(operation, caller.as_deref(), &json);
        if let Some(fault) = fault {
            hinder(fault, operation, caller.as_deref(), &json());
        }
        self.delay().await;
        let response = match fault {
            None => self.execute(operation, body),
            Some(fault) => self.fail(fault, operation, body).await?,
        };
        self.delay().await;
        response.into_http()
    }
}
