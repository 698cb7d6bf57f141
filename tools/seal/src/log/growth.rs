//! The tiles that new entries create, and the root of the larger tree. The right edge of the tree, at most 255 hashes of each level, is all
//! that is needed of the entries before.

use super::{
    tile::{Content, Tile, WIDTH, put_entry},
    tree::{join, leaf_hash, root},
};
use crate::Hash;

/// The right edge of a tree: the hashes of the partial tile of each level, and the entries of the last partial tile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edge {
    size: u64,
    levels: Vec<Vec<Hash>>,
    entries: Vec<Vec<u8>>,
}

/// An edge whose parts do not have the widths of its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the tiles at the end of the log do not fit its size")]
pub struct InvalidEdge;

impl Edge {
    /// Returns the partial tiles of a tree of so many entries: those that [`Self::new`] is created from.
    pub fn tiles(size: u64) -> Vec<Tile> {
        let levels = (0..8).filter_map(|level| last(Content::Hashes(level), size));
        levels.chain(last(Content::Entries, size)).collect()
    }

    /// Creates the edge of a tree of so many entries from the bytes of its partial tiles, in the order of [`Self::tiles`].
    ///
    /// # Errors
    ///
    /// A tile does not have its width.
    pub fn new(size: u64, tiles: &[Vec<u8>]) -> Result<Self, InvalidEdge> {
        let expected = Self::tiles(size);
        if expected.len() != tiles.len() {
            return Err(InvalidEdge);
        }
        let mut edge = Self {
            size,
            levels: vec![Vec::new(); 8],
            entries: Vec::new(),
        };
        for (tile, bytes) in expected.into_iter().zip(tiles) {
            match tile.content {
                Content::Hashes(level) => {
                    edge.levels[usize::from(level)] = super::tile::hashes(tile, bytes).ok_or(InvalidEdge)?;
                }
                Content::Entries => {
                    let entries = super::tile::entries(tile, bytes).ok_or(InvalidEdge)?;
                    edge.entries = entries.into_iter().map(<[u8]>::to_vec).collect();
                }
            }
        }
        let matches = edge
            .entries
            .iter()
            .map(|entry| leaf_hash(entry))
            .eq(edge.levels[0].iter().copied());
        matches.then_some(edge).ok_or(InvalidEdge)
    }

    /// Returns the number of entries.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the root of the tree.
    pub fn root(&self) -> Hash {
        // The hashes of one level are joined to complete subtrees, those of higher levels are to their left.
        let subtrees = self.levels.iter().rev().flat_map(|hashes| complete(hashes));
        join(subtrees.collect::<Vec<_>>().into_iter()).unwrap_or_else(|| root([]))
    }

    /// Appends entries, and returns the tiles that they create. An entry has at most 65,535 bytes.
    ///
    /// # Errors
    ///
    /// An entry is too long. Nothing is appended.
    pub fn append(&mut self, entries: &[Vec<u8>]) -> Result<Vec<(Tile, Vec<u8>)>, InvalidEdge> {
        if entries.iter().any(|entry| u16::try_from(entry.len()).is_err()) {
            return Err(InvalidEdge);
        }
        let before = Self::tiles(self.size);
        let mut tiles = Vec::new();
        self.levels.resize(8, Vec::new());
        for entry in entries {
            self.entries.push(entry.clone());
            self.size += 1;
            let mut hash = leaf_hash(entry);
            for level in 0..8_u8 {
                let hashes = &mut self.levels[usize::from(level)];
                hashes.push(hash);
                if hashes.len() as u64 != WIDTH {
                    break;
                }
                let index = (self.size >> (8 * (u32::from(level) + 1))) - 1;
                let content = Content::Hashes(level);
                tiles.push((
                    Tile {
                        content,
                        index,
                        width: WIDTH,
                    },
                    hashes.concat(),
                ));
                hash = root(hashes.drain(..));
                if level == 0 {
                    let content = Content::Entries;
                    tiles.push((
                        Tile {
                            content,
                            index,
                            width: WIDTH,
                        },
                        bundle(&self.entries),
                    ));
                    self.entries.clear();
                }
            }
        }
        let partial = Self::tiles(self.size).into_iter().zip(self.parts());
        tiles.extend(partial.filter(|(tile, _)| !before.contains(tile)));
        Ok(tiles)
    }

    /// Returns the bytes of the partial tiles, in the order of [`Self::tiles`].
    pub fn parts(&self) -> Vec<Vec<u8>> {
        let part = |tile: Tile| match tile.content {
            Content::Hashes(level) => self.levels[usize::from(level)].concat(),
            Content::Entries => bundle(&self.entries),
        };
        Self::tiles(self.size).into_iter().map(part).collect()
    }
}

/// Returns the last tile of a content in a tree of so many entries, if it is partial.
fn last(content: Content, size: u64) -> Option<Tile> {
    let level = match content {
        Content::Hashes(level) => u32::from(level),
        Content::Entries => 0,
    };
    let index = size.checked_shr(8 * level).unwrap_or(0) / WIDTH;
    Tile::of_tree(content, index, size)
}

/// Returns the roots of the complete subtrees of these hashes, the largest first.
fn complete(hashes: &[Hash]) -> Vec<Hash> {
    let (mut rest, mut roots) = (hashes, Vec::new());
    while let Some(power) = rest.len().checked_ilog2() {
        let (subtree, after) = rest.split_at(1 << power);
        roots.push(root(subtree.iter().copied()));
        rest = after;
    }
    roots
}

fn bundle(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in entries {
        put_entry(entry, &mut bytes);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn entry(index: u64) -> Vec<u8> {
        index.to_be_bytes()[..usize::try_from(index % 9).unwrap()].to_vec()
    }

    /// Appends entries in batches, from tiles alone, as seal-fn does.
    fn grow(batches: &[u64]) -> (BTreeMap<String, Vec<u8>>, Edge) {
        let (mut stored, mut edge) = (BTreeMap::<String, Vec<u8>>::new(), Edge::default());
        for batch in batches {
            let size = edge.size();
            let tiles: Vec<_> = Edge::tiles(size)
                .iter()
                .map(|tile| stored[&tile.to_string()].clone())
                .collect();
            edge = Edge::new(size, &tiles).unwrap();
            let entries: Vec<_> = (size..size + batch).map(entry).collect();
            for (tile, bytes) in edge.append(&entries).unwrap() {
                let before = stored.insert(tile.to_string(), bytes.clone());
                assert!(before.is_none(), "{tile} is written twice");
            }
            let expected = root((0..size + batch).map(|index| leaf_hash(&entry(index))));
            assert_eq!(edge.root(), expected);
        }
        (stored, edge)
    }

    #[test]
    fn a_tree_of_70_000_entries_has_the_tiles_of_the_specification() {
        let (stored, edge) = grow(&[70_000]);
        let count = |prefix: &str| stored.keys().filter(|path| path.starts_with(prefix)).count();
        assert_eq!((count("tile/0/"), count("tile/1/"), count("tile/2/")), (274, 2, 1));
        assert_eq!(count("tile/entries/"), 274);
        for path in [
            "tile/0/273.p/112",
            "tile/1/001.p/17",
            "tile/2/000.p/1",
            "tile/entries/273.p/112",
        ] {
            assert!(stored.contains_key(path), "{path}");
        }
        assert_eq!(edge.size(), 70_000);
    }

    #[test]
    fn an_edge_of_another_size_is_refused() {
        let (stored, edge) = grow(&[300]);
        let tiles: Vec<_> = Edge::tiles(300)
            .iter()
            .map(|tile| stored[&tile.to_string()].clone())
            .collect();
        assert!(Edge::new(300, &tiles).unwrap().root() == edge.root());
        for size in [0, 1, 299, 301, 556] {
            assert_eq!(Edge::new(size, &tiles), Err(InvalidEdge), "{size}");
        }
        let mut changed = tiles.clone();
        let last = changed.last_mut().unwrap();
        *last.last_mut().unwrap() ^= 1;
        assert_eq!(Edge::new(300, &changed), Err(InvalidEdge));
        let mut edge = edge;
        assert_eq!(edge.append(&[vec![0; 65_536]]), Err(InvalidEdge));
        assert_eq!(edge.size(), 300);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn batches_of_any_size_lead_to_one_tree(batches in prop::collection::vec(1_u64..700, 1..6)) {
            let (stored, edge) = grow(&batches);
            let (at_once, whole) = grow(&[batches.iter().sum()]);
            prop_assert_eq!(edge.root(), whole.root());
            prop_assert!(at_once.iter().all(|(path, bytes)| stored.get(path) == Some(bytes)));
        }
    }
}
