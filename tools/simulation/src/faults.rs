//! The faults of a schedule: their kinds and names, which request at a point or in a window fails, and what occurred.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Debug,
    time::Duration,
};

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use shared::logging::variant;
use tokio::time::Instant;

use crate::{
    caller::{Author, Caller},
    database::{self, BATCH_EXECUTE_STATEMENT, EXECUTE_TRANSACTION},
    requests::keys,
};

/// Sort key of the layout.
const LAYOUT: &str = "config";

/// A fault of the `nth` request or invocation at a point, and of the following ones if `times` > 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Fault {
    pub(crate) on: Point,
    pub(crate) nth: u32,
    pub(crate) times: u32,
    pub(crate) kind: FaultKind,
}

/// A kind of request or invocation that can have a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Point {
    /// The writer's `UpdateItem` or `TransactWriteItems`.
    Bump,
    /// The writer's `GetItem`, or stream-fn's `BatchGetItem`.
    Read,
    /// The writer's `PutItem`.
    InlinePut,
    /// stream-fn's `PutItem`, `BatchExecuteStatement`, or `TransactWriteItems` of a record in quarantine.
    Put,
    /// A request of the mapping to the stream.
    Poll,
    /// An invocation of stream-fn.
    Invoke,
    /// An invocation of a writer.
    InvokeWriter,
    /// A request of an operator's command.
    Operator,
    /// One of these that changes the table.
    OperatorWrite,
    /// A request of an operator's command to S3 or SQS.
    External,
    /// `BatchGetItem` of a reader of the history.
    BatchGet,
    /// The compare-and-swap of the state of the log.
    Swap,
    /// The put of the published checkpoint.
    Publish,
    /// Another request of seal-fn to DynamoDB, S3 or KMS, and no query.
    Seal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum FaultKind {
    Throttled,
    ErrorBefore,
    ErrorAfter,
    ResponseDropped,
    TimeOut,
    Hang,
    TransactionConflict,
    /// The request arrives some hundred milliseconds later than others.
    Slow,
    /// The connection is reset before the request is executed.
    RequestDropped,
    /// The response of a request arrives too late, if the request succeeds.
    SuccessUnanswered,
    /// The request is executed long after its sender has stopped waiting for it.
    Delayed,
    /// Every second statement of a request is throttled.
    StatementsThrottled,
    /// Every statement of a request is executed, and every second one is reported as failed.
    StatementsApplied,
    /// IAM denies the action.
    Denied,
    /// The iterator of a shard has expired.
    IteratorExpired,
    /// A whole request of statements is rejected.
    Rejected,
    Unprocessed,
    Panic,
    KilledBefore,
    KilledAfter,
    // Faults of a whole invocation.
    NotInvoked,
    FunctionTimeOut,
    Redelivered,
    RedeliveredInPart,
    RedeliveredOutOfOrder,
    BadResponse,
    /// The function is deployed with another width of version keys.
    WrongLayout,
    /// The function is deployed with another table of history.
    WrongHistory,
}

/// Returns the name under which the result counts a kind of fault or of command, such as `error-before`.
pub(crate) fn name(kind: &impl Debug) -> String {
    let mut name = String::new();
    for letter in variant(kind).chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

pub(crate) struct FaultPlan {
    faults: Vec<Fault>,
    /// Faults that last, each with its end.
    windows: Vec<(Instant, Scope)>,
    seen: HashMap<Point, u32>,
    pub(crate) occurred: BTreeMap<String, u64>,
    stopped: bool,
    /// `true` if eventually consistent reads of stream-fn and of undos return an earlier state.
    pub(crate) reads_stale: bool,
    /// The random numbers of the run.
    pub(crate) rng: Rng,
}

impl FaultPlan {
    pub(crate) fn new(seed: u64, faults: Vec<Fault>) -> Self {
        Self {
            faults,
            windows: Vec::new(),
            seen: HashMap::new(),
            occurred: BTreeMap::new(),
            stopped: false,
            reads_stale: false,
            rng: Rng::with_seed(seed ^ 0x5eed),
        }
    }

    /// Counts something that occurred.
    pub(crate) fn count(&mut self, fault: &str) {
        *self.occurred.entry(fault.to_owned()).or_default() += 1;
    }

    /// Lets requests fail for a while.
    pub(crate) fn open_window(&mut self, scope: Scope, duration: Duration) {
        self.windows.push((Instant::now() + duration, scope));
    }

    /// Stops all faults except those of readers.
    pub(crate) fn stop(&mut self) {
        self.stopped = true;
        self.windows.clear();
    }

    /// Returns `true` if the stream cannot be read.
    pub(crate) fn is_stream_denied(&self) -> bool {
        self.open_scopes().any(|scope| *scope == Scope::StreamDenied)
    }

    fn open_scopes(&self) -> impl Iterator<Item = &Scope> {
        let now = Instant::now();
        let open = self.windows.iter().filter(move |(until, _)| now < *until);
        open.map(|(_, scope)| scope)
    }

    /// Notes a request or invocation at this point, and returns its fault, if any, which occurs.
    pub(crate) fn fault(&mut self, point: Point) -> Option<FaultKind> {
        let fault = self.planned(point)?;
        self.count(&name(&fault));
        Some(fault)
    }

    fn planned(&mut self, point: Point) -> Option<FaultKind> {
        let seen = self.seen.entry(point).or_default();
        let index = *seen;
        *seen += 1;
        // Readers start after the faults stopped.
        if self.stopped && point != Point::BatchGet {
            return None;
        }
        let due = |fault: &&Fault| fault.on == point && (fault.nth..fault.nth + fault.times).contains(&index);
        self.faults.iter().find(due).map(|fault| fault.kind)
    }

    /// Returns the fault of a request, which occurs: of a window that is open, or of its point.
    pub(crate) fn of_request(
        &mut self,
        operation: &str,
        caller: Option<&Caller>,
        body: &impl Fn() -> Value,
    ) -> Option<FaultKind> {
        let scope = self.open_scopes().find(|scope| scope.matches(operation, caller, body));
        if let Some((name, fault)) = scope.cloned().and_then(|scope| scope.fault(&mut self.rng)) {
            self.count(name);
            return Some(fault);
        }
        let point = point(operation, caller)?;
        let is_write = point == Point::Operator && !database::is_read(operation);
        let of_write = is_write.then(|| self.planned(Point::OperatorWrite)).flatten();
        let fault = self.planned(point).or(of_write)?;
        let is_batch = operation == BATCH_EXECUTE_STATEMENT;
        let is_possible = match fault {
            FaultKind::TransactionConflict => operation == "TransactWriteItems",
            FaultKind::StatementsThrottled | FaultKind::StatementsApplied => is_batch,
            // A request is rejected as a whole because of another statement.
            FaultKind::Rejected => is_batch && body()["Statements"].as_array().is_some_and(|all| all.len() > 1),
            _ => true,
        };
        if is_possible {
            self.count(&name(&fault));
        }
        is_possible.then_some(fault)
    }
}

/// Returns the point of a request, `None` if schedules have no faults for it.
fn point(operation: &str, caller: Option<&Caller>) -> Option<Point> {
    let Some(caller) = caller else {
        return (operation == "BatchGetItem").then_some(Point::BatchGet);
    };
    match (&caller.author, operation) {
        (Author::Writer(_), "UpdateItem" | "TransactWriteItems") => Some(Point::Bump),
        (Author::Writer(_), "PutItem" | BATCH_EXECUTE_STATEMENT) => Some(Point::InlinePut),
        (Author::StreamFunction, "PutItem" | "TransactWriteItems" | BATCH_EXECUTE_STATEMENT | EXECUTE_TRANSACTION) => {
            Some(Point::Put)
        }
        (Author::Writer(_) | Author::StreamFunction, "GetItem" | "BatchGetItem" | "Query") => Some(Point::Read),
        (Author::Operator | Author::Redrive, _) => Some(Point::Operator),
        (Author::Sealer, "Query") => None,
        (Author::Sealer, "TransactWriteItems") => Some(Point::Swap),
        (Author::Sealer, _) => Some(Point::Seal),
        _ => None,
    }
}

/// Requests that fail while a window is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Scope {
    /// IAM denies every request of the writers.
    WriterDenied,
    /// IAM denies every write of stream-fn.
    StreamFunctionDenied,
    /// Every write of the writers fails.
    WriterFails,
    /// Every write of stream-fn fails.
    StreamFunctionFails,
    /// IAM denies the reads of the stream.
    StreamDenied,
    /// The requests by which a function checks the layout are throttled.
    LayoutThrottled,
    /// IAM denies these requests.
    LayoutDenied,
    /// Every write of items of this entity is throttled.
    Partition(String),
    /// No request of a function gets a response.
    Unresponsive,
    /// Of the writes of the writers to this entity, each request and each response is lost with this probability.
    Lossy { entity: String, percent: u8 },
    /// A writer that delivers this update gets the response to its write too late if the write succeeds.
    SuccessUnanswered { update: usize },
}

impl Scope {
    /// Returns the fault of a request in the window, and the name under which the result counts it. `None` if the request is spared.
    fn fault(&self, rng: &mut Rng) -> Option<(&'static str, FaultKind)> {
        const LOST: [&[FaultKind]; 2] = [
            &[FaultKind::RequestDropped, FaultKind::Hang, FaultKind::Delayed],
            &[FaultKind::ResponseDropped, FaultKind::TimeOut],
        ];
        Some(match self {
            Self::WriterDenied | Self::StreamFunctionDenied => ("action-denied", FaultKind::Denied),
            Self::WriterFails | Self::StreamFunctionFails => ("error-before", FaultKind::ErrorBefore),
            Self::StreamDenied => ("stream-denied", FaultKind::Denied),
            Self::LayoutThrottled => ("layout-unchecked", FaultKind::Throttled),
            Self::LayoutDenied => ("layout-unchecked", FaultKind::Denied),
            Self::Partition(_) => ("partition-throttled", FaultKind::Throttled),
            Self::Unresponsive => ("table-unresponsive", FaultKind::Hang),
            Self::Lossy { percent, .. } => {
                let mut is_lost = |faults: &[FaultKind]| {
                    let is_it = rng.u8(..100) < *percent;
                    is_it.then(|| faults[rng.usize(..faults.len())])
                };
                ("lossy", LOST.into_iter().find_map(&mut is_lost)?)
            }
            Self::SuccessUnanswered { .. } => ("success-unanswered", FaultKind::SuccessUnanswered),
        })
    }

    fn matches(&self, operation: &str, caller: Option<&Caller>, body: &impl Fn() -> Value) -> bool {
        let Some(caller) = caller else { return false };
        let is_read = ["GetItem", "BatchGetItem", "Query"].contains(&operation);
        let names = |entity: &String| keys(operation, &body()).iter().any(|(key, _)| key == entity);
        match self {
            Self::WriterDenied => caller.is_writer(),
            Self::StreamFunctionDenied => caller.is_stream_function() && !is_read,
            Self::WriterFails => caller.is_writer() && !database::is_read(operation),
            Self::StreamFunctionFails => caller.is_stream_function() && !database::is_read(operation),
            Self::StreamDenied => false,
            Self::LayoutThrottled | Self::LayoutDenied => {
                let is_layout = || keys(operation, &body()).iter().any(|(_, key)| key == LAYOUT);
                let is_function = caller.is_writer() || caller.is_stream_function();
                is_function && (operation == "DescribeTable" || is_layout())
            }
            Self::Partition(entity) => !is_read && names(entity),
            Self::Unresponsive => true,
            Self::Lossy { entity, .. } => caller.is_writer() && !is_read && names(entity),
            Self::SuccessUnanswered { update } => caller.delivers(*update) && !is_read,
        }
    }
}
