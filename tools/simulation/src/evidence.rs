//! The observations of a run that the guarantees are checked against.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;
use shared::dynamodb::read::versions::ReadError;

/// All observations of a run.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// All records of the table's stream, in order.
    pub(crate) stream: Vec<Value>,
    /// All items at the end.
    pub(crate) items: Vec<Value>,
    /// Stream records in failure documents.
    pub(crate) discarded: Vec<Value>,
    /// Responses to the updates, by the index of the update.
    pub(crate) responses: Vec<(usize, UpstreamResponse)>,
    /// Partition key and sort key of each version item that an operator wrote.
    pub(crate) manual_versions: HashSet<(String, String)>,
    /// Sequence numbers of the records in invocations that had a fault.
    pub(crate) faulty_records: HashSet<String>,
    /// Versions of each entity that a reader sees.
    pub(crate) read: BTreeMap<String, Result<Vec<u64>, ReadError>>,
    /// `true` if the mapping reached the end of the stream.
    pub(crate) settled: bool,
    /// Number of faults that occurred, by name.
    pub(crate) faults: BTreeMap<String, u64>,
}

/// The response to one update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UpstreamResponse {
    /// An outcome and a version.
    Outcome(String, u64),
    /// The update's message is not among the batch item failures.
    Accepted,
    /// An error that a retry does not resolve.
    Rejected(String),
}
