//! The entity: one partition key, and all items under it.

use std::fmt;

use sha2::{Digest, Sha256};
use thiserror::Error;

/// The partition key of what a table says of itself. No entity has it.
pub const RESERVED: &str = "#vzero";
/// The longest partition key that DynamoDB takes, in bytes of UTF-8.
pub const MAX_ENTITY_ID_BYTES: usize = 2048;

/// The partition key of an entity: not empty, and at most [`MAX_ENTITY_ID_BYTES`] long.
///
/// Its `Debug` shows only the [digest](EntityId::digest), so that no log line or error tells the key by accident.
///
/// ```
/// use shared::domain::entity::EntityId;
///
/// let entity = EntityId::new("Equipment#1").unwrap();
/// assert_eq!(entity.as_str(), "Equipment#1");
/// assert!(!format!("{entity:?}").contains("Equipment"));
/// assert!(EntityId::new("").is_err());
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId(String);

impl EntityId {
    /// Checks the length, the only rule that DynamoDB has for a partition key of type S.
    pub fn new(id: impl Into<String>) -> Result<Self, InvalidEntityId> {
        let id = id.into();
        match id.len() {
            0 => Err(InvalidEntityId::Empty),
            _ if id == RESERVED => Err(InvalidEntityId::Reserved),
            1..=MAX_ENTITY_ID_BYTES => Ok(Self(id)),
            bytes => Err(InvalidEntityId::TooLong { bytes }),
        }
    }

    /// What a table says of itself stands where no entity can.
    pub(crate) fn reserved() -> Self {
        Self(RESERVED.to_owned())
    }

    /// The partition key itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What logs call the entity: its [digest](Self::digest), unless they may tell keys.
    pub fn in_logs(&self, log_keys: bool) -> String {
        if log_keys { self.0.clone() } else { self.digest() }
    }

    /// The first 64 bits of the key's SHA-256, in hex: names an entity in logs without telling its key.
    pub fn digest(&self) -> String {
        let hash: [u8; 32] = Sha256::digest(self.0.as_bytes()).into();
        let (first, _) = hash.split_at(8);
        format!(
            "{:016x}",
            first.iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte))
        )
    }
}

impl fmt::Debug for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EntityId({})", self.digest())
    }
}

/// Why a text is not a partition key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidEntityId {
    /// DynamoDB has no empty keys.
    #[error("the partition key is empty")]
    Empty,
    /// [`RESERVED`].
    #[error("the partition key {RESERVED} is reserved")]
    Reserved,
    /// Longer than [`MAX_ENTITY_ID_BYTES`].
    #[error("the partition key has {bytes} bytes, and {MAX_ENTITY_ID_BYTES} are allowed")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_key_has_1_to_2048_bytes() {
        assert_eq!(EntityId::new(""), Err(InvalidEntityId::Empty));
        assert_eq!(EntityId::new("#vzero"), Err(InvalidEntityId::Reserved));
        assert!(EntityId::new("x".repeat(2048)).is_ok());
        assert_eq!(
            EntityId::new("x".repeat(2049)),
            Err(InvalidEntityId::TooLong { bytes: 2049 })
        );
        // Bytes count, not characters.
        assert!(EntityId::new("é".repeat(1025)).is_err());
    }

    #[test]
    fn the_digest_is_sha_256_cut_to_64_bits() {
        assert_eq!(EntityId::new("abc").unwrap().digest(), "ba7816bf8f01cfea");
    }
}
