//! The way from a client to the embedded database, inside one process: where requests go wrong.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use aws_sdk_dynamodb::config::RuntimeComponents;
use aws_smithy_runtime_api::{
    client::{
        http::{HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector},
        orchestrator::{HttpRequest, HttpResponse},
        result::ConnectorError,
    },
    http::StatusCode,
};
use dynoxide::{Database, errors::DynoxideError};
use fastrand::Rng;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{sync::Notify, time::sleep};

use crate::{
    mutation::Mutation,
    partial::put_all,
    schedule::{Fault, FaultKind, Point},
};

tokio::task_local! {
    /// The invocation that a request comes from.
    pub(crate) static CALLER: Arc<Caller>;
}

/// The operation that sends many statements.
pub(crate) const STATEMENTS: &str = "BatchExecuteStatement";

/// What a panic that was asked for carries.
pub(crate) struct Asked;

/// An invocation of a function.
#[derive(Debug, Default)]
pub(crate) struct Caller {
    pub(crate) is_writer: bool,
    /// The process is to be killed.
    pub(crate) kill: Notify,
    /// Whether something went wrong on its way.
    pub(crate) hindered: Mutex<bool>,
}

impl Caller {
    pub(crate) fn writer() -> Arc<Self> {
        Arc::new(Self {
            is_writer: true,
            ..Self::default()
        })
    }

    pub(crate) fn hinder(&self) {
        *lock(&self.hindered) = true;
    }
}

/// The way to the database. Requests outside of an invocation are those of the mapping, or of a reader.
#[derive(Clone)]
pub(crate) struct Wire(Arc<Inner>);

struct Inner {
    database: Database,
    mutation: Option<Mutation>,
    plan: Mutex<Plan>,
}

/// What goes wrong, and what has gone wrong so far.
struct Plan {
    faults: Vec<Fault>,
    seen: HashMap<Point, u32>,
    fired: BTreeMap<String, u64>,
    over: bool,
    rng: Rng,
}

impl Wire {
    pub(crate) fn new(database: Database, seed: u64, faults: Vec<Fault>, mutation: Option<Mutation>) -> Self {
        Self(Arc::new(Inner {
            database,
            mutation,
            plan: Mutex::new(Plan {
                faults,
                seen: HashMap::new(),
                fired: BTreeMap::new(),
                over: false,
                rng: Rng::with_seed(seed ^ 0x5eed),
            }),
        }))
    }

    pub(crate) fn mutation(&self) -> Option<Mutation> {
        self.0.mutation
    }

    /// Sends a request that nothing happens to.
    pub(crate) fn by_hand(&self, operation: &str, body: Value) -> Result<Value, String> {
        match dispatch(&self.0.database, operation, body) {
            Ok(answer) => serde_json::from_str(&answer).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_json()),
        }
    }

    /// What goes wrong at this point now.
    pub(crate) fn fault(&self, point: Point) -> Option<FaultKind> {
        let mut plan = lock(&self.0.plan);
        let seen = plan.seen.entry(point).or_default();
        let index = *seen;
        *seen += 1;
        // Readers come when all else is done.
        if plan.over && point != Point::BatchGet {
            return None;
        }
        let due = |fault: &&Fault| fault.on == point && (fault.nth..fault.nth + fault.times).contains(&index);
        plan.faults.iter().find(due).map(|fault| fault.kind)
    }

    /// Counts a fault that happened.
    pub(crate) fn happened(&self, name: &str) {
        *lock(&self.0.plan).fired.entry(name.to_owned()).or_default() += 1;
    }

    pub(crate) fn fired(&self) -> BTreeMap<String, u64> {
        lock(&self.0.plan).fired.clone()
    }

    /// From now on nothing goes wrong but for readers.
    pub(crate) fn calm(&self) {
        lock(&self.0.plan).over = true;
    }

    pub(crate) fn draw<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        draw(&mut lock(&self.0.plan).rng)
    }

    async fn answer(self, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        let body = request.body().bytes().unwrap_or_default();
        let body: Value = serde_json::from_slice(body).map_err(|error| ConnectorError::user(error.into()))?;
        let caller = CALLER.try_with(Arc::clone).ok();
        let fault = point(&operation, caller.as_deref()).and_then(|point| self.fault(point));
        let fault = fault.filter(|kind| match kind {
            FaultKind::TransactionConflict => operation == "TransactWriteItems",
            FaultKind::StatementsThrottled | FaultKind::Refused => operation == STATEMENTS,
            _ => true,
        });
        if let Some(kind) = fault {
            self.happened(name(kind));
            if let Some(caller) = &caller {
                caller.hinder();
            }
        }
        self.delay().await;
        let answer = match fault {
            None => self.effect(&operation, body),
            Some(FaultKind::StatementsThrottled) => self.throttled_in_part(body),
            Some(FaultKind::Refused) => refused(400, "ValidationException"),
            Some(FaultKind::Throttled) => refused(400, "ProvisionedThroughputExceededException"),
            Some(FaultKind::ErrorBefore) => refused(500, "InternalServerError"),
            Some(FaultKind::ErrorAfter) => {
                let _ = self.effect(&operation, body);
                refused(500, "InternalServerError")
            }
            Some(FaultKind::AnswerDropped) => {
                let _ = self.effect(&operation, body);
                return Err(ConnectorError::io("the connection was reset".into()));
            }
            Some(FaultKind::TimeOut) => {
                let answer = self.effect(&operation, body);
                sleep(Duration::from_millis(2500)).await;
                answer
            }
            Some(FaultKind::Hang) => std::future::pending().await,
            Some(FaultKind::TransactionConflict) => Answer {
                status: 400,
                body: json!({
                    "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
                    "CancellationReasons": [{"Code": "TransactionConflict"}, {"Code": "None"}],
                })
                .to_string(),
            },
            Some(FaultKind::Unprocessed) => self.unprocessed(&operation, body),
            Some(FaultKind::Panic) => std::panic::panic_any(Asked),
            Some(kind) => {
                if kind == FaultKind::KilledAfter {
                    let _ = self.effect(&operation, body);
                }
                if let Some(caller) = &caller {
                    caller.kill.notify_one();
                }
                std::future::pending().await
            }
        };
        self.delay().await;
        response(answer)
    }

    /// What the request does, and its answer.
    pub(crate) fn effect(&self, operation: &str, mut body: Value) -> Answer {
        if let Some(mutation) = self.mutation() {
            mutation.request(operation, &mut body);
            if let Some(puts) = mutation.puts(operation, &body) {
                return put_all(&self.0.database, puts);
            }
        }
        let request = body.clone();
        let (status, mut body) = match dispatch(&self.0.database, operation, body) {
            Ok(body) => (200, body),
            Err(error) => (error.status_code(), error.to_json()),
        };
        if let (Some(mutation), Ok(mut answer)) = (self.mutation(), serde_json::from_str(&body)) {
            mutation.answer(operation, &request, &mut answer);
            body = answer.to_string();
        }
        Answer { status, body }
    }

    async fn delay(&self) {
        let millis = self.draw(|rng| rng.u64(0..12));
        if millis > 0 {
            sleep(Duration::from_millis(millis)).await;
        }
    }
}

/// Where a request can go wrong, `None` for what no schedule touches.
fn point(operation: &str, caller: Option<&Caller>) -> Option<Point> {
    let Some(caller) = caller else {
        return match operation {
            "GetRecords" | "GetShardIterator" | "DescribeStream" => Some(Point::Poll),
            "BatchGetItem" => Some(Point::BatchGet),
            _ => None,
        };
    };
    match operation {
        "UpdateItem" | "TransactWriteItems" => Some(Point::Bump),
        "GetItem" | "BatchGetItem" => Some(Point::Read),
        "PutItem" if caller.is_writer => Some(Point::InlinePut),
        "PutItem" | STATEMENTS => Some(Point::Put),
        _ => None,
    }
}

/// What a fault is called in the summary.
pub(crate) fn name(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::Throttled => "throttled",
        FaultKind::ErrorBefore => "error-before",
        FaultKind::ErrorAfter => "error-after",
        FaultKind::AnswerDropped => "answer-dropped",
        FaultKind::TimeOut => "time-out",
        FaultKind::Hang => "hang",
        FaultKind::TransactionConflict => "transaction-conflict",
        FaultKind::StatementsThrottled => "statements-throttled",
        FaultKind::Refused => "request-refused",
        FaultKind::Unprocessed => "unprocessed",
        FaultKind::Panic => "panic",
        FaultKind::KilledBefore => "killed-before",
        FaultKind::KilledAfter => "killed-after",
        FaultKind::NotInvoked => "not-invoked",
        FaultKind::FunctionTimeOut => "function-time-out",
        FaultKind::Redelivered => "redelivered",
        FaultKind::RedeliveredInPart => "redelivered-in-part",
        FaultKind::RedeliveredOutOfOrder => "redelivered-out-of-order",
        FaultKind::BadAnswer => "bad-answer",
    }
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

fn refused(status: u16, code: &str) -> Answer {
    Answer {
        status,
        body: json!({"__type": format!("com.amazonaws.dynamodb.v20120810#{code}")}).to_string(),
    }
}

fn response(answer: Answer) -> Result<HttpResponse, ConnectorError> {
    let status = StatusCode::try_from(answer.status).map_err(|error| ConnectorError::user(error.into()))?;
    let mut response = HttpResponse::new(status, answer.body.into());
    response.headers_mut().insert("x-amzn-requestid", "simulated");
    Ok(response)
}

pub(crate) fn dispatch(database: &Database, operation: &str, body: Value) -> Result<String, DynoxideError> {
    fn run<Q: DeserializeOwned, A: Serialize>(
        body: Value,
        send: impl FnOnce(Q) -> Result<A, DynoxideError>,
    ) -> Result<String, DynoxideError> {
        let unreadable = |error: serde_json::Error| DynoxideError::SerializationException(error.to_string());
        let answer = send(serde_json::from_str(&body.to_string()).map_err(unreadable)?)?;
        serde_json::to_string(&answer).map_err(unreadable)
    }
    match operation {
        "CreateTable" => run(body, |request| database.create_table(request)),
        "PutItem" => run(body, |request| database.put_item(request)),
        "GetItem" => run(body, |request| database.get_item(request)),
        "UpdateItem" => run(body, |request| database.update_item(request)),
        "DeleteItem" => run(body, |request| database.delete_item(request)),
        "Query" => run(body, |request| database.query(request)),
        "Scan" => run(body, |request| database.scan(request)),
        STATEMENTS => run(body, |request| database.batch_execute_statement(request)),
        "BatchGetItem" => run(body, |request| database.batch_get_item(request)),
        "TransactWriteItems" => run(body, |request| database.transact_write_items(request)),
        "DescribeStream" => run(body, |request| database.describe_stream(request)),
        "GetShardIterator" => run(body, |request| database.get_shard_iterator(request)),
        "GetRecords" => run(body, |request| database.get_records(request)),
        _ => Err(DynoxideError::SerializationException(format!(
            "{operation} is not simulated"
        ))),
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wire")
    }
}

impl HttpConnector for Wire {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        HttpConnectorFuture::new(self.clone().answer(request))
    }
}

impl HttpClient for Wire {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

/// A lock that a panic elsewhere does not spoil.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sequence numbers of the records of a payload.
pub(crate) fn numbers(payload: &Value) -> HashSet<String> {
    let records = payload.get("Records").and_then(Value::as_array);
    let number = |record: &Value| Some(record.pointer("/dynamodb/SequenceNumber")?.as_str()?.to_owned());
    records.into_iter().flatten().filter_map(number).collect()
}
