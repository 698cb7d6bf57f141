//! Counts of records and invocations, and notifications about each record.

use std::{
    fmt::{self, Debug},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use super::record::Record;
use crate::lock;

/// Counts since the start of a mapping.
#[derive(Debug, Default)]
pub struct Counters {
    pub read: AtomicU64,
    pub matched: AtomicU64,
    pub invocations: AtomicU64,
    /// Invocations after which all or part of the batch was retried.
    pub retries: AtomicU64,
    pub bisections: AtomicU64,
    pub documents: AtomicU64,
    /// Records that are kept nowhere, because their document could not be stored.
    pub dropped: AtomicU64,
    pub observer: Option<Arc<dyn RecordObserver>>,
    pub result: Mutex<LastProcessingResult>,
}

/// `LastProcessingResult` of the mapping, with Lambda's texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LastProcessingResult {
    /// No invocation yet, or records were too old for one.
    #[default]
    NoRecordsProcessed,
    /// The last part succeeded, also with a partial batch response.
    Ok,
    FunctionCallFailed,
    /// Only the beginning of Lambda's text is known.
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

impl fmt::Display for LastProcessingResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoRecordsProcessed => "No records processed",
            Self::Ok => "OK",
            Self::FunctionCallFailed => "PROBLEM: Function call failed",
            Self::InvalidSequenceNumber => "PROBLEM: Sequence number in function response is invalid.",
        })
    }
}

/// Processing state of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The filter excludes it.
    Filtered,
    /// It was read from the stream and is queued for delivery.
    Queued,
    /// The function has processed it.
    Done,
    /// It is in a failure document.
    Failed,
    /// The function has not processed it, and it is in no failure document.
    Dropped,
}

/// Receives the progress of records. The calls carry no time: an observer that needs one reads its own clock.
pub trait RecordObserver: Debug + Send + Sync {
    fn observe(&self, progress: Progress, records: &[Record]);
}

impl Counters {
    pub(super) fn observe(&self, progress: Progress, records: &[Record]) {
        if let Some(observer) = &self.observer {
            observer.observe(progress, records);
        }
    }

    pub fn last_processing_result(&self) -> LastProcessingResult {
        *lock(&self.result)
    }

    pub(super) fn set_result(&self, result: LastProcessingResult) {
        *lock(&self.result) = result;
    }
}

pub(super) fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}
