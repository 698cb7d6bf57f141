//! Proofs that a tree contains an entry, and that it continues a smaller tree: which tiles they need, and whether they hold.

use std::collections::{BTreeMap, BTreeSet};

use ct_merkle::{
    ConsistencyProof, InclusionProof, RootHash, digest::array::Array, indices_for_consistency_proof,
    indices_for_inclusion_proof,
};
use sha2::Sha256;
use thiserror::Error;

use super::{
    checkpoint::Checkpoint,
    tile::{Content, Tile, WIDTH},
    tree::{join, root},
};
use crate::Hash;

/// Number of entries up to which proofs are computed.
const MAX_SIZE: u64 = u64::MAX / 2;

/// A proof that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ProofError {
    /// No proof of an entry.
    #[error("the log does not contain the entry at this index")]
    Inclusion,
    /// No proof of two checkpoints.
    #[error("the log of the later checkpoint does not continue the one of the earlier checkpoint")]
    Consistency,
}

/// The hashes of a proof, as parts of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    size: u64,
    /// First entry of each part, and the entry after it.
    parts: Vec<(u64, u64)>,
}

impl Plan {
    /// Plans the proof that a tree of so many entries contains the one at this index, `None` if it does not.
    pub fn inclusion(size: u64, index: u64) -> Option<Self> {
        (index < size && size <= MAX_SIZE).then(|| Self::of_nodes(size, &indices_for_inclusion_proof(size, index)))
    }

    /// Plans the proof that a tree continues one of so many entries, `None` if it is smaller.
    pub fn consistency(size: u64, earlier: u64) -> Option<Self> {
        let added = size.checked_sub(earlier).filter(|_| size <= MAX_SIZE)?;
        let nodes = match earlier {
            0 => Vec::new(),
            earlier => indices_for_consistency_proof(earlier, added),
        };
        Some(Self::of_nodes(size, &nodes))
    }

    /// Creates a plan of nodes of an array-based tree: the node of an entry has twice its index, parents are between their children.
    fn of_nodes(size: u64, nodes: &[u64]) -> Self {
        let part = |node: &u64| {
            let height = node.trailing_ones();
            let first = (node >> (height + 1)) << height;
            (first, size.min(first.saturating_add(1 << height)))
        };
        Self {
            size,
            parts: nodes.iter().map(part).collect(),
        }
    }

    /// Returns the tiles with the hashes.
    pub fn tiles(&self) -> BTreeSet<Tile> {
        let subtrees = self.parts.iter().flat_map(|(first, end)| subtrees(*first, *end));
        subtrees
            .filter_map(|subtree| Some(place(subtree, self.size)?.0))
            .collect()
    }

    /// Returns the hashes of the proof, `None` if a tile is missing.
    pub fn hashes(&self, tiles: &BTreeMap<Tile, Vec<Hash>>) -> Option<Vec<Hash>> {
        let hash = |subtree: (u32, u64)| {
            let (tile, first) = place(subtree, self.size)?;
            let hashes = tiles.get(&tile)?.get(first..first + (1 << (subtree.0 % 8)))?;
            Some(root(hashes.iter().copied()))
        };
        let part = |(first, end): &(u64, u64)| {
            let hashes: Option<Vec<_>> = subtrees(*first, *end).into_iter().map(hash).collect();
            join(hashes?.into_iter())
        };
        self.parts.iter().map(part).collect()
    }
}

/// Returns the complete subtrees of a part, the largest first: their heights, and their positions among the subtrees of one height.
fn subtrees(mut first: u64, end: u64) -> Vec<(u32, u64)> {
    let mut subtrees = Vec::new();
    while let Some(height) = end.checked_sub(first).and_then(u64::checked_ilog2) {
        subtrees.push((height, first >> height));
        first += 1 << height;
    }
    subtrees
}

/// Returns the tile with the hashes of a complete subtree, and the position of the first one.
fn place((height, position): (u32, u64), size: u64) -> Option<(Tile, usize)> {
    let first = position << (height % 8);
    let content = Content::Hashes(u8::try_from(height / 8).ok()?);
    let tile = Tile::of_tree(content, first / WIDTH, size)?;
    Some((tile, usize::try_from(first % WIDTH).ok()?))
}

fn root_of(checkpoint: &Checkpoint) -> RootHash<Sha256> {
    RootHash::new(Array(checkpoint.root), checkpoint.size)
}

fn bytes(hashes: &[Hash]) -> Vec<u8> {
    hashes.concat()
}

/// Checks that the log of a checkpoint contains an entry at an index.
///
/// # Errors
///
/// It does not, or the proof is one of something else.
pub fn verify_inclusion(checkpoint: &Checkpoint, index: u64, entry: &[u8], proof: &[Hash]) -> Result<(), ProofError> {
    let proof = InclusionProof::<Sha256>::try_from_bytes(bytes(proof)).map_err(|_| ProofError::Inclusion)?;
    let is_possible = checkpoint.size <= MAX_SIZE;
    match is_possible && root_of(checkpoint).verify_inclusion(&entry, index, &proof).is_ok() {
        true => Ok(()),
        false => Err(ProofError::Inclusion),
    }
}

/// Checks that the log of a checkpoint continues the one of an earlier checkpoint.
///
/// # Errors
///
/// It does not, or the proof is one of something else.
pub fn verify_consistency(earlier: &Checkpoint, later: &Checkpoint, proof: &[Hash]) -> Result<(), ProofError> {
    let holds = match earlier.size {
        _ if earlier.size > later.size || later.size > MAX_SIZE || earlier.origin != later.origin => false,
        0 => proof.is_empty() && earlier.root == root([]),
        size if size == later.size => proof.is_empty() && earlier.root == later.root,
        _ => ConsistencyProof::<Sha256>::try_from_bytes(bytes(proof))
            .is_ok_and(|proof| root_of(later).verify_consistency(&root_of(earlier), &proof).is_ok()),
    };
    holds.then_some(()).ok_or(ProofError::Consistency)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{growth::Edge, tile, tree::tests::ENTRIES};

    fn hex(hashes: &[Hash]) -> Vec<String> {
        hashes.iter().map(|hash| crate::hex(&hash[..4])).collect()
    }

    /// Proofs of the reference implementation of RFC 6962, for its eight entries.
    #[test]
    fn proofs_are_those_of_the_reference() {
        let entries = ENTRIES.map(<[u8]>::to_vec);
        let stored = |size: usize| -> BTreeMap<_, _> {
            let tiles = Edge::default().append(&entries[..size]).unwrap();
            tiles
                .into_iter()
                .filter_map(|(tile, bytes)| Some((tile, tile::hashes(tile, &bytes)?)))
                .collect()
        };
        for (size, index, expected) in [
            (1, 0, vec![]),
            (8, 0, vec!["96a296d2", "5f083f0a", "6b47aaf2"]),
            (8, 5, vec!["bc1a0643", "ca854ea1", "d37ee418"]),
            (3, 2, vec!["fac54203"]),
            (5, 1, vec!["6e340b9c", "5f083f0a", "bc1a0643"]),
        ] {
            let plan = Plan::inclusion(size, index).unwrap();
            assert_eq!(
                hex(&plan.hashes(&stored(size.try_into().unwrap())).unwrap()),
                expected,
                "{index} of {size}"
            );
        }
        for (earlier, later, expected) in [
            (1, 1, vec![]),
            (1, 8, vec!["96a296d2", "5f083f0a", "6b47aaf2"]),
            (6, 8, vec!["0ebc5d34", "ca854ea1", "d37ee418"]),
            (2, 5, vec!["5f083f0a", "bc1a0643"]),
        ] {
            let plan = Plan::consistency(later, earlier).unwrap();
            assert_eq!(
                hex(&plan.hashes(&stored(later.try_into().unwrap())).unwrap()),
                expected,
                "{earlier} of {later}"
            );
        }
    }

    #[test]
    fn impossible_sizes_are_no_panic() {
        let (origin, root) = ("log".to_owned(), [0; 32]);
        let mut checkpoint = Checkpoint { origin, size: 3, root };
        for size in [0, MAX_SIZE, MAX_SIZE + 1, u64::MAX] {
            checkpoint.size = size;
            for index in [0, 1, u64::MAX - 1, u64::MAX] {
                assert_eq!(
                    verify_inclusion(&checkpoint, index, b"x", &[[0; 32]; 3]),
                    Err(ProofError::Inclusion)
                );
                assert!(index < size || Plan::inclusion(size, index).is_none());
            }
            let earlier = Checkpoint {
                size: 2,
                ..checkpoint.clone()
            };
            assert_eq!(
                verify_consistency(&earlier, &checkpoint, &[[0; 32]; 3]),
                Err(ProofError::Consistency)
            );
        }
    }
}
