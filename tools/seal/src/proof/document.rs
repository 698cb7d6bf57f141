//! The document of a proof. It has one form, apart from white space between its parts.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use thiserror::Error;

use super::{text::compact, value::ShownValue};
use crate::{
    Hash,
    format::{
        leaf::Kind,
        member::{Namespace, Path},
    },
    hex, unhex,
};

/// Value of `Format`.
const FORMAT: &str = "vzero-proof-1";

/// A hash, a salt or a key, as 64 lowercase hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digits(pub Hash);

/// Leaves of one entity, with what of them is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct Document {
    format: String,
    /// Signed checkpoint of the log.
    pub checkpoint: String,
    /// Id of the table.
    pub table: String,
    /// Id of the entity.
    pub entity: String,
    /// Random bytes of the entity's tag.
    pub entity_key: Digits,
    /// Leaves, in the order of their indices.
    pub leaves: Vec<ProvenLeaf>,
}

/// A leaf, its proof, and its commitments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct ProvenLeaf {
    /// What it seals.
    pub kind: Kind,
    /// Version.
    pub version: u64,
    /// Index in the log.
    pub index: u64,
    /// Hashes of the proof, from the leaf to the root.
    pub inclusion: Vec<Digits>,
    /// Members that are shown, in the order of their paths.
    pub disclosed: Vec<Disclosed>,
    /// Commitments to all other members, in the order of their bytes.
    pub withheld: Vec<Digits>,
}

/// A member that is shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
pub struct Disclosed {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    attribute: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    metadata: Option<Vec<String>>,
    /// Salt of its commitment.
    pub salt: Digits,
    /// Value.
    pub value: ShownValue,
}

/// Text that is no proof, or not in its one form.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidDocument {
    /// No JSON of this format.
    #[error("the file is no proof of format {FORMAT}: {0}")]
    Form(String),
    /// More than white space differs from what a proof with this content looks like, such as a member that occurs twice.
    #[error("the proof is not in its one form, apart from white space: it was not written by vzero, or it was changed")]
    Changed,
}

impl Document {
    /// Creates a document.
    pub fn new(
        checkpoint: String,
        table: String,
        entity: String,
        entity_key: [u8; 32],
        leaves: Vec<ProvenLeaf>,
    ) -> Self {
        let (format, entity_key) = (FORMAT.to_owned(), Digits(entity_key));
        Self {
            format,
            checkpoint,
            table,
            entity,
            entity_key,
            leaves,
        }
    }

    /// Parses a document.
    ///
    /// # Errors
    ///
    /// The text is no document, or it is not in its one form.
    pub fn parse(text: &str) -> Result<Self, InvalidDocument> {
        // The error names a place. It can contain values of the document, which its reader has.
        let document: Self = serde_json::from_str(text).map_err(|error| InvalidDocument::Form(error.to_string()))?;
        if document.format != FORMAT {
            return Err(InvalidDocument::Form("it has another format".to_owned()));
        }
        match serde_json::to_string(&document).is_ok_and(|one| one == compact(text)) {
            true => Ok(document),
            false => Err(InvalidDocument::Changed),
        }
    }
}

impl Disclosed {
    /// Creates a member that is shown.
    pub fn new(path: Path, salt: Hash, value: ShownValue) -> Self {
        let (attribute, metadata) = match path.namespace {
            Namespace::Attribute => (Some(path.names), None),
            Namespace::Metadata => (None, Some(path.names)),
        };
        Self {
            attribute,
            metadata,
            salt: Digits(salt),
            value,
        }
    }

    /// Returns the path, `None` if the member has none, or two.
    pub fn path(&self) -> Option<Path> {
        let (namespace, names) = match (&self.attribute, &self.metadata) {
            (Some(names), None) => (Namespace::Attribute, names),
            (None, Some(names)) => (Namespace::Metadata, names),
            _ => return None,
        };
        (!names.is_empty()).then(|| Path {
            namespace,
            names: names.clone(),
        })
    }
}

impl Serialize for Digits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for Digits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        unhex(&text)
            .map(Self)
            .ok_or_else(|| D::Error::custom("not 64 lowercase hexadecimal digits"))
    }
}
