//! What only the whole log shows of a proof: a version that was sealed twice, later versions, a log that was changed.

use std::collections::BTreeMap;

use thiserror::Error;

use super::{document::Document, verify::Proven};
use crate::{
    format::leaf::{InvalidLeaf, Kind, Leaf, entity_tag},
    log::{
        checkpoint::Checkpoint,
        note::VerifierKey,
        reader::{Folder, LogError},
    },
};

/// What the log shows of the entity of a proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InLog {
    /// Newest checkpoint.
    pub checkpoint: Checkpoint,
    /// Number of versions of the entity, and the newest one.
    pub versions: (u64, u64),
}

/// A log that contradicts a proof, or itself.
#[derive(Debug, Error)]
pub enum InLogError {
    /// The log cannot be read, or was changed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// An entry that is no leaf.
    #[error("entry {0}: {InvalidLeaf}")]
    Leaf(u64),
    /// Two leaves of one version.
    #[error("version {version} was sealed twice, at index {first} and at index {second}")]
    Twice {
        /// Version.
        version: u64,
        /// Index of the first leaf.
        first: u64,
        /// Index of the second leaf.
        second: u64,
    },
}

/// Reads the whole log that a proof is of, and looks for the entity's versions.
///
/// # Errors
///
/// The log is not the one of the proof's checkpoint, was changed or truncated since, or has two leaves of one version of the entity.
pub fn find(document: &Document, proven: &Proven, log: &Folder, key: &VerifierKey) -> Result<InLog, InLogError> {
    let tag = entity_tag(&document.entity_key.0, &document.table, &document.entity);
    let (mut versions, mut error) = (BTreeMap::new(), None);
    let checkpoint = log.read(key, &proven.checkpoint, |index, entry| match Leaf::parse(entry) {
        Ok(leaf) if leaf.kind == Kind::Version && Ok(leaf.tag) == tag => {
            if let Some(first) = versions.insert(leaf.version, index) {
                let (version, second) = (leaf.version, index);
                error.get_or_insert(InLogError::Twice { version, first, second });
            }
        }
        Ok(_) => {}
        Err(InvalidLeaf) => drop(error.get_or_insert(InLogError::Leaf(index))),
    })?;
    match error {
        Some(error) => Err(error),
        None => Ok(InLog {
            checkpoint,
            versions: (
                versions.len() as u64,
                versions.last_key_value().map_or(0, |(version, _)| *version),
            ),
        }),
    }
}
