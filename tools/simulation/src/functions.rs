//! The two functions, invoked: their own code, in processes that can die.

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
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};
use writer_fn::Writer;

use crate::{
    mutation::Mutation,
    schedule::{FaultKind, Point},
    wire::{CALLER, Caller, Wire, lock, name, numbers},
};

/// How long stream-fn may take.
const STREAM_TIMEOUT: Duration = Duration::from_secs(60);
/// How long writer-fn may take.
const WRITER_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs the future of an invocation until it ends, its process dies, or its time is up. `None` but for the first.
async fn process<T>(caller: &Arc<Caller>, most: Duration, handle: impl Future<Output = T>) -> Option<T> {
    let handle = CALLER.scope(Arc::clone(caller), AssertUnwindSafe(Box::pin(handle)).catch_unwind());
    tokio::select! {
        biased;
        () = caller.kill.notified() => None,
        ended = timeout(most, handle) => ended.ok()?.ok(),
    }
}

/// What upstream hears from writer-fn.
pub(crate) enum Heard {
    /// The answer.
    Answer(Value),
    /// The type of the function's error.
    Error(String),
    /// Nothing: the process died.
    Nothing,
}

/// Invokes writer-fn.
pub(crate) async fn write(writer: &Writer, event: &Value) -> Heard {
    let Ok(event) = RawValue::from_string(event.to_string()) else {
        return Heard::Nothing;
    };
    let handle = writer.handle(&event, "lambda", Deadline::after(WRITER_TIMEOUT));
    match process(&Caller::writer(), WRITER_TIMEOUT, handle).await {
        None => Heard::Nothing,
        Some(Ok(response)) => serde_json::to_value(response).map_or(Heard::Nothing, Heard::Answer),
        Some(Err(error)) => Heard::Error(error.error_type().to_owned()),
    }
}

/// stream-fn, as the mapping invokes it.
#[derive(Clone)]
pub(crate) struct StreamFunction(pub(crate) Arc<Stream>);

pub(crate) struct Stream {
    pub(crate) recorder: HistoryWriter,
    pub(crate) wire: Wire,
    pub(crate) invocations: AtomicU64,
    /// The records of invocations that something went wrong with.
    pub(crate) hindered: Mutex<HashSet<String>>,
    /// Invocations that nobody waits for.
    pub(crate) late: Mutex<Vec<JoinHandle<()>>>,
}

impl Stream {
    pub(crate) fn new(recorder: HistoryWriter, wire: Wire) -> Arc<Self> {
        Arc::new(Self {
            recorder,
            wire,
            invocations: AtomicU64::new(0),
            hindered: Mutex::default(),
            late: Mutex::default(),
        })
    }

    /// One invocation, and its answer. `None` where the function failed.
    async fn run(&self, payload: &Value, caller: &Arc<Caller>, most: Duration) -> Option<Vec<u8>> {
        if self.wire.mutation() == Some(Mutation::RawSplit)
            && serde_json::from_str::<dynamodb::Event>(&payload.to_string()).is_err()
        {
            return None;
        }
        let event = RawValue::from_string(payload.to_string()).ok()?;
        let handle = self.recorder.handle(&event, "lambda", Deadline::after(STREAM_TIMEOUT));
        let answer = process(caller, most, handle).await;
        if *lock(&caller.hindered) {
            lock(&self.hindered).extend(numbers(payload));
        }
        serde_json::to_vec(&answer?.ok()?).ok()
    }

    /// The records of a batch, some of them, in another order, some time later.
    fn deliver_late(self: &Arc<Self>, payload: &Value) {
        let mut records = payload["Records"].as_array().cloned().unwrap_or_default();
        let wait = self.wire.draw(|rng| {
            rng.shuffle(&mut records);
            records.truncate(rng.usize(1..=records.len().max(1)));
            Duration::from_millis(rng.u64(1..3000))
        });
        let stream = Arc::clone(self);
        let late = tokio::spawn(async move {
            sleep(wait).await;
            let caller = Arc::new(Caller::default());
            let _ = stream.run(&json!({"Records": records}), &caller, STREAM_TIMEOUT).await;
        });
        lock(&self.late).push(late);
    }

    /// An answer that names, besides what failed, something that was done.
    fn claims_a_failure(&self, payload: &Value, answer: &[u8]) -> Vec<u8> {
        let mut numbers: Vec<_> = numbers(payload).into_iter().collect();
        numbers.sort_unstable();
        let index = self.wire.draw(|rng| rng.usize(..numbers.len().max(1)));
        let mut answer: Value = serde_json::from_slice(answer).unwrap_or_default();
        if let Some(failures) = answer["batchItemFailures"].as_array_mut() {
            failures.push(json!({"itemIdentifier": numbers.get(index)}));
        }
        answer.to_string().into_bytes()
    }

    /// An answer that names no record of the batch.
    fn bad_answer(&self) -> Vec<u8> {
        let answers = [
            r#"{"batchItemFailures":[{"itemIdentifier":""}]}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":null}]}"#,
            r#"{"batchItemFailures":[{"identifier":"1"}]}"#,
            r#"{"batchItemFailures":[{"itemIdentifier":"99"}]}"#,
            "{",
        ];
        answers[self.wire.draw(|rng| rng.usize(..answers.len()))]
            .as_bytes()
            .to_vec()
    }
}

impl Invoker for StreamFunction {
    async fn invoke(&self, payload: String) -> Invocation {
        let stream = &self.0;
        let request_id = format!("invocation-{}", stream.invocations.fetch_add(1, Ordering::Relaxed));
        let payload: Value = serde_json::from_str(&payload).unwrap_or_default();
        let caller = Arc::new(Caller::default());
        let fault = stream.wire.fault(Point::Invoke);
        if let Some(kind) = fault {
            stream.wire.happened(name(kind));
            caller.hinder();
            lock(&stream.hindered).extend(numbers(&payload));
        }
        if fault == Some(FaultKind::NotInvoked) {
            let outcome = InvocationOutcome::NotInvoked;
            return Invocation { request_id, outcome };
        }
        let most = match fault {
            Some(FaultKind::FunctionTimeOut) => stream.wire.draw(|rng| Duration::from_millis(rng.u64(1..60))),
            _ => STREAM_TIMEOUT,
        };
        let answer = stream.run(&payload, &caller, most).await;
        let answer = match fault {
            // The service gives up on it, or loses its answer.
            Some(FaultKind::FunctionTimeOut | FaultKind::Redelivered) => None,
            Some(FaultKind::RedeliveredInPart) => answer.map(|answer| stream.claims_a_failure(&payload, &answer)),
            Some(FaultKind::BadAnswer) => answer.map(|_| stream.bad_answer()),
            Some(FaultKind::RedeliveredOutOfOrder) => {
                stream.deliver_late(&payload);
                answer
            }
            _ => answer,
        };
        Invocation {
            request_id,
            outcome: answer.map_or(InvocationOutcome::FunctionError, InvocationOutcome::Response),
        }
    }
}
