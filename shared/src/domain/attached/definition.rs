//! The attached table: the JSON of `aws dynamodb create-table --cli-input-json`, with optional members for its history.
//!
//! ```json
//! {
//!   "TableName": "Orders",
//!   "KeySchema": [{"AttributeName": "customerId", "KeyType": "HASH"}, {"AttributeName": "orderNo", "KeyType": "RANGE"}],
//!   "AttributeDefinitions": [
//!     {"AttributeName": "customerId", "AttributeType": "S"}, {"AttributeName": "orderNo", "AttributeType": "N"}
//!   ],
//!   "BillingMode": "PAY_PER_REQUEST",
//!   "HistoryTable": "Orders-history",
//!   "VersionAttribute": "version",
//!   "IgnoreAttributes": ["lastSeen"],
//!   "Filter": {"status": ["open"]}
//! }
//! ```
//!
//! Other members of `create-table` are accepted and not read. The JSON itself stays with the caller, who can create the table
//! from it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use thiserror::Error;

use super::filter::{Filter, InvalidFilter};
pub use super::key_attribute::{InvalidKeyType, KeyAttribute, KeyType};
use crate::json;

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
    /// Selection of the items that have a history. `None`: all.
    pub filter: Option<Filter>,
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

    /// Parses the JSON of a definition.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidDefinition`], whose variants name the mistakes.
    pub fn parse(definition: &str) -> Result<Self, InvalidDefinition> {
        let definition = json::parse(definition).map_err(|error| InvalidDefinition::NotJson {
            line: error.line,
            column: error.column,
        })?;
        let definition = definition.as_object().ok_or(InvalidDefinition::NotAnObject)?;
        let keys = elements(definition, "KeySchema", ["AttributeName", "KeyType"])?;
        let types = elements(definition, "AttributeDefinitions", ["AttributeName", "AttributeType"])?;
        if let Some([_, other]) = keys.iter().find(|[_, role]| !["HASH", "RANGE"].contains(role)) {
            return Err(InvalidDefinition::KeyRole((*other).to_owned()));
        }
        let key = |wanted: &'static str| -> Result<Option<KeyAttribute>, InvalidDefinition> {
            let mut names = keys.iter().filter(|[_, role]| *role == wanted).map(|[name, _]| *name);
            match (names.next(), names.next()) {
                (_, Some(_)) => Err(InvalidDefinition::SeveralKeys(wanted)),
                (None, None) => Ok(None),
                (Some(name), None) => Ok(Some(KeyAttribute {
                    name: name.to_owned(),
                    kind: kind_of(name, &types)?,
                })),
            }
        };
        let filter = definition.get("Filter").filter(|filter| !filter.is_null());
        let (partition_key, sort_key) = (key("HASH")?.ok_or(InvalidDefinition::NoPartitionKey)?, key("RANGE")?);
        let by_key: Vec<_> = std::iter::once(&partition_key).chain(&sort_key).cloned().collect();
        let filter = filter.map(|filter| Filter::parse(filter, &by_key)).transpose()?;
        Self::new(Parts {
            table: text(definition, "TableName")?.ok_or(InvalidDefinition::Missing("TableName"))?,
            history_table: text(definition, "HistoryTable")?,
            partition_key,
            sort_key,
            version_attribute: text(definition, "VersionAttribute")?,
            ignored: texts(definition, "IgnoreAttributes")?,
            filter,
        })
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

    /// Returns the selection of items, `None` if all have a history.
    pub fn filter(&self) -> Option<&Filter> {
        self.parts.filter.as_ref()
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

fn kind_of(name: &str, types: &[[&str; 2]]) -> Result<KeyType, InvalidDefinition> {
    let kind = types.iter().find(|[defined, _]| *defined == name).map(|[_, kind]| kind);
    let kind = kind.ok_or_else(|| InvalidDefinition::NoType(name.to_owned()))?;
    kind.parse().map_err(|_| InvalidDefinition::KeyType(name.to_owned()))
}

fn member<'a>(definition: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    definition.get(name).filter(|value| !value.is_null())
}

fn text(definition: &Map<String, Value>, name: &'static str) -> Result<Option<String>, InvalidDefinition> {
    match member(definition, name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(InvalidDefinition::NotText(name)),
    }
}

fn texts(definition: &Map<String, Value>, name: &'static str) -> Result<BTreeSet<String>, InvalidDefinition> {
    let Some(value) = member(definition, name) else {
        return Ok(BTreeSet::new());
    };
    let values = value.as_array().into_iter().flatten();
    let texts: Option<_> = values.map(|value| value.as_str().map(str::to_owned)).collect();
    texts
        .filter(|_| value.is_array())
        .ok_or(InvalidDefinition::NotTexts(name))
}

/// Returns two text members of each object in a list.
fn elements<'a>(
    definition: &'a Map<String, Value>,
    list: &'static str,
    members: [&'static str; 2],
) -> Result<Vec<[&'a str; 2]>, InvalidDefinition> {
    let values = member(definition, list).ok_or(InvalidDefinition::Missing(list))?;
    let read = |value: &'a Value| Some([value.get(members[0])?.as_str()?, value.get(members[1])?.as_str()?]);
    let elements: Option<_> = values.as_array().and_then(|values| values.iter().map(read).collect());
    elements.ok_or(InvalidDefinition::Elements { list, members })
}

/// Reason why a text does not define an attached table.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidDefinition {
    /// The text is not JSON.
    #[error("it is not JSON: line {line}, column {column}")]
    NotJson {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
    /// It is not an object.
    #[error("it is not a JSON object")]
    NotAnObject,
    /// A member is missing.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A member is not a string.
    #[error("{0} is not a string")]
    NotText(&'static str),
    /// A member is not a list of strings.
    #[error("{0} is not a list of attribute names")]
    NotTexts(&'static str),
    /// A member is not a list of objects with these members.
    #[error("{list} is not a list of objects with {} and {}", .members[0], .members[1])]
    Elements {
        /// Name of the list.
        list: &'static str,
        /// Members of each object.
        members: [&'static str; 2],
    },
    /// The name of a table breaks the rules of DynamoDB.
    #[error("{0} is not a table name: 3 to 255 letters, digits, underscores, hyphens and dots")]
    TableName(&'static str),
    /// The table and its history table have the same name.
    #[error("HistoryTable is the table itself")]
    SameTable,
    /// The name of an attribute is empty.
    #[error("{0} has an empty attribute name")]
    EmptyName(&'static str),
    /// A `KeyType` is unknown.
    #[error("KeySchema has the KeyType {0}, which is neither HASH nor RANGE")]
    KeyRole(String),
    /// There is no partition key.
    #[error("KeySchema has no partition key, KeyType HASH")]
    NoPartitionKey,
    /// There are several keys of a kind.
    #[error("KeySchema has more than one attribute of KeyType {0}")]
    SeveralKeys(&'static str),
    /// Both keys are the same attribute.
    #[error("{0} is the partition key and the sort key")]
    SameKey(String),
    /// The type of a key attribute is not defined.
    #[error("AttributeDefinitions has no type of the key attribute {0}")]
    NoType(String),
    /// The type of a key attribute is not one that keys can have.
    #[error("the type of the key attribute {0} is not S, N or B")]
    KeyType(String),
    /// A key attribute is ignored.
    #[error("IgnoreAttributes has the key attribute {0}")]
    IgnoredKey(String),
    /// The filter is invalid.
    #[error("Filter is invalid")]
    Filter(#[from] InvalidFilter),
}

#[cfg(test)]
mod tests;
