//! What an audit finds.

use serde::Serialize;
use serde_json::{Value, json};

/// Kind of finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Kind {
    /// The content of the version is not the one that was sealed.
    Changed,
    /// The version has the content of another version, which exists.
    Swapped,
    /// The version has the content of another version, which is missing.
    Renumbered,
    /// The version was sealed, and no operation removed it.
    Missing,
    /// The version was not sealed although it is old enough: it was inserted or back-dated behind the back of the functions.
    Unsealed,
    /// The log has two leaves of the version.
    SealedTwice,
    /// The log has versions of an entity whose keys were deleted.
    UnknownEntity,
    /// Entries or tiles are not those of a checkpoint.
    Rewritten,
    /// The log is smaller than a checkpoint or its state.
    Truncated,
    /// The key did not sign the checkpoint.
    Checkpoint,
}

/// A finding, with the members that name what it is of.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Kind.
    pub kind: Kind,
    /// `{"ID": …, "Version": 7, "Finding": "Changed", …}`.
    pub json: Value,
}

impl Finding {
    pub(super) fn new(entity: &str, version: u64, kind: Kind, more: Value) -> Self {
        let json = json!({"ID": entity, "Version": version, "Finding": kind});
        Self { kind, json }.with(more)
    }

    /// Returns a finding without an entity.
    pub(super) fn of_log(kind: Kind, more: Value) -> Self {
        let json = json!({"Finding": kind});
        Self { kind, json }.with(more)
    }

    fn with(mut self, more: Value) -> Self {
        if let (Value::Object(members), Value::Object(more)) = (&mut self.json, more) {
            members.extend(more);
        }
        self
    }
}
