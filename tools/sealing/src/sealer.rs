//! What sealing works with: the log, its state, the keys, and the tables.

use std::collections::BTreeMap;

use seal::{format::leaf::Leaf, log::growth::Edge};
use shared::{clock::Clock, domain::recorded_at::RecordedAt, dynamodb::Store};

use crate::{
    keys::KeysTable,
    log::Log,
    objects::Objects,
    signer::Signer,
    staged::Known,
    state::{Operation, State, StateTable},
};

/// Number of attempts against other instances, and against erasures.
pub(crate) const ATTEMPTS: u32 = 20;

/// A table whose versions are sealed.
#[derive(Debug, Clone)]
pub struct Table {
    /// The table.
    pub store: Store,
    /// Its id in leaves.
    pub arn: String,
}

/// Numbers of versions that are handled together.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// First batch of a run. It is small, so that a function that is killed again and again makes progress; the next ones are larger.
    pub first_batch: usize,
    /// Batch.
    pub batch: usize,
    /// Period of the index that is read at once. A longer outage is read in shorter periods.
    pub period: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            first_batch: 500,
            batch: 10_000,
            period: 200_000,
        }
    }
}

/// Seals the versions of tables in one log.
pub struct Sealer {
    /// Tables.
    pub tables: Vec<Table>,
    /// The log.
    pub log: Log,
    /// Staged batches.
    pub staging: Objects,
    /// State of the log.
    pub state: StateTable,
    /// Random keys.
    pub keys: KeysTable,
    /// Key of the log.
    pub signer: Signer,
    /// Clock.
    pub clock: Clock,
    /// Limits.
    pub limits: Limits,
}

/// Outcome of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sealed {
    /// Number of leaves.
    pub leaves: u64,
    /// Size of the log.
    pub size: u64,
    /// Time of insertion of the oldest version that is known and not sealed.
    pub oldest: Option<String>,
    /// Time of the last batch.
    pub sealed_at: Option<RecordedAt>,
}

/// The log after the last swap was finished.
pub(crate) struct Head {
    pub(crate) state: State,
    pub(crate) edge: Edge,
    /// Versions that were sealed of late. `None` if the staged batch is lost.
    pub(crate) known: Option<BTreeMap<String, Vec<Known>>>,
}

/// Leaves that are appended together.
pub(crate) struct Appended {
    /// Each with the number of its operation, if it is one.
    pub(crate) leaves: Vec<(Leaf, Option<usize>)>,
    pub(crate) inserted: (String, String),
    pub(crate) known: BTreeMap<String, Vec<Known>>,
    pub(crate) cursors: BTreeMap<String, RecordedAt>,
    pub(crate) operations: Vec<Operation>,
}
