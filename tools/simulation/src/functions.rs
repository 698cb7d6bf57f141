//! Invocations of the two functions: their own code, in simulated processes that faults can kill.

use std::{
    collections::HashSet,
    panic::AssertUnwindSafe,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::FutureExt as _;
use local::mapping::{InvocationOutcome, Invoker};
use serde_json::{Value, json};
use shared::{
    clock::Deadline,
    domain::{keys::VersionDigits, version::Version},
};
use stream_fn::HistoryWriter;
use tokio::time::{sleep, timeout};

use crate::{
    caller::{Author, CALLER, Caller, MISDEPLOYED, lock},
    connector::Connector,
    mutation::Mutation,
    requests::{sequence_number, text},
    schedule::{FaultKind, Point},
};

pub(crate) const STREAM_TIMEOUT: Duration = Duration::from_secs(60);
pub(crate) const WRITER_TIMEOUT: Duration = Duration::from_secs(30);

/// End of the process of an invocation or of a command.
pub(crate) enum Ended<T> {
    Returned(T),
    /// It panicked or was killed.
    Died,
    /// Lambda ended the invocation at its timeout.
    TimedOut,
}

impl<T> Ended<T> {
    /// Returns the result, `None` if there is none.
    pub(crate) fn returned(self) -> Option<T> {
        match self {
            Self::Returned(result) => Some(result),
            Self::Died | Self::TimedOut => None,
        }
    }
}

/// Runs the future of an invocation or of a command.
pub(crate) async fn process<T>(caller: &Arc<Caller>, limit: Duration, handle: impl Future<Output = T>) -> Ended<T> {
    let handle = CALLER.scope(Arc::clone(caller), AssertUnwindSafe(Box::pin(handle)).catch_unwind());
    tokio::select! {
        biased;
        () = caller.kill.notified() => Ended::Died,
        ended = timeout(limit, handle) => match ended {
            Ok(Ok(returned)) => Ended::Returned(returned),
            Ok(Err(_)) => Ended::Died,
            Err(_) => Ended::TimedOut,
        },
    }
}

/// A function as it is deployed with another layout than that of the table.
#[derive(Debug)]
pub(crate) struct Misdeployed<T> {
    /// With another width of version keys.
    pub(crate) width: T,
    /// With another table of history.
    pub(crate) history: T,
}

impl<T> Misdeployed<T> {
    /// Returns the function that a fault of an invocation runs, if it runs one of these.
    pub(crate) fn of(&self, fault: Option<FaultKind>) -> Option<&T> {
        match fault {
            Some(FaultKind::WrongLayout) => Some(&self.width),
            Some(FaultKind::WrongHistory) => Some(&self.history),
            _ => None,
        }
    }
}

/// Returns the deadline of an invocation that ends after `left`.
pub(crate) fn deadline(left: Duration, mutation: Option<Mutation>) -> Deadline {
    Deadline::after(mutation.map_or(left, |mutation| mutation.deadline(left)))
}

/// Returns the time after which an invocation with a fault ends.
pub(crate) fn limit(fault: Option<FaultKind>, timeout: Duration, connector: &Connector) -> Duration {
    match fault {
        Some(FaultKind::FunctionTimeOut) => connector.draw(|rng| Duration::from_millis(rng.u64(1..60))),
        _ => timeout,
    }
}

#[derive(Debug)]
pub(crate) enum WriterResult {
    Response(Value),
    Error(String),
    /// No response.
    Lost,
    /// Lambda did not start the invocation.
    Throttled,
}

#[derive(Clone)]
pub(crate) struct StreamInvoker(pub(crate) Arc<StreamFunction>);

pub(crate) struct StreamFunction {
    writer: HistoryWriter,
    /// `None` if there is no layout.
    misdeployed: Option<Misdeployed<HistoryWriter>>,
    connector: Connector,
    invocations: AtomicU64,
    digits: VersionDigits,
    /// `true` if history depends on the order of an item's records, as that of an attached table does.
    is_ordered: bool,
    pub(crate) seen: Mutex<Invocations>,
}

/// Observations of the invocations of stream-fn.
#[derive(Debug, Default)]
pub(crate) struct Invocations {
    /// Sequence numbers of the records that a fault hindered.
    pub(crate) hindered: HashSet<String>,
    /// Number of invocations that reached their timeout without a fault of the invocation.
    pub(crate) overruns: u32,
    /// Number of invocations without a response, or with batch item failures.
    pub(crate) failed: u64,
}

impl StreamFunction {
    pub(crate) fn new(
        writer: HistoryWriter,
        misdeployed: Option<Misdeployed<HistoryWriter>>,
        connector: Connector,
        digits: VersionDigits,
        is_ordered: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            writer,
            misdeployed,
            connector,
            invocations: AtomicU64::new(0),
            digits,
            is_ordered,
            seen: Mutex::default(),
        })
    }

    /// Starts the process with the other history table, by an invocation without records.
    pub(crate) async fn start_early(&self) {
        let Some(misdeployed) = &self.misdeployed else { return };
        let caller = Caller::of_process(Author::StreamFunction, Some(MISDEPLOYED));
        let event = json!({"Records": []});
        let _ = self.run(&misdeployed.history, &event, &caller, STREAM_TIMEOUT).await;
    }

    /// Runs one invocation and returns its response. `None` if the function failed.
    async fn run(
        &self,
        writer: &HistoryWriter,
        payload: &Value,
        caller: &Arc<Caller>,
        limit: Duration,
    ) -> Option<Vec<u8>> {
        let mutation = self.connector.mutation;
        if mutation.is_some_and(|mutation| !mutation.accepts_batch(payload)) {
            return None;
        }
        let event = payload.to_string();
        let handle = writer.handle(&event, "lambda", deadline(STREAM_TIMEOUT, mutation));
        let ended = process(caller, limit, handle).await;
        let is_hindered = |record: &&Value| {
            let version = text(record, "/dynamodb/NewImage/Latest/N").parse().ok();
            let key = version
                .and_then(Version::new)
                .map(|version| self.digits.version_key(version));
            caller.hinders(text(record, "/dynamodb/Keys/PK/S"), &key.unwrap_or_default())
        };
        let hindered = records(payload).iter().filter(is_hindered).map(sequence_number);
        lock(&self.seen).hindered.extend(hindered.map(str::to_owned));
        match ended {
            Ended::Returned(response) => {
                let mut response = serde_json::to_value(response.ok()?).ok()?;
                if let Some(mutation) = mutation {
                    mutation.stream_response(&mut response);
                }
                Some(response.to_string().into_bytes())
            }
            Ended::TimedOut if limit == STREAM_TIMEOUT => {
                lock(&self.seen).overruns += 1;
                None
            }
            Ended::Died | Ended::TimedOut => None,
        }
    }

    /// Delivers some records of a batch again, later and in another order.
    ///
    /// A mapping never delivers a record while an earlier one of its item is neither processed nor discarded. So if the order of the
    /// records counts, only those before the first failed one are delivered again.
    fn deliver_late(self: &Arc<Self>, payload: &Value, response: Option<&[u8]>) {
        let mut records = records(payload).to_vec();
        if self.is_ordered {
            let failed = response.map(failed);
            let is_failed = |record: &Value| match &failed {
                Some(failed) => failed.contains(sequence_number(record)),
                None => true,
            };
            let processed = records.iter().position(is_failed);
            records.truncate(processed.unwrap_or(records.len()));
        }
        if records.is_empty() {
            return;
        }
        let wait = self.connector.draw(|rng| {
            rng.shuffle(&mut records);
            records.truncate(rng.usize(1..=records.len()));
            Duration::from_millis(rng.u64(1..3000))
        });
        let (function, event) = (Arc::clone(self), json!({"Records": records}));
        self.connector.run_late(async move {
            sleep(wait).await;
            let caller = Caller::new(Author::StreamFunction);
            let _ = function.run(&function.writer, &event, &caller, STREAM_TIMEOUT).await;
        });
    }

    /// Adds a record of the batch to the failures in a response.
    fn with_a_wrong_failure(&self, payload: &Value, response: &[u8]) -> Vec<u8> {
        let numbers: HashSet<_> = records(payload).iter().map(sequence_number).collect();
        let mut numbers: Vec<_> = numbers.into_iter().collect();
        numbers.sort_unstable();
        let index = self.connector.draw(|rng| rng.usize(..numbers.len().max(1)));
        let mut response: Value = serde_json::from_slice(response).unwrap_or_default();
        if let Some(failures) = response["batchItemFailures"].as_array_mut() {
            failures.push(json!({"itemIdentifier": numbers.get(index)}));
        }
        response.to_string().into_bytes()
    }

    /// Returns a response that names no record of the batch.
    fn bad_response(&self) -> Vec<u8> {
        let responses = [
            r#"{"batchItemFailures":[{"itemIdentifier":""}]}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":null}]}"#,
            r#"{"batchItemFailures":[{"identifier":"1"}]}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":"99"}]}"#,
            "{",
        ];
        let chosen = self.connector.draw(|rng| rng.usize(..responses.len()));
        responses[chosen].into()
    }

    async fn invoke(self: &Arc<Self>, payload: &str) -> InvocationOutcome {
        let payload: Value = serde_json::from_str(payload).unwrap_or_default();
        let fault = self.connector.fault(Point::Invoke);
        let misdeployed = self.misdeployed.as_ref().and_then(|all| all.of(fault));
        // A misdeployed function leaves the records in the stream until it has the layout of the table.
        let process = misdeployed.map(|_| MISDEPLOYED);
        let caller = Caller::of_process(Author::StreamFunction, process);
        if fault.is_some() && misdeployed.is_none() {
            caller.hinder_all();
        }
        if fault == Some(FaultKind::NotInvoked) {
            let numbers = records(&payload).iter().map(sequence_number);
            lock(&self.seen).hindered.extend(numbers.map(str::to_owned));
            return InvocationOutcome::NotInvoked;
        }
        let limit = limit(fault, STREAM_TIMEOUT, &self.connector);
        let writer = misdeployed.unwrap_or(&self.writer);
        let response = self.run(writer, &payload, &caller, limit).await;
        let response = match fault {
            // The mapping does not receive the response.
            Some(FaultKind::FunctionTimeOut | FaultKind::Redelivered) => None,
            Some(FaultKind::RedeliveredInPart) => {
                response.map(|response| self.with_a_wrong_failure(&payload, &response))
            }
            Some(FaultKind::BadResponse) => response.map(|_| self.bad_response()),
            Some(FaultKind::RedeliveredOutOfOrder) => {
                self.deliver_late(&payload, response.as_deref());
                response
            }
            _ => response,
        };
        response.map_or(InvocationOutcome::FunctionError, InvocationOutcome::Response)
    }
}

impl Invoker for StreamInvoker {
    fn request_id(&self) -> String {
        format!("invocation-{}", self.0.invocations.fetch_add(1, Ordering::Relaxed))
    }

    async fn invoke(&self, _: &str, payload: String) -> InvocationOutcome {
        let outcome = self.0.invoke(&payload).await;
        let is_done = matches!(&outcome, InvocationOutcome::Response(response) if failed(response).is_empty());
        lock(&self.0.seen).failed += u64::from(!is_done);
        outcome
    }
}

/// Returns the sequence numbers of the batch item failures in a response.
pub(crate) fn failed(response: &[u8]) -> HashSet<String> {
    let response: Value = serde_json::from_slice(response).unwrap_or_default();
    let failures = response["batchItemFailures"].as_array().into_iter().flatten();
    let numbers = failures.filter_map(|failure| failure["itemIdentifier"].as_str());
    numbers.map(str::to_owned).collect()
}

/// Returns the records of an event.
fn records(event: &Value) -> &[Value] {
    event["Records"].as_array().map_or(&[], Vec::as_slice)
}
