//! Entry of the log: 74 bytes without anything readable.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::{FormatError, put_bytes};
use crate::Hash;

/// Number of bytes of a leaf.
pub const LENGTH: usize = 74;
const FORMAT: u8 = 1;
const TAG: &[u8] = b"vzero entity 1\0";

/// Kind of leaf: a version, or an operation that removes versions or values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Kind {
    /// A version.
    Version = 1,
    /// Versions that expire, from this one on.
    Prune = 2,
    /// An entity that was removed.
    Purge = 3,
    /// Values that were erased, from this version on.
    Erase = 4,
}

/// A leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaf {
    /// What it seals.
    pub kind: Kind,
    /// Pseudonym of the entity, see [`entity_tag`].
    pub tag: Hash,
    /// Version, from 1.
    pub version: u64,
    /// See [`content_root`](super::commitment::content_root).
    pub content: Hash,
}

/// Bytes that are no leaf of this format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the log has an entry that is no leaf of format {FORMAT}")]
pub struct InvalidLeaf;

impl Leaf {
    /// Returns the bytes of the leaf.
    pub fn bytes(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[0] = FORMAT;
        bytes[1] = self.kind as u8;
        bytes[2..34].copy_from_slice(&self.tag);
        bytes[34..42].copy_from_slice(&self.version.to_be_bytes());
        bytes[42..].copy_from_slice(&self.content);
        bytes
    }

    /// Parses a leaf.
    ///
    /// # Errors
    ///
    /// The length, the format or the kind is unknown.
    pub fn parse(bytes: &[u8]) -> Result<Self, InvalidLeaf> {
        let bytes: &[u8; LENGTH] = bytes.try_into().map_err(|_| InvalidLeaf)?;
        let kind = match bytes[..2] {
            [FORMAT, 1] => Kind::Version,
            [FORMAT, 2] => Kind::Prune,
            [FORMAT, 3] => Kind::Purge,
            [FORMAT, 4] => Kind::Erase,
            _ => return Err(InvalidLeaf),
        };
        let (mut tag, mut version, mut content) = ([0; 32], [0; 8], [0; 32]);
        tag.copy_from_slice(&bytes[2..34]);
        version.copy_from_slice(&bytes[34..42]);
        content.copy_from_slice(&bytes[42..]);
        let version = u64::from_be_bytes(version);
        Ok(Self {
            kind,
            tag,
            version,
            content,
        })
    }
}

/// Returns the tag of an entity, the same in all its leaves. Only who knows the random bytes can link it to the entity.
///
/// # Errors
///
/// The table or the entity has 4 GiB.
pub fn entity_tag(random: &[u8; 32], table: &str, entity: &str) -> Result<Hash, FormatError> {
    let mut names = Vec::new();
    put_bytes(table.as_bytes(), &mut names)?;
    put_bytes(entity.as_bytes(), &mut names)?;
    let mut hasher = Sha256::new();
    hasher.update(TAG);
    hasher.update(random);
    hasher.update(names);
    Ok(hasher.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_is_read_as_it_was_written() {
        for kind in [Kind::Version, Kind::Prune, Kind::Purge, Kind::Erase] {
            let leaf = Leaf {
                kind,
                tag: [7; 32],
                version: u64::MAX - 1,
                content: [9; 32],
            };
            assert_eq!(Leaf::parse(&leaf.bytes()), Ok(leaf));
            for (index, byte) in [(0, 0), (0, 2), (1, 0), (1, 5)] {
                let mut bytes = leaf.bytes();
                bytes[index] = byte;
                assert_eq!(Leaf::parse(&bytes), Err(InvalidLeaf));
            }
            assert_eq!(Leaf::parse(&leaf.bytes()[1..]), Err(InvalidLeaf));
            assert_eq!(Leaf::parse(&[&leaf.bytes()[..], &[0]].concat()), Err(InvalidLeaf));
        }
    }

    #[test]
    fn tags_of_other_tables_and_entities_differ() {
        let tag = |random, table, entity| entity_tag(&[random; 32], table, entity).unwrap();
        let one = tag(1, "ab", "c");
        for other in [
            tag(2, "ab", "c"),
            tag(1, "a", "bc"),
            tag(1, "abc", ""),
            tag(1, "ab", "d"),
        ] {
            assert_ne!(one, other);
        }
    }
}
