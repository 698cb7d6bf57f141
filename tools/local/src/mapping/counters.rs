//! Counts of records and invocations, and the result of the last one.

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use crate::lock;

/// Counts since the start of a mapping.
#[derive(Debug, Default)]
pub struct Counters {
    pub read: AtomicU64,
    pub matched: AtomicU64,
    /// Records that the function has processed.
    pub done: AtomicU64,
    /// Records in failure documents.
    pub failed: AtomicU64,
    /// Records that are kept nowhere, because their document could not be stored.
    pub dropped: AtomicU64,
    pub invocations: AtomicU64,
    /// Invocations after which all or part of the batch was retried.
    pub retries: AtomicU64,
    pub bisections: AtomicU64,
    pub documents: AtomicU64,
    result: Mutex<LastProcessingResult>,
}

/// `LastProcessingResult` of the mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LastProcessingResult {
    /// No invocation yet, or records were too old for one.
    #[default]
    NoRecordsProcessed,
    /// The last part succeeded, also with a partial batch response.
    Ok,
    FunctionCallFailed,
    InvalidSequenceNumber,
}

impl LastProcessingResult {
    /// Returns the result as one word, for machine-readable lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoRecordsProcessed => "NoRecordsProcessed",
            Self::Ok => "OK",
            Self::FunctionCallFailed => "FunctionCallFailed",
            Self::InvalidSequenceNumber => "InvalidSequenceNumber",
        }
    }
}

impl Counters {
    /// Returns the number of records that match the filter, and are neither processed nor failed.
    pub fn waiting(&self) -> u64 {
        let ended = [&self.done, &self.failed, &self.dropped].map(|ended| ended.load(Ordering::SeqCst));
        let ended = ended.iter().sum();
        self.matched.load(Ordering::SeqCst).saturating_sub(ended)
    }

    pub fn last_processing_result(&self) -> LastProcessingResult {
        *lock(&self.result)
    }

    pub(super) fn set_result(&self, result: LastProcessingResult) {
        *lock(&self.result) = result;
    }
}

pub(super) fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::SeqCst);
}
