//! Entities: one partition key with all its items.

use std::fmt::{self, Write as _};

use sha2::{Digest, Sha256};
use thiserror::Error;

/// Partition key of the table's settings. No entity has it, or a key that begins with it and `#`: these are the keys of the
/// library's own items.
pub const RESERVED: &str = "#vzero";
/// Maximum length of a partition key in bytes of UTF-8, see
/// [Constraints](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html).
pub const MAX_ENTITY_ID_BYTES: usize = 2048;

/// Partition key of an entity, 1 to [`MAX_ENTITY_ID_BYTES`] bytes long.
///
/// `Debug` shows only the [digest](EntityId::digest), so that logs and errors do not reveal the key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId(String);

impl EntityId {
    /// Checks the length, DynamoDB's only rule for a partition key of type S.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidEntityId`] if the key is empty, too long or [reserved](is_reserved).
    pub fn new(id: impl Into<String>) -> Result<Self, InvalidEntityId> {
        let id = id.into();
        match id.len() {
            0 => Err(InvalidEntityId::Empty),
            _ if is_reserved(&id) => Err(InvalidEntityId::Reserved),
            1..=MAX_ENTITY_ID_BYTES => Ok(Self(id)),
            bytes => Err(InvalidEntityId::TooLong(bytes)),
        }
    }

    /// Returns the partition key of the library's own items.
    pub fn reserved() -> Self {
        Self(RESERVED.to_owned())
    }

    /// Creates the partition key of the history of an attached table's item, see [`key`](super::attached::key): never empty,
    /// reserved or too long.
    pub(super) fn of_attached(id: String) -> Self {
        debug_assert!(Self::new(id.as_str()).is_ok());
        Self(id)
    }

    /// Returns the partition key of the entity's [purge marker](super::purge_marker), which does not contain its key.
    #[must_use]
    pub fn of_purge_marker(&self) -> Self {
        Self(format!("{RESERVED}#purged#{}", hex(&Sha256::digest(&self.0))))
    }

    /// Returns the partition key.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the first 64 bits of the key's SHA-256, in hexadecimal: the name of the entity in logs.
    pub fn digest(&self) -> String {
        hex(&Sha256::digest(&self.0)[..8])
    }
}

impl fmt::Debug for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EntityId({})", self.digest())
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Returns `true` if the partition key is [`RESERVED`], or begins with it and `#`.
pub fn is_reserved(partition_key: &str) -> bool {
    let rest = partition_key.strip_prefix(RESERVED);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
}

/// Reason why a text is not a valid partition key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidEntityId {
    /// The key is empty.
    #[error("the partition key is empty")]
    Empty,
    /// The key is [reserved](is_reserved).
    #[error("the partition key {RESERVED}, and keys that begin with {RESERVED}#, are reserved")]
    Reserved,
    /// The key is longer than [`MAX_ENTITY_ID_BYTES`].
    #[error("the partition key has {0} bytes, and {MAX_ENTITY_ID_BYTES} are allowed")]
    TooLong(usize),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_key_has_1_to_2048_bytes() {
        assert_eq!(EntityId::new(""), Err(InvalidEntityId::Empty));
        for reserved in ["#vzero", "#vzero#", "#vzero#purged#00"] {
            assert_eq!(EntityId::new(reserved), Err(InvalidEntityId::Reserved));
        }
        for allowed in ["#", "#vzer", "#vzero1", "vzero#", "##vzero"] {
            assert!(EntityId::new(allowed).is_ok(), "{allowed}");
        }
        assert!(EntityId::new("x".repeat(2048)).is_ok());
        assert_eq!(EntityId::new("x".repeat(2049)), Err(InvalidEntityId::TooLong(2049)));
        // Bytes count, not characters.
        assert!(EntityId::new("é".repeat(1025)).is_err());
    }

    #[test]
    fn the_digest_is_sha_256_cut_to_64_bits() {
        let entity = EntityId::new("abc").unwrap();
        assert_eq!(format!("{entity:?}"), "EntityId(ba7816bf8f01cfea)");
    }
}
