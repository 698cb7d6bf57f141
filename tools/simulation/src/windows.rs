//! Faults that last: a denied action, a throttled partition, a table that does not respond.

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{caller::Caller, database, faults::FaultKind, requests::keys};

/// Sort key of the layout.
const LAYOUT: &str = "config";

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
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::WriterDenied | Self::StreamFunctionDenied => "action-denied",
            Self::WriterFails | Self::StreamFunctionFails => "error-before",
            Self::StreamDenied => "stream-denied",
            Self::LayoutThrottled | Self::LayoutDenied => "layout-unchecked",
            Self::Partition(_) => "partition-throttled",
            Self::Unresponsive => "table-unresponsive",
            Self::Lossy { .. } => "lossy",
            Self::SuccessUnanswered { .. } => "success-unanswered",
        }
    }

    /// Returns the fault of a request in the window, `None` if it is spared.
    pub(crate) fn fault(&self, rng: &mut Rng) -> Option<FaultKind> {
        const LOST: [&[FaultKind]; 2] = [
            &[FaultKind::RequestDropped, FaultKind::Hang, FaultKind::Delayed],
            &[FaultKind::ResponseDropped, FaultKind::TimeOut],
        ];
        match self {
            Self::StreamFunctionFails | Self::WriterFails => Some(FaultKind::ErrorBefore),
            Self::Lossy { percent, .. } => LOST
                .into_iter()
                .find_map(|faults| (rng.u8(..100) < *percent).then(|| faults[rng.usize(..faults.len())])),
            Self::SuccessUnanswered { .. } => Some(FaultKind::SuccessUnanswered),
            Self::Partition(_) | Self::LayoutThrottled => Some(FaultKind::Throttled),
            Self::Unresponsive => Some(FaultKind::Hang),
            Self::WriterDenied | Self::StreamFunctionDenied | Self::StreamDenied | Self::LayoutDenied => {
                Some(FaultKind::Denied)
            }
        }
    }

    pub(crate) fn matches(&self, operation: &str, caller: Option<&Caller>, body: &impl Fn() -> Value) -> bool {
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
