//! Faults that last: a denied action, a throttled partition, a table that does not respond.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;

use crate::{caller::Caller, database, requests::keys};

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

    fn matches(&self, operation: &str, caller: Option<&Caller>, body: &impl Fn() -> Value) -> bool {
        let is_read = ["GetItem", "BatchGetItem", "Query"].contains(&operation);
        let is_writer = || caller.is_some_and(Caller::is_writer);
        let is_stream_function = || caller.is_some_and(Caller::is_stream_function);
        let names = |entity: &String| keys(operation, &body()).iter().any(|(key, _)| key == entity);
        match self {
            Self::WriterDenied => is_writer(),
            Self::StreamFunctionDenied => is_stream_function() && !is_read,
            Self::WriterFails => is_writer() && !database::is_read(operation),
            Self::StreamFunctionFails => is_stream_function() && !database::is_read(operation),
            Self::StreamDenied => false,
            Self::LayoutThrottled | Self::LayoutDenied => {
                let is_layout = || keys(operation, &body()).iter().any(|(_, key)| key == LAYOUT);
                (is_writer() || is_stream_function()) && (operation == "DescribeTable" || is_layout())
            }
            Self::Partition(entity) => caller.is_some() && !is_read && names(entity),
            Self::Unresponsive => caller.is_some(),
            Self::Lossy { entity, .. } => is_writer() && !is_read && names(entity),
            Self::SuccessUnanswered { update } => caller.is_some_and(|caller| caller.delivers(*update)) && !is_read,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Windows(Vec<(Instant, Scope)>);

impl Windows {
    pub(crate) fn open(&mut self, until: Instant, scope: Scope) {
        self.0.push((until, scope));
    }

    pub(crate) fn close(&mut self) {
        self.0.clear();
    }

    /// Returns the open window that a request fails in.
    pub(crate) fn of_request(
        &self,
        operation: &str,
        caller: Option<&Caller>,
        body: &impl Fn() -> Value,
    ) -> Option<&Scope> {
        self.opened().find(|scope| scope.matches(operation, caller, body))
    }

    /// Returns `true` if the stream cannot be read.
    pub(crate) fn is_stream_denied(&self) -> bool {
        self.opened().any(|scope| *scope == Scope::StreamDenied)
    }

    fn opened(&self) -> impl Iterator<Item = &Scope> {
        let now = Instant::now();
        self.0
            .iter()
            .filter(move |(until, _)| now < *until)
            .map(|(_, scope)| scope)
    }
}
