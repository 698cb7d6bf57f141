//! The observations of a run that the guarantees are checked against.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;
use shared::dynamodb::read::versions::ReadError;

#[derive(Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) stream: Vec<Value>,
    pub(crate) items: Vec<Value>,
    /// Stream records in failure documents.
    pub(crate) discarded: Vec<Value>,
    /// Stream records in quarantine.
    pub(crate) quarantined: Vec<Value>,
    /// Responses to the updates, by the index of the update.
    pub(crate) responses: Vec<(usize, UpstreamResponse)>,
    /// Number of deliveries of each update, by its index.
    pub(crate) deliveries: HashMap<usize, u32>,
    /// Partition key and sort key of each version item that an operator wrote.
    pub(crate) manual_versions: HashSet<(String, String)>,
    /// Sequence numbers of the records in invocations that had a fault.
    pub(crate) faulty_records: HashSet<String>,
    pub(crate) read: BTreeMap<String, Result<Vec<u64>, ReadError>>,
    pub(crate) as_of: Vec<AsOf>,
    /// `true` if the mapping reached the end of the stream.
    pub(crate) settled: bool,
    pub(crate) faults: BTreeMap<String, u64>,
}

/// Read of an entity as of a time.
#[derive(Debug)]
pub(crate) struct AsOf {
    pub(crate) entity: String,
    pub(crate) time: String,
    pub(crate) version: Result<Option<u64>, ReadError>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UpstreamResponse {
    Outcome(String, u64),
    /// The update's message is not among the batch item failures.
    Accepted,
    /// An error that a retry does not resolve.
    Rejected(String),
}
