//! Reads a whole log from a folder, and checks it against its checkpoint, with constant memory.

use std::{
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;

use super::{
    checkpoint::{Checkpoint, CheckpointError},
    note::VerifierKey,
    tile::{Content, Tile, WIDTH, entries},
    tree::{Growing, leaf_hash},
};
use crate::Hash;

/// Path of the newest checkpoint.
const CHECKPOINT: &str = "checkpoint";

/// A folder in the layout of C2SP tlog-tiles.
#[derive(Debug, Clone)]
pub struct Folder(PathBuf);

/// A log that cannot be read, or is not what its checkpoint says.
#[derive(Debug, Error)]
pub enum LogError {
    /// A file cannot be read.
    #[error("the log has no readable file {0}")]
    File(String, #[source] io::Error),
    /// The checkpoint is not the log's.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A tile does not have its entries.
    #[error("the tile {0} does not have the entries of its width")]
    Tile(String),
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

impl Folder {
    /// Creates the reader of a folder.
    pub fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Reads the newest checkpoint.
    ///
    /// # Errors
    ///
    /// There is none, or the key has not signed it.
    pub fn checkpoint(&self, key: &VerifierKey) -> Result<Checkpoint, LogError> {
        let note = std::fs::read_to_string(self.0.join(CHECKPOINT));
        let note = note.map_err(|error| LogError::File(CHECKPOINT.to_owned(), error))?;
        Ok(Checkpoint::open(&note, key)?)
    }

    /// Passes each entry of the newest checkpoint with its index to `on_entry`, and checks the entries against this checkpoint and an earlier
    /// one.
    ///
    /// # Errors
    ///
    /// A tile cannot be read, or the entries are not those of both checkpoints.
    pub fn read(
        &self,
        key: &VerifierKey,
        earlier: &Checkpoint,
        mut on_entry: impl FnMut(u64, &[u8]),
    ) -> Result<Checkpoint, LogError> {
        let newest = self.checkpoint(key)?;
        if earlier.size > newest.size {
            return Err(LogError::Truncated {
                log: newest.size,
                checkpoint: earlier.size,
            });
        }
        let mut tree = Growing::default();
        let is_of = |checkpoint: &Checkpoint, root: Hash| match checkpoint.root == root {
            true => Ok(()),
            false => Err(LogError::Root(checkpoint.size)),
        };
        let mut index = 0;
        for number in 0..newest.size.div_ceil(WIDTH) {
            let tile = Tile::of_tree(Content::Entries, number, newest.size);
            let tile = tile.ok_or_else(|| LogError::Tile(number.to_string()))?;
            let bytes = self.tile(tile)?;
            for entry in entries(tile, &bytes).ok_or_else(|| LogError::Tile(tile.to_string()))? {
                if index == earlier.size {
                    is_of(earlier, tree.root())?;
                }
                on_entry(index, entry);
                tree.push(leaf_hash(entry));
                index += 1;
            }
        }
        if index == earlier.size {
            is_of(earlier, tree.root())?;
        }
        is_of(&newest, tree.root())?;
        Ok(newest)
    }

    fn tile(&self, tile: Tile) -> Result<Vec<u8>, LogError> {
        let path = tile.to_string();
        std::fs::read(self.0.join(&path)).map_err(|error| LogError::File(path, error))
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{Ed25519KeyPair, KeyPair as _};

    use super::*;
    use crate::log::growth::Edge;

    const SIZES: [u64; 3] = [200, 300, 700];

    fn signed(size: u64, root: Hash) -> (VerifierKey, String, Checkpoint) {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[3; 32]).unwrap();
        let key = VerifierKey::new("log", pair.public_key().as_ref().try_into().unwrap()).unwrap();
        let checkpoint = Checkpoint {
            origin: "log".to_owned(),
            size,
            root,
        };
        let text = checkpoint.text();
        (
            key.clone(),
            key.note(&text, pair.sign(text.as_bytes()).as_ref()),
            checkpoint,
        )
    }

    /// Writes a log in batches, and returns its folder, its key and its checkpoints.
    fn log(salt: u64) -> (tempfile::TempDir, VerifierKey, Vec<Checkpoint>) {
        let folder = tempfile::tempdir().unwrap();
        let (mut edge, mut checkpoints, mut key) = (Edge::default(), Vec::new(), None);
        for size in SIZES {
            let entries: Vec<Vec<u8>> = (edge.size()..size)
                .map(|index| (index * salt).to_be_bytes().to_vec())
                .collect();
            for (tile, bytes) in edge.append(&entries).unwrap() {
                let path = folder.path().join(tile.to_string());
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, bytes).unwrap();
            }
            let (signer, note, checkpoint) = signed(size, edge.root());
            std::fs::write(folder.path().join("checkpoint"), note).unwrap();
            checkpoints.push(checkpoint);
            key = Some(signer);
        }
        (folder, key.unwrap(), checkpoints)
    }

    #[test]
    fn all_entries_of_a_log_are_read_and_checked_against_each_checkpoint() {
        let (folder, key, checkpoints) = log(1);
        for earlier in &checkpoints {
            let mut read = Vec::new();
            let newest = Folder::new(folder.path())
                .read(&key, earlier, |index, entry| read.push((index, entry.to_vec())))
                .unwrap();
            assert_eq!(newest, checkpoints[2]);
            assert!(
                read.into_iter()
                    .eq((0..700_u64).map(|index| (index, index.to_be_bytes().to_vec())))
            );
        }
    }

    #[test]
    fn a_changed_log_is_an_error() {
        let (_, _, other) = log(2);
        let (folder, key, checkpoints) = log(1);
        let read = |earlier: &Checkpoint| Folder::new(folder.path()).read(&key, earlier, |_, _| {}).unwrap_err();
        for (earlier, size) in [(&other[0], 200), (&other[2], 700)] {
            assert!(matches!(read(earlier), LogError::Root(found) if found == size));
        }
        let (_, _, larger) = signed(701, [1; 32]);
        assert!(matches!(
            read(&larger),
            LogError::Truncated {
                log: 700,
                checkpoint: 701
            }
        ));
        let tile = folder.path().join("tile/entries/001");
        let bytes = std::fs::read(&tile).unwrap();
        let mut changed = bytes.clone();
        changed[45] ^= 1;
        std::fs::write(&tile, &changed).unwrap();
        assert!(matches!(read(&checkpoints[0]), LogError::Root(700)));
        std::fs::write(&tile, &bytes[1..]).unwrap();
        assert!(matches!(read(&checkpoints[0]), LogError::Tile(_)));
        std::fs::remove_file(&tile).unwrap();
        assert!(matches!(read(&checkpoints[0]), LogError::File(..)));
        std::fs::write(&tile, &bytes).unwrap();
        let (_, note, _) = signed(700, [1; 32]);
        std::fs::write(folder.path().join("checkpoint"), note).unwrap();
        assert!(matches!(read(&checkpoints[0]), LogError::Root(700)));
        std::fs::write(folder.path().join("checkpoint"), "x").unwrap();
        assert!(matches!(read(&checkpoints[0]), LogError::Checkpoint(_)));
    }
}
