//! The log: its tiles, and its checkpoint, which is published after them.

use std::collections::{BTreeMap, BTreeSet};

use aws_config::SdkConfig;
use aws_sdk_s3::Client;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use seal::{
    Hash,
    log::{
        checkpoint::Checkpoint,
        note::VerifierKey,
        proof::Plan,
        tile::{self, Content, Tile, WIDTH},
    },
    proof::{
        document::Document,
        in_log::{InLog, Search},
        verify::Proven,
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
const ATTEMPTS: u32 = 20;

/// Objects of a log.
#[derive(Debug, Clone)]
pub struct Log(pub Objects);

impl Log {
    /// Creates the log at `s3://BUCKET` or in a folder. Only a bucket needs the configuration, and can have another endpoint than AWS.
    ///
    /// # Errors
    ///
    /// There is no configuration.
    pub async fn at<E>(
        place: &str,
        endpoint: Option<&str>,
        sdk: impl AsyncFnOnce() -> Result<SdkConfig, E>,
    ) -> Result<Self, E> {
        let Some(bucket) = place.strip_prefix("s3://") else {
            return Ok(Self(Objects::Folder(place.into())));
        };
        let mut config = aws_sdk_s3::config::Builder::from(&sdk().await?);
        if let Some(url) = endpoint {
            // Other endpoints have no host name per bucket.
            config = config.endpoint_url(url).force_path_style(true);
        }
        Ok(Self(Objects::Bucket(Bucket {
            client: Client::from_conf(config.build()),
            name: bucket.trim_end_matches('/').to_owned(),
            retention: None,
        })))
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
        Err(SealError::Contended(ATTEMPTS))
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
            let object = object.ok_or(SealError::Missing(path))?;
            Ok::<_, SealError>((tile, object.bytes))
        });
        stream::iter(reads).buffer_unordered(CONCURRENCY).try_collect().await
    }

    /// Returns the hashes of proofs, which share tiles.
    ///
    /// # Errors
    ///
    /// As [`Self::tiles`].
    pub async fn proofs(&self, plans: &[Plan]) -> Result<Vec<Vec<Hash>>, SealError> {
        let tiles = self.tiles(plans.iter().flat_map(Plan::tiles).collect()).await?;
        let mut hashes = BTreeMap::new();
        for (tile, bytes) in tiles {
            hashes.insert(tile, tile::hashes(tile, &bytes).ok_or_else(|| unreadable(tile))?);
        }
        let proof = |plan: &Plan| plan.hashes(&hashes);
        let proofs: Option<Vec<_>> = plans.iter().map(proof).collect();
        proofs.ok_or_else(|| SealError::Missing("tile of a proof".to_owned()))
    }

    /// Reads the whole log that a proof is of, and looks for the entity's versions.
    ///
    /// # Errors
    ///
    /// A request fails; or the log is not the one of the proof's checkpoint, was changed or truncated since, or has two leaves of one version.
    pub async fn search(&self, document: &Document, proven: &Proven, key: &VerifierKey) -> Result<InLog, SealError> {
        let published = self.published(key).await?;
        let (_, newest) = published.ok_or_else(|| SealError::Missing(CHECKPOINT.to_owned()))?;
        let size = newest.size;
        let mut search = Search::new(document, proven, newest)?;
        self.entries(size, (0, size), |index, entry| search.add(index, entry))
            .await?;
        Ok(search.end()?)
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
        let tiles = first / WIDTH..end.div_ceil(WIDTH);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_checkpoint_replaces_an_earlier_one_and_contradicts_none() {
        let folder = tempfile::tempdir().unwrap();
        let log = Log(Objects::Folder(folder.path().to_owned()));
        let signer = Signer::of_seed(&[7; 32], "log").unwrap();
        let checkpoint = |size: u8| Checkpoint {
            origin: "log".to_owned(),
            size: size.into(),
            root: [size; 32],
        };
        for (size, newest) in [(5, 5), (9, 9), (7, 9), (9, 9)] {
            log.publish(&checkpoint(size), &signer).await.unwrap();
            let (_, published) = log.published(signer.key()).await.unwrap().unwrap();
            assert_eq!(published, checkpoint(newest));
        }
        let other = Checkpoint {
            root: [1; 32],
            ..checkpoint(7)
        };
        let published = log.publish(&other, &signer).await;
        assert!(matches!(published, Err(SealError::Contradiction(_))));
        // A checkpoint is signed once: another note of it can differ.
        let note = signer.sign(&checkpoint(11)).await.unwrap() + "— witness AAAAAAAA\n";
        log.0.create("checkpoints/11", note.as_bytes()).await.unwrap();
        log.publish(&checkpoint(11), &signer).await.unwrap();
        assert_eq!(log.0.get("checkpoint").await.unwrap().unwrap().bytes, note.as_bytes());
    }
}
