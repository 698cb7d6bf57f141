//! Checks a whole log against its newest checkpoint and an earlier one, entry by entry, with constant memory.

use thiserror::Error;

use super::{
    checkpoint::Checkpoint,
    tree::{Growing, leaf_hash},
};

/// A log that is read from its first entry on.
#[derive(Debug, Clone)]
pub struct Reading {
    earlier: Checkpoint,
    newest: Checkpoint,
    tree: Growing,
    size: u64,
}

/// A log that is not what its checkpoints say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum LogError {
    /// The entries do not make the root of a checkpoint.
    #[error("the entries of the log are not those of the checkpoint of size {0}: the log was changed")]
    Root(u64),
    /// A checkpoint is larger than the log.
    #[error("the log has {log} entries, and a checkpoint that its key signed has {checkpoint}: the log was truncated")]
    Truncated {
        /// Number of entries of the log.
        log: u64,
        /// Number of entries of the checkpoint.
        checkpoint: u64,
    },
}

impl Reading {
    /// Begins to read a log.
    ///
    /// # Errors
    ///
    /// The earlier checkpoint is larger.
    pub fn new(earlier: Checkpoint, newest: Checkpoint) -> Result<Self, LogError> {
        match earlier.size > newest.size {
            true => Err(LogError::Truncated {
                log: newest.size,
                checkpoint: earlier.size,
            }),
            false => Ok(Self {
                earlier,
                newest,
                tree: Growing::default(),
                size: 0,
            }),
        }
    }

    /// Adds the next entry.
    ///
    /// # Errors
    ///
    /// The entries before it are not those of the earlier checkpoint.
    pub fn push(&mut self, entry: &[u8]) -> Result<(), LogError> {
        self.check(&self.earlier)?;
        self.tree.push(leaf_hash(entry));
        self.size += 1;
        Ok(())
    }

    /// Returns the newest checkpoint.
    ///
    /// # Errors
    ///
    /// The entries are not those of both checkpoints.
    pub fn end(self) -> Result<Checkpoint, LogError> {
        self.check(&self.earlier)?;
        match self.size == self.newest.size {
            true => self.check(&self.newest)?,
            false => return Err(LogError::Root(self.newest.size)),
        }
        Ok(self.newest)
    }

    /// Compares the entries with a checkpoint, if they are as many.
    fn check(&self, checkpoint: &Checkpoint) -> Result<(), LogError> {
        match checkpoint.size == self.size && checkpoint.root != self.tree.root() {
            true => Err(LogError::Root(checkpoint.size)),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::tree::root;

    fn entries(salt: u64) -> Vec<Vec<u8>> {
        let entry = |index: u64| (index * salt).to_be_bytes().to_vec();
        (0..700).map(entry).collect()
    }

    fn checkpoint(entries: &[Vec<u8>]) -> Checkpoint {
        Checkpoint {
            origin: "log".to_owned(),
            size: entries.len() as u64,
            root: root(entries.iter().map(|entry| leaf_hash(entry))),
        }
    }

    fn read(earlier: &Checkpoint, newest: &Checkpoint, entries: &[Vec<u8>]) -> Result<Checkpoint, LogError> {
        let mut reading = Reading::new(earlier.clone(), newest.clone())?;
        entries.iter().try_for_each(|entry| reading.push(entry))?;
        reading.end()
    }

    #[test]
    fn a_log_is_checked_against_both_checkpoints() {
        let (entries, other) = (entries(1), entries(2));
        let newest = checkpoint(&entries);
        for size in [0, 200, 256, 700] {
            assert_eq!(
                read(&checkpoint(&entries[..size]), &newest, &entries),
                Ok(newest.clone())
            );
        }
        let mut changed = entries.clone();
        changed[300][7] ^= 1;
        let truncated = LogError::Truncated {
            log: 200,
            checkpoint: 700,
        };
        for (earlier, newest, read_entries, error) in [
            (&checkpoint(&other[..200]), &newest, &entries[..], LogError::Root(200)),
            (&newest, &checkpoint(&other), &entries, LogError::Root(700)),
            (&checkpoint(&entries[..200]), &newest, &changed, LogError::Root(700)),
            (
                &checkpoint(&entries[..200]),
                &newest,
                &entries[..699],
                LogError::Root(700),
            ),
            (&newest, &checkpoint(&entries[..200]), &entries, truncated),
        ] {
            assert_eq!(read(earlier, newest, read_entries), Err(error));
        }
    }
}
