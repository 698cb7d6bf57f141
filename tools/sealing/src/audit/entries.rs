//! The log: all entries, checked against the published checkpoint, an earlier one, and the tiles of hashes.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use seal::{
    format::leaf::Leaf,
    log::{
        checkpoint::Checkpoint,
        growth::Edge,
        tile::{self, Content, Tile, WIDTH},
    },
};
use serde_json::json;

use super::finding::{Finding, Kind};
use crate::{error::SealError, log::Log};

/// Number of objects that are read at the same time.
const CONCURRENCY: usize = 16;

/// Reads all entries, and passes each leaf with its index to `add`. Returns what is wrong with the log, and `false` if not all of its
/// entries could be read.
///
/// # Errors
///
/// A request fails, or `add` does.
pub(super) async fn read(
    log: &Log,
    newest: &Checkpoint,
    mut earlier: Option<&Checkpoint>,
    mut add: impl FnMut(u64, Leaf) -> Result<(), SealError>,
) -> Result<(Vec<Finding>, bool), SealError> {
    let (mut findings, size) = (Vec::new(), newest.size);
    let rewritten =
        |object: &Tile| Finding::of_log(Kind::Rewritten, json!({"Size": size, "Object": object.to_string()}));
    let tiles = (0..size.div_ceil(WIDTH)).filter_map(|number| Tile::of_tree(Content::Entries, number, size));
    let reads = tiles.map(async |tile| Ok::<_, SealError>((tile, log.0.get(&tile.to_string()).await?)));
    let (mut reads, mut edge) = (stream::iter(reads).buffered(CONCURRENCY), Edge::default());
    while let Some((tile, object)) = reads.try_next().await? {
        let entries = object.as_ref().and_then(|object| tile::entries(tile, &object.bytes));
        let Some(entries) = entries else {
            findings.push(rewritten(&tile));
            return Ok((findings, false));
        };
        for (index, entry) in (tile.index * WIDTH..).zip(&entries) {
            match Leaf::parse(entry) {
                Ok(leaf) => add(index, leaf)?,
                Err(error) => {
                    let json = json!({"Index": index, "Reason": error.to_string()});
                    findings.push(Finding::of_log(Kind::Rewritten, json));
                }
            }
        }
        let mut first: Vec<_> = entries.into_iter().map(<[u8]>::to_vec).collect();
        // The earlier checkpoint can end within the tile.
        let cut = earlier.and_then(|earlier| usize::try_from(earlier.size - edge.size()).ok());
        let rest = first.split_off(cut.unwrap_or(first.len()).min(first.len()));
        let mut created = Vec::new();
        for part in [first, rest] {
            let tiles = edge.append(&part);
            created.extend(tiles.map_err(|error| SealError::Contradiction(error.to_string()))?);
            check_earlier(&mut earlier, &edge, size, &mut findings);
        }
        // Partial tiles of smaller trees may be deleted.
        let is_current = |tile: &Tile| Tile::of_tree(tile.content, tile.index, size) == Some(*tile);
        created.retain(|(tile, _)| tile.content != Content::Entries && is_current(tile));
        for (tile, bytes) in created {
            if log
                .0
                .get(&tile.to_string())
                .await?
                .is_none_or(|object| object.bytes != bytes)
            {
                findings.push(rewritten(&tile));
            }
        }
    }
    if edge.root() != newest.root {
        findings.push(Finding::of_log(Kind::Rewritten, json!({"Size": size})));
    }
    Ok((findings, true))
}

/// Checks the tree against the earlier checkpoint, if it has its size.
fn check_earlier(earlier: &mut Option<&Checkpoint>, edge: &Edge, size: u64, findings: &mut Vec<Finding>) {
    if let Some(earlier) = earlier.take_if(|earlier| earlier.size == edge.size())
        && edge.root() != earlier.root
    {
        let json = json!({"Size": size, "EarlierSize": earlier.size});
        findings.push(Finding::of_log(Kind::Rewritten, json));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Objects;

    #[tokio::test]
    async fn a_log_has_the_entries_of_its_checkpoints() {
        // Format, kind, tag, version and content.
        let leaf = |number: u16| [&[1, 1][..], &[7; 38], &number.to_be_bytes(), &[0; 32]].concat();
        let honest: Vec<_> = (0..600).map(leaf).collect();
        let [mut changed, mut invalid] = [honest.clone(), honest.clone()];
        changed[299] = leaf(9);
        invalid[299] = b"not a leaf".to_vec();
        let checkpoint = |entries: &[Vec<u8>]| {
            let mut edge = Edge::default();
            let tiles = edge.append(entries).unwrap();
            let (origin, size, root) = ("log".to_owned(), edge.size(), edge.root());
            (Checkpoint { origin, size, root }, tiles)
        };
        // Log, published and earlier checkpoint, and number of findings. The log is one batch, without partial tiles of smaller trees.
        for (entries, newest, earlier, expected) in [
            (&honest[..], &honest[..], &honest[..300], 0),
            (&honest, &honest, &honest[..256], 0),
            (&honest, &honest, &changed[..300], 1),
            (&honest, &changed, &[], 1),
            (&invalid, &invalid, &[], 1),
            (&honest[..300], &honest[..300], &changed, 0),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let log = Log(Objects::Folder(folder.path().to_owned()));
            log.write(checkpoint(entries).1).await.unwrap();
            let (newest, earlier) = (checkpoint(newest).0, checkpoint(earlier).0);
            let found = read(&log, &newest, Some(&earlier), |_, _| Ok(())).await.unwrap();
            assert_eq!((found.0.len(), found.1), (expected, true), "{found:?}");
        }
    }
}
