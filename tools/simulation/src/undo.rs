//! Undos of a schedule: what they take back, and what their runs report.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Undo of the selected versions, which writes a set of changes of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Undo {
    pub(crate) number: usize,
    pub(crate) selected: Selected,
    pub(crate) conflicts: Conflicts,
    /// Milliseconds from the plan to its first run, if the plan is saved. `None` plans again with each run.
    pub(crate) saved: Option<u64>,
}

/// Versions that are undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Selected {
    Actor(String),
    ChangeSet(String),
    /// One of an entity.
    Version(String, u64),
}

/// Treatment of an entity in which others changed the same since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Conflicts {
    Leave,
    SkipPath,
    Overwrite,
}

impl Undo {
    pub(crate) fn change_set(&self) -> String {
        format!("undo-{}", self.number)
    }
}

/// What the runs of all undos planned and reported.
#[derive(Debug, Default)]
pub(crate) struct Undos {
    pub(crate) reports: Vec<Report>,
    /// Plans that were saved, by the number of the undo.
    pub(crate) saved: BTreeMap<usize, BTreeMap<String, Saved>>,
    /// Ends of the runs without faults and updates: number of the undo, numbers of records in the stream before and after.
    pub(crate) ends: Vec<(usize, usize, usize)>,
}

/// Newest and selected versions of an entity that a saved plan saw.
#[derive(Debug, Clone)]
pub(crate) struct Saved {
    pub(crate) newest: u64,
    pub(crate) versions: Vec<u64>,
}

/// What a run reports of an entity.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) number: usize,
    pub(crate) entity: String,
    pub(crate) is_written: bool,
    pub(crate) version: Option<u64>,
    pub(crate) has_conflicts: bool,
    /// Why the entity as a whole is left as it is.
    pub(crate) reason: Option<String>,
    /// Number of records in the stream when the run, and when the report came.
    pub(crate) from: usize,
    pub(crate) to: usize,
}
