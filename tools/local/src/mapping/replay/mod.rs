//! Replays a scenario with the code of the mapping, on Tokio's clock: in virtual time if that is paused.

mod environment;
mod scenario;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use serde::Serialize;
use serde_json::Value;
use thiserror::Error;
use tokio::time::Instant;

use self::environment::{Observer, Replaying, Shared};
pub use self::scenario::{DestinationKind, Function, InvalidScenario, Scenario, StreamRecord};
use super::{Counters, Identity, LastProcessingResult, Mapping, position::InMemory, settings::InvalidSettings};

/// Time after which a stream trims its records. A replay that takes longer would never end.
const RETENTION: Duration = Duration::from_secs(24 * 3600);

/// Invocations, documents and dropped records of a replay. Records are indices in the scenario. Requests are letters in the
/// order of their first use.
#[derive(Debug, Clone, Serialize)]
pub struct Replay {
    pub invocations: Vec<Invocation>,
    pub documents: Vec<Document>,
    /// Number of records that the function has not processed and that are in no document.
    pub dropped: u64,
    #[serde(skip)]
    pub result: LastProcessingResult,
}

#[derive(Debug, Clone, Serialize)]
pub struct Invocation {
    pub records: Vec<usize>,
    pub request: String,
    pub outcome: Outcome,
    /// Time since the start of the mapping.
    #[serde(skip)]
    pub at: Duration,
}

/// Result of an invocation, as the mapping sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Outcome {
    /// All records are done. Without `ReportBatchItemFailures`, after every response.
    #[serde(rename = "success")]
    Success,
    #[serde(rename = "function error")]
    FunctionError,
    /// The response names records of the batch.
    #[serde(rename = "batch item failures")]
    BatchItemFailures,
    /// The response names something else: the whole batch failed.
    #[serde(rename = "invalid response")]
    InvalidResponse,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    pub records: Vec<usize>,
    pub condition: String,
    pub approximate_invoke_count: u64,
    pub request: String,
    /// JSON type of the document's `payload`, `None` without one.
    pub payload: Option<&'static str>,
    /// Time since the start of the mapping.
    #[serde(skip)]
    pub at: Duration,
    #[serde(skip)]
    pub body: Value,
}

#[derive(Debug, Error)]
pub enum ReplayError {
    #[error("invalid settings")]
    Settings(#[from] InvalidSettings),
    #[error("records are still retried after 24 hours, when the stream trims them: the scenario never ends")]
    Endless,
}

/// Replays a scenario until each record is done, in a document, dropped or excluded.
///
/// # Errors
///
/// Returns [`ReplayError::Endless`] if this takes more than 24 hours on Tokio's clock.
pub async fn replay(scenario: &Scenario) -> Result<Replay, ReplayError> {
    let settings = scenario.settings()?;
    let began = Instant::now();
    let shared = Shared::new(scenario, settings.report_batch_item_failures, began);
    let mapping = Mapping::<Replaying> {
        settings,
        identity: Identity {
            uuid: "00000000-0000-0000-0000-000000000000".to_owned(),
            function_arn: "arn:aws:lambda:us-east-1:000000000000:function:stream-fn".to_owned(),
            stream_arn: environment::STREAM_ARN.to_owned(),
        },
        source: shared.clone(),
        invoker: shared.clone(),
        destination: shared.clone(),
        positions: InMemory::default(),
        clock: shared.clone(),
        counters: Counters {
            observer: Some(Arc::new(Observer(shared.clone()))),
            ..Counters::default()
        },
    };
    let ended = mapping.run_until(shared.settled(), Duration::ZERO);
    tokio::time::timeout(RETENTION, ended)
        .await
        .map_err(|_| ReplayError::Endless)?;
    let (invocations, documents) = shared.take();
    Ok(Replay {
        invocations,
        documents,
        dropped: mapping.counters.dropped.load(Ordering::Relaxed),
        result: mapping.counters.last_processing_result(),
    })
}
