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
    earlier: Option<&Checkpoint>,
    mut add: impl FnMut(u64, Leaf) -> Result<(), SealError>,
) -> Result<(Vec<Finding>, bool), SealError> {
    let (mut findings, size) = (Vec::new(), newest.size);
    let rewritten =
        |object: &Tile| Finding::of_log(Kind::Rewritten, json!({"Size": size, "Object": object.to_string()}));
    let tiles = (0..size.div_ceil(WIDTH)).filter_map(|number| Tile::of_tree(Content::Entries, number, size));
    let reads = tiles.map(async |tile| Ok::<_, SealError>((tile, log.0.get(&tile.to_string()).await?)));
    let (mut reads, mut edge) = (stream::iter(reads).buffered(CONCURRENCY), Edge::default());
    let mut earlier = earlier.filter(|earlier| earlier.size <= size);
    check_earlier(&mut earlier, &edge, size, &mut findings);
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
