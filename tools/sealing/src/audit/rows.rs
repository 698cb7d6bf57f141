//! What is compared, sorted on disk by tag and version: memory does not grow with the table or the log.

use operations::sealed::Operation;
use seal::format::leaf::Leaf;
use serde::{Deserialize, Serialize};

/// A part of the comparison. Those of an entity follow each other, what is known of the entity first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Row {
    /// Tag in hexadecimal digits, empty for a version whose entity has no keys.
    pub(super) tag: String,
    /// Version, 0 for what is known of the entity.
    pub(super) version: u64,
    pub(super) part: Part,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Part {
    /// The entity, and `true` if it is one of the table.
    Keys(String, bool),
    /// An operation that removed versions.
    Removal(Removal),
    /// A leaf: its index and content.
    Leaf(u64, String),
    /// A version of the table.
    Version(Stored),
}

/// An operation that removed versions, from the first to the last.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Removal {
    pub(super) versions: (u64, u64),
    /// Index of its leaf, `None` if it is so new that the log does not have it yet.
    pub(super) index: Option<u64>,
    /// `true` if the whole entity was removed, which can begin again.
    pub(super) is_whole: bool,
}

/// A version of the table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Stored {
    pub(super) entity: String,
    /// Content of its leaf, `None` if a member has no key.
    pub(super) content: Option<String>,
}

/// A leaf of an operation, or the item that tells what it is. Both are joined by their index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct OperationRow {
    pub(super) index: u64,
    pub(super) part: OperationPart,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum OperationPart {
    Leaf(SealedOperation),
    /// With the content of its leaf, `None` if a member has no key.
    Item(Operation, Option<String>),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct SealedOperation {
    pub(super) kind: u8,
    pub(super) tag: String,
    pub(super) version: u64,
    pub(super) content: String,
}

impl SealedOperation {
    pub(super) fn of(leaf: &Leaf) -> Self {
        Self {
            kind: leaf.kind as u8,
            tag: seal::hex(&leaf.tag),
            version: leaf.version,
            content: seal::hex(&leaf.content),
        }
    }
}
