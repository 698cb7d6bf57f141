//! Counts of records and invocations, and the result of the last one.

use std::sync::Mutex;

use crate::lock;

/// The counts of a mapping, which its lanes share.
#[derive(Debug, Default)]
pub struct Counters(Mutex<Counts>);

/// Counts since the start of a mapping.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    pub matched: usize,
    /// Records that the function has processed.
    pub done: usize,
    /// Records in failure documents.
    pub failed: usize,
    /// Records that are kept nowhere, because their document could not be stored.
    pub dropped: usize,
    pub invocations: usize,
    /// Invocations after which all or part of the batch was retried.
    pub retries: usize,
    pub bisections: usize,
    pub documents: usize,
    pub result: LastProcessingResult,
}

/// `LastProcessingResult` of the mapping. Its name is one word, for machine-readable lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LastProcessingResult {
    /// No invocation yet, or records were too old for one.
    #[default]
    NoRecordsProcessed,
    /// The last part succeeded, also with a partial batch response.
    OK,
    FunctionCallFailed,
    InvalidSequenceNumber,
}

impl Counters {
    pub fn get(&self) -> Counts {
        *lock(&self.0)
    }

    pub(super) fn update(&self, update: impl FnOnce(&mut Counts)) {
        update(&mut lock(&self.0));
    }
}

impl Counts {
    /// Returns the number of records that match the filter, and are neither processed nor failed.
    pub fn waiting(&self) -> usize {
        self.matched.saturating_sub(self.done + self.failed + self.dropped)
    }
}
