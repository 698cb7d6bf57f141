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
    requests::text,
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
    /// Sequence numbers of the records that a fault hindered.
    pub(crate) hindered: Mutex<HashSet<String>>,
    /// Number of invocations that reached their timeout without a fault of the invocation.
    pub(crate) overruns: Mutex<u32>,
    /// Number of invocations without a response, or with batch item failures.
    pub(crate) failed: AtomicU64,
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
            is_ordered,
            writer,
            misdeployed,
            connector,
            invocations: AtomicU64::new(0),
            digits,
            hindered: Mutex::default(),
            overruns: Mutex::default(),
            failed: AtomicU64::new(0),
        })
    }

    /// Starts the process with the other history table, by an invocation without records.
    pub(crate) async fn start_early(&self) {
        let Some(misdeployed) = &self.misdeployed else { return };
        let caller = Caller::of_process(Author::StreamFunction, Some(MISDEPLOYED));
        let event = json!({"Records": []});
        let _ = self.run_as(&misdeployed.history, &event, &caller, STREAM_TIMEOUT).await;
    }

    /// Runs one invocation and returns its response. `None` if the function failed.
    async fn run(&self, payload: &Value, caller: &Arc<Caller>, limit: Duration) -> Option<Vec<u8>> {
        self.run_as(&self.writer, payload, caller, limit).await
    }

    async fn run_as(
        &self,
        writer: &HistoryWriter,
        payload: &Value,
        caller: &Arc<Caller>,
        limit: Duration,
    ) -> Option<Vec<u8>> {
        let mutation = self.connector.mutation();
        if mutation.is_some_and(|mutation| !mutation.accepts_batch(payload)) {
            return None;
        }
        let event = payload.to_string();
        let handle = writer.handle(&event, "lambda", deadline(STREAM_TIMEOUT, mutation));
        let ended = process(caller, limit, handle).await;
        if *lock(&caller.had_fault) {
            lock(&self.hindered).extend(self.hindered_by(caller, payload));
        }
        match ended {
            Ended::Returned(response) => {
                let mut response = serde_json::to_value(response.ok()?).ok()?;
                if let Some(mutation) = mutation {
                    mutation.stream_response(&mut response);
                }
                Some(response.to_string().into_bytes())
            }
            Ended::TimedOut if limit == STREAM_TIMEOUT => {
                *lock(&self.overruns) += 1;
                None
            }
            Ended::Died | Ended::TimedOut => None,
        }
    }

    /// Returns the sequence numbers of the records that a fault of the caller hindered.
    fn hindered_by(&self, caller: &Caller, payload: &Value) -> Vec<String> {
        let records = payload["Records"].as_array().into_iter().flatten();
        let hindered = records.filter(|record| {
            let version = text(record, "/dynamodb/NewImage/Latest/N")
                .parse()
                .ok()
                .and_then(Version::new);
            let key = version.map_or_else(String::new, |version| self.digits.version_key(version));
            caller.hinders(text(record, "/dynamodb/Keys/PK/S"), &key)
        });
        hindered.map(|record| record_number(record).to_owned()).collect()
    }

    /// Delivers some records of a batch again, later and in another order.
    ///
    /// A mapping never delivers a record while an earlier one of its item is neither processed nor discarded. So if the order of the
    /// records counts, only those before the first failed one are delivered again.
    fn deliver_late(self: &Arc<Self>, payload: &Value, response: Option<&[u8]>) {
        let mut records = payload["Records"].as_array().cloned().unwrap_or_default();
        if self.is_ordered {
            records.truncate(processed(&records, response));
        }
        if records.is_empty() {
            return;
        }
        let wait = self.connector.draw(|rng| {
            rng.shuffle(&mut records);
            records.truncate(rng.usize(1..=records.len().max(1)));
            Duration::from_millis(rng.u64(1..3000))
        });
        let function = Arc::clone(self);
        self.connector.run_late(async move {
            sleep(wait).await;
            let caller = Caller::new(Author::StreamFunction);
            let _ = function
                .run(&json!({"Records": records}), &caller, STREAM_TIMEOUT)
                .await;
        });
    }

    fn with_a_wrong_failure(&self, payload: &Value, response: &[u8]) -> Vec<u8> {
        let mut numbers: Vec<_> = sequence_numbers(payload).into_iter().collect();
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
        responses[self.connector.draw(|rng| rng.usize(..responses.len()))]
            .as_bytes()
            .to_vec()
    }
}

/// Returns the sequence numbers of the batch item failures in a response.
pub(crate) fn failed(response: &[u8]) -> HashSet<String> {
    let response: Value = serde_json::from_slice(response).unwrap_or_default();
    let failures = response["batchItemFailures"].as_array().into_iter().flatten();
    failures
        .filter_map(|failure| failure["itemIdentifier"].as_str().map(str::to_owned))
        .collect()
}

/// Returns the number of records before the first failed one.
fn processed(records: &[Value], response: Option<&[u8]>) -> usize {
    let Some(response) = response else { return 0 };
    let failed = failed(response);
    let is_failed = |record: &Value| failed.contains(record_number(record));
    records.iter().position(is_failed).unwrap_or(records.len())
}

fn record_number(record: &Value) -> &str {
    text(record, "/dynamodb/SequenceNumber")
}

fn sequence_numbers(payload: &Value) -> HashSet<String> {
    let records = payload["Records"].as_array().into_iter().flatten();
    records.map(|record| record_number(record).to_owned()).collect()
}

impl Invoker for StreamInvoker {
    fn request_id(&self) -> String {
        format!("invocation-{}", self.0.invocations.fetch_add(1, Ordering::Relaxed))
    }

    async fn invoke(&self, _: &str, payload: String) -> InvocationOutcome {
        let outcome = self.0.invoke(&payload).await;
        let is_done = matches!(&outcome, InvocationOutcome::Response(response) if failed(response).is_empty());
        self.0.failed.fetch_add(u64::from(!is_done), Ordering::Relaxed);
        outcome
    }
}

impl StreamFunction {
    async fn invoke(self: &Arc<Self>, payload: &str) -> InvocationOutcome {
        let function = self;
        let payload: Value = serde_json::from_str(payload).unwrap_or_default();
        let caller = Caller::new(Author::StreamFunction);
        let fault = function.connector.fault(Point::Invoke);
        if let Some(kind) = fault {
            function.connector.count(&kind.name());
        }
        if let Some(misdeployed) = function.misdeployed.as_ref().and_then(|all| all.of(fault)) {
            // The records stay in the stream until stream-fn has the layout of the table.
            let caller = Caller::of_process(Author::StreamFunction, Some(MISDEPLOYED));
            let run = function.run_as(misdeployed, &payload, &caller, STREAM_TIMEOUT);
            return run
                .await
                .map_or(InvocationOutcome::FunctionError, InvocationOutcome::Response);
        }
        if fault.is_some() {
            caller.hinder_all();
            lock(&function.hindered).extend(sequence_numbers(&payload));
        }
        if fault == Some(FaultKind::NotInvoked) {
            return InvocationOutcome::NotInvoked;
        }
        let limit = match fault {
            Some(FaultKind::FunctionTimeOut) => function.connector.draw(|rng| Duration::from_millis(rng.u64(1..60))),
            _ => STREAM_TIMEOUT,
        };
        let response = function.run(&payload, &caller, limit).await;
        let response = match fault {
            // The mapping does not receive the response.
            Some(FaultKind::FunctionTimeOut | FaultKind::Redelivered) => None,
            Some(FaultKind::RedeliveredInPart) => {
                response.map(|response| function.with_a_wrong_failure(&payload, &response))
            }
            Some(FaultKind::BadResponse) => response.map(|_| function.bad_response()),
            Some(FaultKind::RedeliveredOutOfOrder) => {
                function.deliver_late(&payload, response.as_deref());
                response
            }
            _ => response,
        };
        response.map_or(InvocationOutcome::FunctionError, InvocationOutcome::Response)
    }
}
