//! The observations of a run that the guarantees are checked against, and the violations of these.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    sync::{Arc, Mutex},
};

use serde_json::Value;
use shared::{domain::Item, dynamodb::read::versions::ReadError};

use crate::{
    requests::{Items, is_version_key},
    schedule::Command,
    stream::Written,
    undo::Undos,
};

/// Observations of the run, which the checks compare.
pub(crate) type Seen = Arc<Mutex<Evidence>>;

#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// All records of the stream, with the author of each.
    pub(crate) stream: Vec<Written>,
    /// The table after the faults.
    pub(crate) items: Items,
    /// Number of records in the stream then.
    pub(crate) recovered_from: usize,
    /// Failure documents that were kept.
    pub(crate) documents: Vec<Value>,
    /// Stream records in failure documents that were lost.
    pub(crate) dropped: Vec<Value>,
    /// Sequence numbers of the records that were trimmed.
    pub(crate) trimmed: HashSet<String>,
    /// Stream records in quarantine.
    pub(crate) quarantined: Vec<Value>,
    pub(crate) answers: Vec<Answer>,
    /// Responses, instead of errors, to updates with the request id of another one.
    pub(crate) reused: Vec<(usize, Value)>,
    /// Number of deliveries of each update, by its index.
    pub(crate) deliveries: HashMap<usize, u32>,
    /// Time at which each update was sent first.
    pub(crate) first_sent: HashMap<usize, u64>,
    /// The last error of each update that has no answer.
    pub(crate) errors: HashMap<usize, String>,
    /// Updates whose messages became visible while the function processed them.
    pub(crate) overlapping: HashSet<usize>,
    /// Partition key and sort key of each version item that an operator wrote.
    pub(crate) manual_versions: HashSet<(String, String)>,
    /// Commands that succeeded, with the number of records in the stream afterwards.
    pub(crate) done: Vec<(Command, usize)>,
    /// Version items that were pruned and have expired: partition key and sort key.
    pub(crate) pruned: HashSet<(String, String)>,
    /// Sequence numbers of the records that a fault hindered.
    pub(crate) hindered: HashSet<String>,
    /// Number of invocations of stream-fn.
    pub(crate) invocations: u64,
    /// Number of invocations that reached their timeout without a fault of the invocation.
    pub(crate) overruns: u32,
    /// Versions of each entity that a reader sees, with their attributes.
    pub(crate) read: BTreeMap<String, Result<Vec<(u64, Item)>, ReadError>>,
    pub(crate) as_of: Vec<AsOf>,
    /// `true` if the mapping reached the end of the stream.
    pub(crate) settled: bool,
    pub(crate) faults: BTreeMap<String, u64>,
    /// Violations that only the running system shows.
    pub(crate) found: Violations,
    /// The table after the recovery: operators redrove and repaired, and senders sent unanswered updates again.
    pub(crate) recovered: Items,
    /// Findings of an audit of that table.
    pub(crate) findings: Vec<Value>,
    pub(crate) undos: Undos,
    /// The log, if there is one, once everything is sealed.
    pub(crate) sealed: Option<SealedHistory>,
    /// Updates that were not answered then, although no fault remained, with the last error of each.
    pub(crate) unanswered: Vec<(usize, Option<String>)>,
}

impl Evidence {
    /// Returns the number of versions in history, with those that are deleted.
    pub(crate) fn versions(&self) -> usize {
        let is_put = |written: &&Written| written.event() == "INSERT" && is_version_key(written.key());
        self.stream.iter().filter(is_put).count()
    }
}

/// A log, and what belongs to it.
#[derive(Debug)]
pub(crate) struct SealedHistory {
    /// Contents of each object, from the first to the last one.
    pub(crate) log: BTreeMap<String, Vec<Vec<u8>>>,
    /// Contents of the staged batches.
    pub(crate) staging: Vec<Vec<u8>>,
    /// Items of the tables of the state and of the keys.
    pub(crate) state: Vec<Value>,
    pub(crate) keys: Vec<Value>,
    /// The table then.
    pub(crate) items: Items,
    /// `true` if the state was restored from a backup.
    pub(crate) is_restored: bool,
}

/// Response to a delivery of an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Index of the update.
    pub(crate) update: usize,
    pub(crate) response: UpstreamResponse,
    /// Number of records in the stream when the delivery began.
    pub(crate) from: usize,
    /// Number of records in the stream when it ended.
    pub(crate) to: usize,
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    /// Number of the guarantee in `docs/reliability.md`.
    pub(crate) guarantee: u8,
    pub(crate) description: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "guarantee {} violated: {}", self.guarantee, self.description)
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Violations(pub(crate) Vec<Violation>);

impl Violations {
    pub(crate) fn add<const GUARANTEE: u8>(&mut self, description: String) {
        let guarantee = GUARANTEE;
        self.0.push(Violation { guarantee, description });
    }
}
