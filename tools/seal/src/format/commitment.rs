//! Salted commitments to members, and the root of all commitments of a version.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use shared::domain::AttributeValue;

use super::{FormatError, canonical::canonical, member::Path, put_bytes};
use crate::{Hash, log::tree};

/// Begins each hashed text, so that no hash can be taken for one of another kind.
const COMMITMENT: &[u8] = b"vzero commitment 1\0";
const CONTENT: &[u8] = b"vzero content 1\0";

/// Random key of one entity and path. Without it, no commitment to the path can be tested for a guessed value.
#[derive(Clone, PartialEq, Eq)]
pub struct MemberKey(pub [u8; 32]);

impl MemberKey {
    /// Returns the salt of one version.
    pub fn salt(&self, table: &str, version: u64) -> Hash {
        self.mac(&[table.as_bytes(), &version.to_be_bytes()])
    }

    /// Returns the salt of an operation, such as an erasure. Two of them can begin with the same version.
    pub fn salt_of_operation(&self, table: &str, version: u64, operation: [u8; 16]) -> Hash {
        self.mac(&[table.as_bytes(), &version.to_be_bytes(), b"\0operation", &operation])
    }

    fn mac(&self, parts: &[&[u8]]) -> Hash {
        // HMAC has no invalid length of a key.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else {
            return [0; 32];
        };
        for part in parts {
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }
}

impl std::fmt::Debug for MemberKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MemberKey")
    }
}

/// Returns the commitment to a value at a path.
///
/// # Errors
///
/// The value has no canonical form.
pub fn commitment(salt: &Hash, path: &Path, value: &AttributeValue) -> Result<Hash, FormatError> {
    let mut path_bytes = Vec::new();
    put_bytes(&path.bytes()?, &mut path_bytes)?;
    let mut hasher = Sha256::new();
    hasher.update(COMMITMENT);
    hasher.update(salt);
    hasher.update(&path_bytes);
    hasher.update(canonical(value)?);
    Ok(hasher.finalize().into())
}

/// Returns the content root: the number of commitments, and their Merkle root in the order of their bytes, which tells nothing about paths.
pub fn content_root(mut commitments: Vec<Hash>) -> Hash {
    commitments.sort_unstable();
    let mut hasher = Sha256::new();
    hasher.update(CONTENT);
    hasher.update((commitments.len() as u64).to_be_bytes());
    hasher.update(tree::root(
        commitments.iter().map(|commitment| tree::leaf_hash(commitment)),
    ));
    hasher.finalize().into()
}
