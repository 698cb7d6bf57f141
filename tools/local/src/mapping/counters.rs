//! Counts of records and invocations, and notifications about each record.

use std::{
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::record::Record;

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
    pub observer: Option<Arc<dyn RecordObserver>>,
}

/// Receives the progress of records. The calls carry no time: an observer that needs one reads its own clock.
pub trait RecordObserver: Debug + Send + Sync {
    /// The filter excludes this record.
    fn filtered(&self, _record: &Record) {}
    /// Records were read from the stream and are queued for delivery.
    fn queued(&self, records: &[&Record]);
    /// The function has processed these records.
    fn done(&self, records: &[Record]);
    /// These records are in a failure document.
    fn failed(&self, records: &[Record]);
}

impl Counters {
    pub(super) fn add(counter: &AtomicU64, count: usize) {
        counter.fetch_add(count as u64, Ordering::Relaxed);
    }
}
