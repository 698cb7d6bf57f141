//! The log: its tiles, and its checkpoint, which is published after them.

use std::collections::{BTreeMap, BTreeSet};

use aws_config::SdkConfig;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use seal::{
    Hash,
    log::{
        checkpoint::Checkpoint,
        note::VerifierKey,
        proof::Plan,
        tile::{self, Content, Tile, WIDTH},
    },
};

use crate::{
    error::SealError,
    objects::{Bucket, Object, Objects},
    signer::Signer,
};

const CHECKPOINT: &str = "checkpoint";
/// Maximum number of requests at the same time.
const CONCURRENCY: usize = 16;
/// Number of attempts to replace the checkpoint, which another instance replaces at the same time.
const ATTEMPTS: usize = 20;

/// Objects of a log.
#[derive(Debug, Clone)]
pub struct Log(pub Objects);

impl Log {
    /// Opens a log to read it: `s3://BUCKET`, or a folder.
    pub fn open(place: &str, sdk: &SdkConfig) -> Self {
        Self(match place.strip_prefix("s3://") {
            Some(name) => Objects::Bucket(Bucket {
                client: aws_sdk_s3::Client::new(sdk),
                name: name.trim_end_matches('/').to_owned(),
                retention: None,
            }),
            None => Objects::Folder(place.into()),
        })
    }

    /// Reads the published checkpoint, `None` if there is none.
    ///
    /// # Errors
    ///
    /// The request fails, or the key has not signed it.
    pub async fn published(&self, key: &VerifierKey) -> Result<Option<(Object, Checkpoint)>, SealError> {
        let Some(object) = self.0.get(CHECKPOINT).await? else {
            return Ok(None);
        };
        let text = String::from_utf8_lossy(&object.bytes);
        let checkpoint = Checkpoint::open(&text, key)?;
        Ok(Some((object, checkpoint)))
    }

    /// Writes tiles, which can exist from an earlier attempt.
    ///
    /// # Errors
    ///
    /// A request fails, or a tile exists with another content.
    pub async fn write(&self, tiles: Vec<(Tile, Vec<u8>)>) -> Result<(), SealError> {
        let writes = tiles
            .into_iter()
            .map(async |(tile, bytes)| self.0.create(&tile.to_string(), &bytes).await);
        stream::iter(writes).buffer_unordered(CONCURRENCY).try_collect().await
    }

    /// Signs a checkpoint whose tiles are written, and publishes it, unless a later one is published.
    ///
    /// # Errors
    ///
    /// A request fails, or a checkpoint of this size exists with another root.
    pub async fn publish(&self, checkpoint: &Checkpoint, signer: &Signer) -> Result<(), SealError> {
        let path = format!("checkpoints/{}", checkpoint.size);
        let note = if let Some(object) = self.0.get(&path).await? {
            object.bytes
        } else {
            let note = signer.sign(checkpoint).await?.into_bytes();
            self.0.create(&path, &note).await?;
            note
        };
        if Checkpoint::open(&String::from_utf8_lossy(&note), signer.key())? != *checkpoint {
            return Err(SealError::Contradiction(format!(
                "{path} has another root than the state"
            )));
        }
        for _ in 0..ATTEMPTS {
            let published = self.published(signer.key()).await?;
            if published
                .as_ref()
                .is_some_and(|(_, other)| other.size >= checkpoint.size)
            {
                return Ok(());
            }
            let read = published.as_ref().map(|(object, _)| object);
            if self.0.replace(CHECKPOINT, &note, read).await? {
                return Ok(());
            }
        }
        Err(SealError::Setting(
            "the checkpoint was replaced again and again".to_owned(),
        ))
    }

    /// Reads tiles.
    ///
    /// # Errors
    ///
    /// A request fails, or a tile is missing or has another width.
    pub async fn tiles(&self, tiles: BTreeSet<Tile>) -> Result<BTreeMap<Tile, Vec<u8>>, SealError> {
        let reads = tiles.into_iter().map(async |tile| {
            let path = tile.to_string();
            let object = self.0.get(&path).await?;
            let object = object.ok_or_else(|| SealError::Contradiction(format!("the log has no {path}")))?;
            Ok::<_, SealError>((tile, object.bytes))
        });
        stream::iter(reads).buffer_unordered(CONCURRENCY).try_collect().await
    }

    /// Returns the hashes of a proof.
    ///
    /// # Errors
    ///
    /// As [`Self::tiles`].
    pub async fn proof(&self, plan: &Plan) -> Result<Vec<Hash>, SealError> {
        let tiles = self.tiles(plan.tiles()).await?;
        let mut hashes = BTreeMap::new();
        for (tile, bytes) in tiles {
            hashes.insert(tile, tile::hashes(tile, &bytes).ok_or_else(|| unreadable(tile))?);
        }
        plan.hashes(&hashes)
            .ok_or_else(|| SealError::Contradiction("the log lacks a tile of a proof".to_owned()))
    }

    /// Reads entries of a log of so many, from an index to the one before another, and passes each with its index to `add`.
    ///
    /// # Errors
    ///
    /// As [`Self::tiles`].
    pub async fn entries(
        &self,
        size: u64,
        (first, end): (u64, u64),
        mut add: impl FnMut(u64, &[u8]),
    ) -> Result<(), SealError> {
        let tiles = first / WIDTH..end.min(size).div_ceil(WIDTH);
        let reads = tiles
            .filter_map(|number| Tile::of_tree(Content::Entries, number, size))
            .map(async |tile| {
                let bytes = self
                    .tiles(BTreeSet::from([tile]))
                    .await?
                    .remove(&tile)
                    .unwrap_or_default();
                Ok::<_, SealError>((tile, bytes))
            });
        let mut reads = stream::iter(reads).buffered(CONCURRENCY);
        while let Some((tile, bytes)) = reads.try_next().await? {
            let entries = tile::entries(tile, &bytes).ok_or_else(|| unreadable(tile))?;
            for (index, entry) in (tile.index * WIDTH..).zip(entries) {
                if (first..end).contains(&index) {
                    add(index, entry);
                }
            }
        }
        Ok(())
    }
}

fn unreadable(tile: Tile) -> SealError {
    SealError::Unreadable(format!("the tile {tile}"))
}
