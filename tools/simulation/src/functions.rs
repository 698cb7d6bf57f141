//! Invocations of the two functions: their own code, in simulated processes that faults can kill.

use std::{collections::HashSet, panic::AssertUnwindSafe, sync::Arc, time::Duration};

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
    evidence::Seen,
    faults::{FaultKind, Point},
    mutation::Mutations,
    requests::{sequence_number, text},
};

pub(crate) const STREAM_TIMEOUT: Duration = Duration::from_secs(60);
pub(crate) const WRITER_TIMEOUT: Duration = Duration::from_secs(30);

/// Why the process of an invocation or of a command ended without a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    /// It panicked or was killed.
    Killed,
    /// Lambda ended the invocation at its timeout.
    TimedOut,
}

/// Runs the future of an invocation or of a command.
pub(crate) async fn process<T>(
    caller: &Arc<Caller>,
    limit: Duration,
    handle: impl Future<Output = T>,
) -> Result<T, Death> {
    let handle = CALLER.scope(Arc::clone(caller), AssertUnwindSafe(Box::pin(handle)).catch_unwind());
    tokio::select! {
        biased;
        () = caller.kill.notified() => Err(Death::Killed),
        ended = timeout(limit, handle) => ended.map_err(|_| Death::TimedOut)?.map_err(|_| Death::Killed),
    }
}

/// Returns the number of the [deployment](crate::setup::deployments) that an invocation with a fault runs.
pub(crate) fn deployment(fault: Option<FaultKind>) -> usize {
    match fault {
        Some(FaultKind::WrongLayout) => 1,
        Some(FaultKind::WrongHistory) => 2,
        _ => 0,
    }
}

/// Returns the deadline of an invocation that ends after `left`. Its mutation sets it a day later.
pub(crate) fn deadline(left: Duration, mutations: Mutations) -> Deadline {
    let later = u64::from(mutations.disable("deadline")) * 86_400;
    Deadline::after(left + Duration::from_secs(later))
}

/// Returns the time after which an invocation with a fault ends.
pub(crate) fn limit(fault: Option<FaultKind>, timeout: Duration, connector: &Connector) -> Duration {
    match fault {
        Some(FaultKind::FunctionTimeOut) => connector.draw(|rng| Duration::from_millis(rng.u64(1..60))),
        _ => timeout,
    }
}

/// Error of an invocation that Lambda did not start.
pub(crate) const NOT_INVOKED: &str = "not invoked";
/// Error of an invocation without a response.
pub(crate) const LOST: &str = "lost";

#[derive(Clone)]
pub(crate) struct StreamFunction {
    /// One of each deployment.
    pub(crate) deployments: [HistoryWriter; 3],
    pub(crate) connector: Connector,
    pub(crate) digits: VersionDigits,
    /// `true` if history depends on the order of an item's records, as that of an attached table does.
    pub(crate) is_ordered: bool,
    pub(crate) seen: Seen,
}

impl StreamFunction {
    /// Starts the process with the other history table, by an invocation without records.
    pub(crate) async fn start_early(&self) {
        let writer = &self.deployments[deployment(Some(FaultKind::WrongHistory))];
        let caller = Caller::of_process(Author::StreamFunction, Some(MISDEPLOYED));
        let event = json!({"Records": []});
        let _ = self.run(writer, &event, &caller, STREAM_TIMEOUT).await;
    }

    fn hinder<'r>(&self, records: impl Iterator<Item = &'r Value>) {
        let numbers = records.map(|record| sequence_number(record).to_owned());
        lock(&self.seen).hindered.extend(numbers);
    }

    /// Runs one invocation and returns its response. `None` if the function failed.
    async fn run(
        &self,
        writer: &HistoryWriter,
        payload: &Value,
        caller: &Arc<Caller>,
        limit: Duration,
    ) -> Option<Value> {
        let mutations = self.connector.mutations;
        if !mutations.accepts_batch(payload) {
            return None;
        }
        let event = payload.to_string();
        let handle = writer.handle(&event, "lambda", deadline(STREAM_TIMEOUT, mutations));
        let ended = process(caller, limit, handle).await;
        self.hinder(records(payload).iter().filter(|record| {
            let version = text(record, "/dynamodb/NewImage/Latest/N").parse().ok();
            let version = version.and_then(Version::new);
            let key = version.map(|version| self.digits.version_key(version));
            caller.hinders(text(record, "/dynamodb/Keys/PK/S"), &key.unwrap_or_default())
        }));
        let is_overrun = limit == STREAM_TIMEOUT && matches!(ended, Err(Death::TimedOut));
        lock(&self.seen).overruns += u32::from(is_overrun);
        let mut response = serde_json::to_value(ended.ok()?.ok()?).ok()?;
        mutations.failures("partial-failures", &mut response);
        Some(response)
    }

    /// Delivers some records of a batch again, later and in another order.
    ///
    /// A mapping never delivers a record while an earlier one of its item is neither processed nor discarded. So if the order of the
    /// records counts, only those before the first failed one are delivered again.
    fn deliver_late(&self, payload: &Value, response: Option<&Value>) {
        let mut records = records(payload).to_vec();
        if self.is_ordered {
            let failed = response.map(failed);
            let is_failed = |record: &Value| {
                let failed = failed.as_ref();
                failed.is_none_or(|failed| failed.contains(sequence_number(record)))
            };
            records = records.into_iter().take_while(|record| !is_failed(record)).collect();
        }
        if records.is_empty() {
            return;
        }
        let wait = self.connector.draw(|rng| {
            rng.shuffle(&mut records);
            records.truncate(rng.usize(1..=records.len()));
            Duration::from_millis(rng.u64(1..3000))
        });
        let (function, event) = (self.clone(), json!({"Records": records}));
        self.connector.run_late(async move {
            sleep(wait).await;
            let caller = Caller::new(Author::StreamFunction);
            let _ = function
                .run(&function.deployments[0], &event, &caller, STREAM_TIMEOUT)
                .await;
        });
    }

    /// Adds a record of the batch to the failures in a response.
    fn add_wrong_failure(&self, payload: &Value, response: &mut Value) {
        let numbers: HashSet<_> = records(payload).iter().map(sequence_number).collect();
        let mut numbers: Vec<_> = numbers.into_iter().collect();
        numbers.sort_unstable();
        let index = self.connector.draw(|rng| rng.usize(..numbers.len().max(1)));
        if let Some(failures) = response["batchItemFailures"].as_array_mut() {
            failures.push(json!({"itemIdentifier": numbers.get(index)}));
        }
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
}

impl Invoker for StreamFunction {
    fn request_id(&self) -> String {
        let mut seen = lock(&self.seen);
        seen.invocations += 1;
        format!("invocation-{}", seen.invocations)
    }

    async fn invoke(&self, _: &str, payload: String) -> InvocationOutcome {
        let payload: Value = serde_json::from_str(&payload).unwrap_or_default();
        let fault = self.connector.fault(Point::Invoke);
        let deployment = deployment(fault);
        // A misdeployed function leaves the records in the stream until it has the layout of the table.
        let caller = Caller::of_process(Author::StreamFunction, (deployment > 0).then_some(MISDEPLOYED));
        if fault.is_some() && deployment == 0 {
            caller.hinder_all();
        }
        if fault == Some(FaultKind::NotInvoked) {
            self.hinder(records(&payload).iter());
            return InvocationOutcome::NotInvoked;
        }
        let limit = limit(fault, STREAM_TIMEOUT, &self.connector);
        let writer = &self.deployments[deployment];
        let mut response = self.run(writer, &payload, &caller, limit).await;
        match (fault, &mut response) {
            // The mapping does not receive the response.
            (Some(FaultKind::FunctionTimeOut | FaultKind::Redelivered), _) => response = None,
            (Some(FaultKind::RedeliveredInPart), Some(response)) => self.add_wrong_failure(&payload, response),
            (Some(FaultKind::BadResponse), Some(_)) => return InvocationOutcome::Response(self.bad_response()),
            (Some(FaultKind::RedeliveredOutOfOrder), response) => self.deliver_late(&payload, response.as_ref()),
            _ => {}
        }
        let response = response.map(|response| response.to_string().into_bytes());
        response.map_or(InvocationOutcome::FunctionError, InvocationOutcome::Response)
    }
}

/// Returns the sequence numbers of the batch item failures in a response.
pub(crate) fn failed(response: &Value) -> HashSet<String> {
    let failures = response["batchItemFailures"].as_array().into_iter().flatten();
    let numbers = failures.filter_map(|failure| failure["itemIdentifier"].as_str());
    numbers.map(str::to_owned).collect()
}

/// Returns the records of an event.
pub(crate) fn records(event: &Value) -> &[Value] {
    event["Records"].as_array().map_or(&[], Vec::as_slice)
}
