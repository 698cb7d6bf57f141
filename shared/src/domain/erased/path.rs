//! Path of an erased value: what it is, and names of maps, the outermost first.

use std::fmt;

use serde_json::{Value, json};
use thiserror::Error;

use crate::domain::{
    attached::item::{ACTOR_UNCHANGED, ITEM_VERSION},
    names,
};

/// Metadata that can be erased. The others identify the version.
const ERASABLE: [&str; 7] = [
    names::ACTOR,
    names::REASON,
    names::CHANGE_SET,
    names::SENDER,
    names::REQUEST_ID,
    // Copies of what they say about erased values.
    ITEM_VERSION,
    ACTOR_UNCHANGED,
];

/// Namespace of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Namespace {
    /// Attributes of the item.
    Attribute,
    /// Author, reason and origin of the version.
    Metadata,
}

impl Namespace {
    /// Returns the name in the text of a path.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Attribute => "Attribute",
            Self::Metadata => "Metadata",
        }
    }
}

/// Path of an erased value. Its text is JSON: `["Attribute","Place","Street"]` or `["Metadata","Actor"]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErasedPath {
    namespace: Namespace,
    names: Vec<String>,
}

impl ErasedPath {
    /// Returns the path of an attribute, or of a member of a map.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidPath::Empty`] without a name, or with an empty one.
    pub fn attribute(names: impl IntoIterator<Item = impl Into<String>>) -> Result<Self, InvalidPath> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let namespace = Namespace::Attribute;
        match names.first().is_none_or(String::is_empty) {
            true => Err(InvalidPath::Empty),
            false => Ok(Self { namespace, names }),
        }
    }

    /// Returns the path of metadata.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidPath::Metadata`] if metadata with this name cannot be erased.
    pub fn metadata(name: impl Into<String>) -> Result<Self, InvalidPath> {
        let name = name.into();
        let namespace = Namespace::Metadata;
        match ERASABLE.contains(&name.as_str()) {
            true => Ok(Self {
                namespace,
                names: vec![name],
            }),
            false => Err(InvalidPath::Metadata),
        }
    }

    /// Returns the paths of all metadata that can be erased.
    pub fn all_metadata() -> impl Iterator<Item = Self> {
        ERASABLE.into_iter().map(|name| Self {
            namespace: Namespace::Metadata,
            names: vec![name.to_owned()],
        })
    }

    /// Parses the text of a path.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidPath`] if it is not one.
    pub fn parse(text: &str) -> Result<Self, InvalidPath> {
        let elements = crate::json::elements(text).map_err(|_| InvalidPath::Text)?;
        let texts = elements
            .into_iter()
            .map(crate::json::string)
            .collect::<Option<Vec<_>>>();
        let mut names = texts.ok_or(InvalidPath::Text)?;
        if names.is_empty() {
            return Err(InvalidPath::Text);
        }
        match (names.remove(0).as_str(), &names[..]) {
            ("Attribute", _) => Self::attribute(names),
            ("Metadata", [name]) => Self::metadata(name),
            ("Metadata", _) => Err(InvalidPath::Metadata),
            _ => Err(InvalidPath::Text),
        }
    }

    /// Returns what the path names.
    pub fn namespace(&self) -> Namespace {
        self.namespace
    }

    /// Returns the names, the outermost first. There is at least one.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns `true` if the other path is this one, or below.
    pub fn covers(&self, other: &Self) -> bool {
        self.namespace == other.namespace && other.names.starts_with(&self.names)
    }

    /// Returns the path of the first names.
    pub(super) fn first(&self, length: usize) -> Self {
        Self {
            namespace: self.namespace,
            names: self.names[..length.min(self.names.len())].to_vec(),
        }
    }

    /// Returns the path of a member.
    pub(super) fn with(&self, name: String) -> Self {
        let mut path = self.clone();
        path.names.push(name);
        path
    }
}

impl fmt::Display for ErasedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [self.namespace.as_str()].into_iter();
        let names: Value = names.chain(self.names.iter().map(String::as_str)).collect();
        write!(f, "{names}")
    }
}

impl ErasedPath {
    /// Returns `{"Attribute": ["Place", "Street"]}` or `{"Metadata": ["Actor"]}`.
    pub fn to_json(&self) -> Value {
        json!({self.namespace.as_str(): self.names})
    }
}

/// Text or names that are no path of an erased value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidPath {
    /// It is not a path.
    #[error("a path is a list as [\"Attribute\",\"Place\",\"Street\"] or [\"Metadata\",\"Actor\"]")]
    Text,
    /// It has no name, or the name of the attribute is empty.
    #[error("a path names an attribute")]
    Empty,
    /// The metadata identify the version.
    #[error("metadata that can be erased: {}", ERASABLE.join(", "))]
    Metadata,
}
