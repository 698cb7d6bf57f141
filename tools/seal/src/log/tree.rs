//! Hashes of a Merkle tree, as RFC 6962 defines them.

use sha2::{Digest as _, Sha256};

use crate::Hash;

/// Returns the hash of an entry.
pub fn leaf_hash(entry: &[u8]) -> Hash {
    Sha256::new_with_prefix([0]).chain_update(entry).finalize().into()
}

/// Returns the hash of two subtrees.
pub fn node_hash(left: &Hash, right: &Hash) -> Hash {
    Sha256::new_with_prefix([1])
        .chain_update(left)
        .chain_update(right)
        .finalize()
        .into()
}

/// A tree that grows, without its hashes: the roots of its complete subtrees, the largest first, with their heights.
#[derive(Debug, Clone, Default)]
pub struct Growing(Vec<(u32, Hash)>);

impl Growing {
    /// Adds a leaf hash, or the hash of a complete subtree of the size of all others.
    pub fn push(&mut self, hash: Hash) {
        let mut new = (0, hash);
        while let Some((_, left)) = self.0.pop_if(|(height, _)| *height == new.0) {
            new = (new.0 + 1, node_hash(&left, &new.1));
        }
        self.0.push(new);
    }

    /// Returns the root. Of an empty tree, it is the hash of nothing.
    pub fn root(&self) -> Hash {
        join(self.0.iter().map(|(_, hash)| *hash)).unwrap_or_else(|| Sha256::digest([]).into())
    }
}

/// Returns the root of a tree of these leaf hashes, or of complete subtrees of one size.
pub fn root(hashes: impl IntoIterator<Item = Hash>) -> Hash {
    let mut tree = Growing::default();
    hashes.into_iter().for_each(|hash| tree.push(hash));
    tree.root()
}

/// Joins the roots of complete subtrees, the largest first, to the root of all.
pub(super) fn join(subtrees: impl DoubleEndedIterator<Item = Hash>) -> Option<Hash> {
    subtrees.rev().reduce(|right, left| node_hash(&left, &right))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Entries of the reference implementation of RFC 6962.
    pub(in crate::log) const ENTRIES: [&[u8]; 8] = [
        b"",
        b"\x00",
        b"\x10",
        b"\x20\x21",
        b"\x30\x31",
        b"\x40\x41\x42\x43",
        b"\x50\x51\x52\x53\x54\x55\x56\x57",
        b"\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f",
    ];

    /// Roots of the reference implementation.
    #[test]
    fn roots_are_those_of_the_reference() {
        let roots = [
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
            "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
            "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
            "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
            "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
            "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
            "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
        ];
        for (size, expected) in roots.iter().enumerate() {
            let hash = root(ENTRIES[..size].iter().map(|entry| leaf_hash(entry)));
            assert_eq!(crate::hex(&hash), *expected, "{size}");
        }
    }
}
