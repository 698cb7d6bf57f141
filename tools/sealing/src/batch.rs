//! Batches of the log. Two instances can run at the same time, and each can be killed between any two requests:
//!
//! 1. The batch is staged, in a place without Object Lock.
//! 2. The state is swapped: size, root, cursors and the name of the staged batch. One instance wins.
//! 3. Tiles are written. They can exist from an attempt that was killed.
//! 4. The checkpoint is signed and published.
//!
//! Every run first finishes 3 and 4 of the last swap.

use std::collections::BTreeMap;

use seal::log::{
    checkpoint::Checkpoint,
    growth::{Edge, InvalidEdge},
    tile::Tile,
};
use shared::domain::{recorded_at::RecordedAt, time_index};

use crate::{
    error::SealError,
    sealer::{ATTEMPTS, Appended, Head, Sealed, Sealer},
    staged::Staged,
    state::{Batch, State},
};

impl Sealer {
    /// Returns the log after the last swap, whose tiles and checkpoint are written if they are not yet.
    ///
    /// # Errors
    ///
    /// A request fails, or the log contradicts its state.
    pub(crate) async fn finish(&self, sealed: &mut Sealed) -> Result<Head, SealError> {
        let contradiction = |what: &str| SealError::Contradiction(what.to_owned());
        for _ in 0..ATTEMPTS {
            let state = self.state.read().await?;
            let published = self
                .log
                .published(self.signer.key())
                .await?
                .map(|(_, checkpoint)| checkpoint);
            let size = published.as_ref().map_or(0, |checkpoint| checkpoint.size);
            if size > state.size && self.state.read().await? == state {
                return Err(contradiction(
                    "the published checkpoint is larger than the state of the log, which was restored from a backup or deleted",
                ));
            }
            if published.is_some_and(|published| published.size == state.size && published.root != state.root) {
                return Err(contradiction(
                    "the published checkpoint has another root than the state of the log",
                ));
            }
            if state.size == 0 {
                let edge = Edge::default();
                return Ok(Head {
                    state,
                    edge,
                    known: Some(BTreeMap::new()),
                });
            }
            let staged = self.staging.get(&state.staging).await?;
            let Some(staged) = staged.map(|object| Staged::parse(&object.bytes)).transpose()? else {
                if self.state.read().await? != state {
                    continue;
                }
                if size < state.size {
                    return Err(contradiction(
                        "the staged batch is missing, and its tiles may not be written: restore the object from a backup",
                    ));
                }
                let edge = self.edge(state.size).await?;
                return Ok(Head {
                    state,
                    edge,
                    known: None,
                });
            };
            let mut edge = staged.edge;
            let tiles = edge
                .append(&staged.entries)
                .map_err(|InvalidEdge| contradiction("a staged entry is too long"))?;
            if (edge.size(), edge.root()) != (state.size, state.root) {
                return Err(contradiction("the staged batch is not the one of the state of the log"));
            }
            if size < state.size {
                // If this fails, its versions still wait.
                sealed.sealed_at = state.sealed_at;
                sealed.oldest = state.sealed_at.map(|time| format!("{}/", time_index::millis(time)));
                self.publish(&state, tiles).await?;
            }
            return Ok(Head {
                state,
                edge,
                known: Some(staged.known),
            });
        }
        Err(SealError::Contended(ATTEMPTS))
    }

    /// Reads the edge of the log from its tiles.
    pub(crate) async fn edge(&self, size: u64) -> Result<Edge, SealError> {
        let tiles = Edge::tiles(size);
        let mut read = self.log.tiles(tiles.iter().copied().collect()).await?;
        let bytes: Vec<_> = tiles.iter().map(|tile| read.remove(tile).unwrap_or_default()).collect();
        Edge::new(size, &bytes).map_err(|error| SealError::Contradiction(error.to_string()))
    }

    pub(crate) async fn publish(&self, state: &State, tiles: Vec<(Tile, Vec<u8>)>) -> Result<(), SealError> {
        self.log.write(tiles).await?;
        let checkpoint = Checkpoint {
            origin: self.signer.key().name().to_owned(),
            size: state.size,
            root: state.root,
        };
        self.log.publish(&checkpoint, &self.signer).await
    }

    /// Appends a batch to the log. `None` if another instance was faster.
    pub(crate) async fn append(
        &self,
        head: Head,
        batch: Appended,
        sealed: &mut Sealed,
    ) -> Result<Option<Head>, SealError> {
        let Appended {
            mut leaves,
            inserted,
            known,
            cursors,
            mut operations,
        } = batch;
        leaves.sort_unstable_by_key(|(leaf, _)| (leaf.tag, leaf.version, leaf.kind));
        let first_index = head.edge.size();
        for ((_, operation), index) in leaves.iter().zip(first_index..) {
            if let Some(operation) = operation.and_then(|number| operations.get_mut(number)) {
                operation.index = Some(index);
            }
        }
        let entries: Vec<_> = leaves.iter().map(|(leaf, _)| leaf.bytes().to_vec()).collect();
        let count = entries.len() as u64;
        let staged = Staged {
            edge: head.edge.clone(),
            entries,
            known,
        };
        let text = staged.text()?;
        let Staged {
            entries,
            known,
            mut edge,
        } = staged;
        let tiles = edge
            .append(&entries)
            .map_err(|error| SealError::Contradiction(error.to_string()))?;
        let state = State {
            size: edge.size(),
            root: edge.root(),
            staging: format!("staging/{:020}-{:016x}", edge.size(), fastrand::u64(..)),
            cursors,
            sealed_at: Some(RecordedAt::since_epoch(self.clock.now())),
        };
        self.staging.create(&state.staging, &text).await?;
        let batch = Batch {
            first_index,
            count,
            inserted,
        };
        if !self.state.swap(&head.state, &state, &batch, &operations).await? {
            self.staging.delete(&state.staging).await?;
            return Ok(None);
        }
        self.publish(&state, tiles).await?;
        if !head.state.staging.is_empty() {
            self.staging.delete(&head.state.staging).await?;
        }
        sealed.leaves += count;
        sealed.size = state.size;
        sealed.sealed_at = state.sealed_at;
        Ok(Some(Head {
            state,
            edge,
            known: Some(known),
        }))
    }
}
