//! The attached table, its keys, and the settings of its history.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use thiserror::Error;

pub use super::key_attribute::{KeyAttribute, KeyType};
use crate::json;

/// Added to the name of the table for the name of its history table.
const SUFFIX: &str = "-history";

/// Table that other programs write, and its history table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedTable {
    /// With the name of the history table.
    settings: AttachedSettings,
    keys: Vec<KeyAttribute>,
}

/// Definition of an attached table without its keys: stream-fn reads these from the table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AttachedSettings {
    /// Name of the table.
    pub table: String,
    /// Name of the history table, by default that of the table and `-history`.
    pub history_table: Option<String>,
    /// Attribute in which writers keep a version number of their own. History copies its value; it need not be unique.
    pub version_attribute: Option<String>,
    /// Attribute that names the author of the last change, `Actor` of a version.
    pub actor_attribute: Option<String>,
    /// Attribute with the reason of the last change, `Reason` of a version.
    pub reason_attribute: Option<String>,
    /// Attribute that names a set of changes, `ChangeSet` of a version that changed its value.
    pub change_set_attribute: Option<String>,
    /// Attributes whose change alone makes no version.
    pub ignored: BTreeSet<String>,
    /// Selection of the items that have a history, as a pattern of the event source mapping. `None`: all.
    pub filter: Option<String>,
}

impl AttachedTable {
    /// Checks a definition. The first key is the partition key, and the second one, if there is one, the sort key.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidDefinition`] if a name is invalid, if both keys or both tables are the same, or if a key attribute is
    /// missing or ignored.
    pub fn new(mut settings: AttachedSettings, keys: Vec<KeyAttribute>) -> Result<Self, InvalidDefinition> {
        check_table("TableName", &settings.table)?;
        let default = || format!("{}{SUFFIX}", settings.table);
        let history = settings.history_table.get_or_insert_with(default);
        check_table("HistoryTable", history)?;
        if *history == settings.table {
            return Err(InvalidDefinition::SameTable);
        }
        let is_empty = |name: &Option<String>| name.as_deref() == Some("");
        for (is_empty, member) in [
            (keys.iter().any(|key| key.name.is_empty()), "KeySchema"),
            (is_empty(&settings.version_attribute), "VersionAttribute"),
            (is_empty(&settings.actor_attribute), "ActorAttribute"),
            (is_empty(&settings.reason_attribute), "ReasonAttribute"),
            (is_empty(&settings.change_set_attribute), "ChangeSetAttribute"),
            (settings.ignored.contains(""), "IgnoreAttributes"),
        ] {
            if is_empty {
                return Err(InvalidDefinition::EmptyName(member));
            }
        }
        match &keys[..] {
            [] => return Err(InvalidDefinition::NoPartitionKey),
            [key, other, ..] if key.name == other.name => return Err(InvalidDefinition::SameKey(key.name.clone())),
            _ => {}
        }
        if let Some(key) = keys.iter().find(|key| settings.ignored.contains(&key.name)) {
            return Err(InvalidDefinition::IgnoredKey(key.name.clone()));
        }
        Ok(Self { settings, keys })
    }

    /// Returns the definition without its keys, with the name of the history table.
    pub fn settings(&self) -> &AttachedSettings {
        &self.settings
    }

    /// Returns the name of the table.
    pub fn table(&self) -> &str {
        &self.settings.table
    }

    /// Returns the name of the history table.
    pub fn history_table(&self) -> &str {
        self.settings.history_table.as_deref().unwrap_or_default()
    }

    /// Returns the key attributes: the partition key, then the sort key if there is one.
    pub fn keys(&self) -> impl Iterator<Item = &KeyAttribute> {
        self.keys.iter()
    }

    /// Returns the name of the attribute with the writers' own version number.
    pub fn version_attribute(&self) -> Option<&str> {
        self.settings.version_attribute.as_deref()
    }

    /// Returns the names of the attributes that describe the last change: its author, its reason and its change set.
    pub fn attribution(&self) -> impl Iterator<Item = &str> {
        let settings = &self.settings;
        let names = [
            &settings.actor_attribute,
            &settings.reason_attribute,
            &settings.change_set_attribute,
        ];
        names.into_iter().flatten().map(String::as_str)
    }

    /// Returns the names of the attributes whose change alone makes no version.
    pub fn ignored(&self) -> &BTreeSet<String> {
        &self.settings.ignored
    }

    /// Returns the pattern that selects items, `None` if all have a history.
    pub fn filter(&self) -> Option<&str> {
        self.settings.filter.as_deref()
    }

    /// Returns the definition in the JSON of `create-table`, with the members for its history: the file of `local --attach`.
    pub fn to_json(&self) -> Value {
        let settings = &self.settings;
        let keys = self.keys.iter();
        let types = keys
            .clone()
            .map(|key| json!({"AttributeName": key.name, "AttributeType": key.kind.as_str()}));
        let keys = keys.zip(["HASH", "RANGE"]);
        let keys = keys.map(|(key, role)| json!({"AttributeName": key.name, "KeyType": role}));
        let mut definition = json!({
            "TableName": settings.table,
            "KeySchema": keys.collect::<Vec<_>>(),
            "AttributeDefinitions": types.collect::<Vec<_>>(),
            "HistoryTable": self.history_table(),
            "VersionAttribute": settings.version_attribute,
            "ActorAttribute": settings.actor_attribute,
            "ReasonAttribute": settings.reason_attribute,
            "ChangeSetAttribute": settings.change_set_attribute,
            "IgnoreAttributes": Some(&settings.ignored).filter(|ignored| !ignored.is_empty()),
            "Filter": self.filter().and_then(|filter| json::parse(filter).ok()),
        });
        if let Some(members) = definition.as_object_mut() {
            members.retain(|_, value| !value.is_null());
        }
        definition
    }
}

/// Checks a name by the rules of
/// [naming](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/HowItWorks.NamingRulesDataTypes.html).
fn check_table(member: &'static str, name: &str) -> Result<(), InvalidDefinition> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let is_valid = (3..=255).contains(&name.len()) && name.bytes().all(is_allowed);
    is_valid.then_some(()).ok_or(InvalidDefinition::TableName(member))
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
