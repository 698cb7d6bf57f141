//! What only the whole log shows of a proof: a version that was sealed twice, later versions, a log that was changed.

use std::collections::BTreeMap;

use thiserror::Error;

use super::{document::Document, verify::Proven};
use crate::{
    Hash,
    format::{
        FormatError,
        leaf::{InvalidLeaf, Kind, Leaf, entity_tag},
    },
    log::{
        checkpoint::Checkpoint,
        reader::{LogError, Reading},
    },
};

/// What the log shows of the entity of a proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InLog {
    /// Newest checkpoint.
    pub checkpoint: Checkpoint,
    /// Number of versions of the entity since its last purge, and the newest one.
    pub versions: (u64, u64),
    /// Number of purges of the entity: each version can have been sealed again after one.
    pub purges: u64,
}

/// A log that contradicts a proof, or itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InLogError {
    /// The log was changed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The document has no leaf.
    #[error(transparent)]
    Format(#[from] FormatError),
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

/// Looks for the entity's versions in the whole log that a proof is of.
#[derive(Debug, Clone)]
pub struct Search {
    reading: Reading,
    tag: Hash,
    /// Indices of versions.
    versions: BTreeMap<u64, u64>,
    purges: u64,
    error: Option<InLogError>,
}

impl Search {
    /// Begins with the newest checkpoint of the log.
    ///
    /// # Errors
    ///
    /// The log is smaller than the checkpoint of the proof.
    pub fn new(document: &Document, proven: &Proven, newest: Checkpoint) -> Result<Self, InLogError> {
        Ok(Self {
            reading: Reading::new(proven.checkpoint.clone(), newest)?,
            tag: entity_tag(&document.entity_key.0, &document.table, &document.entity)?,
            versions: BTreeMap::new(),
            purges: 0,
            error: None,
        })
    }

    /// Adds the next entry. An error is kept until the end.
    pub fn add(&mut self, index: u64, entry: &[u8]) {
        // After an error, the reading stays where it is, and ends with the error.
        if self.reading.push(entry).is_err() {
            return;
        }
        let error = match Leaf::parse(entry) {
            Ok(leaf) if leaf.kind == Kind::Version && leaf.tag == self.tag => {
                let (version, second) = (leaf.version, index);
                let first = self.versions.insert(version, index);
                first.map(|first| InLogError::Twice { version, first, second })
            }
            Ok(leaf) if leaf.kind == Kind::Purge && leaf.tag == self.tag => {
                // The entity begins again at version 1.
                self.versions.clear();
                self.purges += 1;
                None
            }
            Ok(_) => None,
            Err(InvalidLeaf) => Some(InLogError::Leaf(index)),
        };
        self.error = self.error.or(error);
    }

    /// Returns what the log shows.
    ///
    /// # Errors
    ///
    /// The log is not the one of the proof's checkpoint, was changed since, or has two leaves of one version of the entity.
    pub fn end(self) -> Result<InLog, InLogError> {
        let checkpoint = self.reading.end()?;
        let (versions, purges) = (self.versions, self.purges);
        match self.error {
            Some(error) => Err(error),
            None => Ok(InLog {
                checkpoint,
                versions: (
                    versions.len() as u64,
                    versions.last_key_value().map_or(0, |(version, _)| *version),
                ),
                purges,
            }),
        }
    }
}
