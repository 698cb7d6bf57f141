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

use aws_lambda_events::event::dynamodb;
use futures::FutureExt as _;
use local::mapping::{Invocation, InvocationOutcome, Invoker};
use serde_json::{Value, json, value::RawValue};
use shared::clock::Deadline;
use stream_fn::HistoryWriter;
use tokio::time::{sleep, timeout};
use writer_fn::Writer;

use crate::{
    caller::{CALLER, Caller, lock},
    connector::Connector,
    mutation::Mutation,
    schedule::{FaultKind, Point},
};

const STREAM_TIMEOUT: Duration = Duration::from_secs(60);
const WRITER_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs the future of an invocation. `None` if it panics, its process is killed, or the time is up.
async fn process<T>(caller: &Arc<Caller>, limit: Duration, handle: impl Future<Output = T>) -> Option<T> {
    let handle = CALLER.scope(Arc::clone(caller), AssertUnwindSafe(Box::pin(handle)).catch_unwind());
    tokio::select! {
        biased;
        () = caller.kill.notified() => None,
        ended = timeout(limit, handle) => ended.ok()?.ok(),
    }
}

pub(crate) enum WriterResult {
    Response(Value),
    Error(String),
    Lost,
}

pub(crate) async fn write(writer: &Writer, event: &Value) -> WriterResult {
    let Ok(event) = RawValue::from_string(event.to_string()) else {
        return WriterResult::Lost;
    };
    let handle = writer.handle(&event, "lambda", Deadline::after(WRITER_TIMEOUT));
    match process(&Caller::writer(), WRITER_TIMEOUT, handle).await {
        None => WriterResult::Lost,
        Some(Ok(response)) => serde_json::to_value(response).map_or(WriterResult::Lost, WriterResult::Response),
        Some(Err(error)) => WriterResult::Error(error.error_type().to_owned()),
    }
}

#[derive(Clone)]
pub(crate) struct StreamInvoker(pub(crate) Arc<StreamFunction>);

pub(crate) struct StreamFunction {
    writer: HistoryWriter,
    connector: Connector,
    invocations: AtomicU64,
    /// Sequence numbers of the records in invocations that had a fault.
    pub(crate) faulty_records: Mutex<HashSet<String>>,
}

impl StreamFunction {
    pub(crate) fn new(writer: HistoryWriter, connector: Connector) -> Arc<Self> {
        Arc::new(Self {
            writer,
            connector,
            invocations: AtomicU64::new(0),
            faulty_records: Mutex::default(),
        })
    }

    /// Runs one invocation and returns its response. `None` if the function failed.
    async fn run(&self, payload: &Value, caller: &Arc<Caller>, limit: Duration) -> Option<Vec<u8>> {
        if self.connector.mutation() == Some(Mutation::RawSplit)
            && serde_json::from_str::<dynamodb::Event>(&payload.to_string()).is_err()
        {
            return None;
        }
        let event = RawValue::from_string(payload.to_string()).ok()?;
        let handle = self.writer.handle(&event, "lambda", Deadline::after(STREAM_TIMEOUT));
        let response = process(caller, limit, handle).await;
        if *lock(&caller.had_fault) {
            lock(&self.faulty_records).extend(sequence_numbers(payload));
        }
        serde_json::to_vec(&response?.ok()?).ok()
    }

    /// Delivers some records of a batch again, later and in another order.
    fn deliver_late(self: &Arc<Self>, payload: &Value) {
        let mut records = payload["Records"].as_array().cloned().unwrap_or_default();
        let wait = self.connector.draw(|rng| {
            rng.shuffle(&mut records);
            records.truncate(rng.usize(1..=records.len().max(1)));
            Duration::from_millis(rng.u64(1..3000))
        });
        let function = Arc::clone(self);
        self.connector.run_late(async move {
            sleep(wait).await;
            let caller = Arc::new(Caller::default());
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

fn sequence_numbers(payload: &Value) -> HashSet<String> {
    let records = payload.get("Records").and_then(Value::as_array);
    let number = |record: &Value| Some(record.pointer("/dynamodb/SequenceNumber")?.as_str()?.to_owned());
    records.into_iter().flatten().filter_map(number).collect()
}

impl Invoker for StreamInvoker {
    async fn invoke(&self, payload: String) -> Invocation {
        let function = &self.0;
        let request_id = format!("invocation-{}", function.invocations.fetch_add(1, Ordering::Relaxed));
        let payload: Value = serde_json::from_str(&payload).unwrap_or_default();
        let caller = Arc::new(Caller::default());
        let fault = function.connector.fault(Point::Invoke);
        if let Some(kind) = fault {
            function.connector.count(kind.name());
            caller.set_fault();
            lock(&function.faulty_records).extend(sequence_numbers(&payload));
        }
        if fault == Some(FaultKind::NotInvoked) {
            let outcome = InvocationOutcome::NotInvoked;
            return Invocation { request_id, outcome };
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
                function.deliver_late(&payload);
                response
            }
            _ => response,
        };
        Invocation {
            request_id,
            outcome: response.map_or(InvocationOutcome::FunctionError, InvocationOutcome::Response),
        }
    }
}
