//! Verification of a proof, from the document and the log's verifier key alone.

use std::collections::BTreeSet;

use shared::domain::AttributeValue;
use thiserror::Error;

use super::document::{Document, ProvenLeaf};
use crate::{
    Hash,
    format::{
        FormatError,
        commitment::{commitment, content_root},
        leaf::{Kind, Leaf, entity_tag},
        member::{Namespace, Path},
    },
    log::{
        checkpoint::{Checkpoint, CheckpointError},
        note::VerifierKey,
        proof::{ProofError, verify_inclusion},
    },
};

/// What a document proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proven {
    /// The checkpoint that the log's key signed.
    pub checkpoint: Checkpoint,
    /// Versions of the entity that the log contains.
    pub versions: BTreeSet<u64>,
    /// Number of members that are shown, and of those that are withheld.
    pub members: (usize, usize),
}

/// A proof that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum VerifyError {
    /// The checkpoint is not the log's.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// No leaf.
    #[error("the proof has no leaf")]
    Empty,
    /// Leaves out of order, or one of them twice.
    #[error("the leaf at index {0} is not after the leaf before it, or its version occurs twice")]
    Order(u64),
    /// The log has another leaf at this index.
    #[error(
        "the log has no such leaf at index {0}: an attribute, a salt, the entity, the version or the table was changed"
    )]
    Leaf(u64),
    /// Members out of order, one of them twice, one inside of another one, without a path, or a map that is not empty.
    #[error(
        "the leaf at index {0} shows a member twice, inside of another one, out of order, without a path, or a map as one member"
    )]
    Members(u64),
    /// The metadata of the version contradict the document.
    #[error("the leaf at index {0} was sealed for another table, entity or version")]
    Metadata(u64),
    /// A value that DynamoDB does not store.
    #[error("the leaf at index {0} shows a value that DynamoDB does not store")]
    Value(u64),
}

impl Document {
    /// Verifies the document.
    ///
    /// # Errors
    ///
    /// Any part of it does not hold.
    pub fn verify(&self, key: &VerifierKey) -> Result<Proven, VerifyError> {
        let checkpoint = Checkpoint::open(&self.checkpoint, key)?;
        let (mut versions, mut members, mut before) = (BTreeSet::new(), (0, 0), None);
        for leaf in &self.leaves {
            let index = leaf.index;
            let is_new = leaf.kind != Kind::Version || versions.insert(leaf.version);
            if !is_new || before.is_some_and(|before| before >= index) {
                return Err(VerifyError::Order(index));
            }
            before = Some(index);
            let sealed = Leaf {
                kind: leaf.kind,
                tag: entity_tag(&self.entity_key.0, &self.table, &self.entity)
                    .map_err(|_: FormatError| VerifyError::Value(index))?,
                version: leaf.version,
                content: content_root(self.commitments(leaf)?),
            };
            let inclusion: Vec<Hash> = leaf.inclusion.iter().map(|hash| hash.0).collect();
            verify_inclusion(&checkpoint, index, &sealed.bytes(), &inclusion)
                .map_err(|_: ProofError| VerifyError::Leaf(index))?;
            members.0 += leaf.disclosed.len();
            members.1 += leaf.withheld.len();
        }
        before.ok_or(VerifyError::Empty)?;
        Ok(Proven {
            checkpoint,
            versions,
            members,
        })
    }

    /// Returns the commitments of a leaf: those that are shown, computed from their values, and those that are withheld.
    fn commitments(&self, leaf: &ProvenLeaf) -> Result<Vec<Hash>, VerifyError> {
        let mut commitments: Vec<Hash> = leaf.withheld.iter().map(|withheld| withheld.0).collect();
        let mut before: Option<Path> = None;
        let is_sorted = commitments.windows(2).all(|pair| pair[0] < pair[1]);
        for member in &leaf.disclosed {
            let path = member.path().ok_or(VerifyError::Members(leaf.index))?;
            let is_after = before.as_ref().is_none_or(|before| {
                let is_inside = before.namespace == path.namespace && path.names.starts_with(&before.names);
                *before < path && !is_inside
            });
            if !is_after {
                return Err(VerifyError::Members(leaf.index));
            }
            if matches!(&member.value.0, AttributeValue::M(map) if !map.is_empty()) {
                return Err(VerifyError::Members(leaf.index));
            }
            if path.namespace == Namespace::Metadata && !self.agrees(leaf, &path.names, &member.value.0) {
                return Err(VerifyError::Metadata(leaf.index));
            }
            let hash =
                commitment(&member.salt.0, &path, &member.value.0).map_err(|_| VerifyError::Value(leaf.index))?;
            commitments.push(hash);
            before = Some(path);
        }
        let all: BTreeSet<_> = commitments.iter().collect();
        match is_sorted && all.len() == commitments.len() {
            true => Ok(commitments),
            false => Err(VerifyError::Members(leaf.index)),
        }
    }

    /// Returns `false` if the metadata name another table, entity or version than the document.
    fn agrees(&self, leaf: &ProvenLeaf, names: &[String], value: &AttributeValue) -> bool {
        let expected = match names {
            [name] if name == "Table" => AttributeValue::S(self.table.clone()),
            [name] if name == "Entity" => AttributeValue::S(self.entity.clone()),
            [name] if name == "Version" => AttributeValue::N(leaf.version.to_string()),
            [_] => return true,
            _ => return false,
        };
        *value == expected
    }
}

#[cfg(test)]
mod tests;
