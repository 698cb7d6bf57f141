//! The attached table, its keys, and the settings of its history.

use std::collections::BTreeSet;

use thiserror::Error;

pub use super::key_attribute::{InvalidKeyType, KeyAttribute, KeyType};

/// Added to the name of the table for the name of its history table.
const SUFFIX: &str = "-history";

/// Table that other programs write, and its history table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedTable {
    parts: Parts,
    history: String,
}

/// Parts of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// Name of the table.
    pub table: String,
    /// Name of the history table, by default that of the table and `-history`.
    pub history_table: Option<String>,
    /// Partition key.
    pub partition_key: KeyAttribute,
    /// Sort key.
    pub sort_key: Option<KeyAttribute>,
    /// Attribute in which writers keep a version number of their own. History copies its value; it need not be unique.
    pub version_attribute: Option<String>,
    /// Attributes whose change alone makes no version.
    pub ignored: BTreeSet<String>,
    /// Selection of the items that have a history, as a pattern of the event source mapping. `None`: all.
    pub filter: Option<String>,
}

impl AttachedTable {
    /// Checks the parts of a definition.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidDefinition`] if a name is invalid, if both keys or both tables are the same, or if a key attribute is
    /// ignored.
    pub fn new(parts: Parts) -> Result<Self, InvalidDefinition> {
        check_table("TableName", &parts.table)?;
        let history = parts.history_table.clone();
        let history = history.unwrap_or_else(|| format!("{}{SUFFIX}", parts.table));
        check_table("HistoryTable", &history)?;
        if history == parts.table {
            return Err(InvalidDefinition::SameTable);
        }
        let table = Self { parts, history };
        if table.keys().any(|key| key.name.is_empty()) {
            return Err(InvalidDefinition::EmptyName("KeySchema"));
        }
        if table.parts.version_attribute.as_deref() == Some("") {
            return Err(InvalidDefinition::EmptyName("VersionAttribute"));
        }
        if table.parts.ignored.contains("") {
            return Err(InvalidDefinition::EmptyName("IgnoreAttributes"));
        }
        let partition_key = &table.parts.partition_key.name;
        if table
            .parts
            .sort_key
            .as_ref()
            .is_some_and(|key| key.name == *partition_key)
        {
            return Err(InvalidDefinition::SameKey(partition_key.clone()));
        }
        if let Some(key) = table.keys().find(|key| table.parts.ignored.contains(&key.name)) {
            return Err(InvalidDefinition::IgnoredKey(key.name.clone()));
        }
        Ok(table)
    }

    /// Returns the name of the table.
    pub fn table(&self) -> &str {
        &self.parts.table
    }

    /// Returns the name of the history table.
    pub fn history_table(&self) -> &str {
        &self.history
    }

    /// Returns the key attributes: the partition key, then the sort key if there is one.
    pub fn keys(&self) -> impl Iterator<Item = &KeyAttribute> {
        std::iter::once(&self.parts.partition_key).chain(&self.parts.sort_key)
    }

    /// Returns the name of the attribute with the writers' own version number.
    pub fn version_attribute(&self) -> Option<&str> {
        self.parts.version_attribute.as_deref()
    }

    /// Returns the names of the attributes whose change alone makes no version.
    pub fn ignored(&self) -> &BTreeSet<String> {
        &self.parts.ignored
    }

    /// Returns the pattern that selects items, `None` if all have a history.
    pub fn filter(&self) -> Option<&str> {
        self.parts.filter.as_deref()
    }
}

/// Checks a name by the rules of
/// [naming](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/HowItWorks.NamingRulesDataTypes.html).
fn check_table(member: &'static str, name: &str) -> Result<(), InvalidDefinition> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    match (3..=255).contains(&name.len()) && name.bytes().all(is_allowed) {
        true => Ok(()),
        false => Err(InvalidDefinition::TableName(member)),
    }
}

/// Reason why a table cannot be attached.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidDefinition {
    /// The name of a table breaks the rules of DynamoDB.
    #[error("{0} is not a table name: 3 to 255 letters, digits, underscores, hyphens and dots")]
    TableName(&'static str),
    /// The table and its history table have the same name.
    #[error("HistoryTable is the table itself")]
    SameTable,
    /// The name of an attribute is empty.
    #[error("{0} has an empty attribute name")]
    EmptyName(&'static str),
    /// There is no partition key.
    #[error("KeySchema has no partition key, KeyType HASH")]
    NoPartitionKey,
    /// Both keys are the same attribute.
    #[error("{0} is the partition key and the sort key")]
    SameKey(String),
    /// The type of a key attribute is not one that keys can have.
    #[error("the type of the key attribute {0} is not S, N or B")]
    KeyType(String),
    /// A key attribute is ignored.
    #[error("IgnoreAttributes has the key attribute {0}")]
    IgnoredKey(String),
}
