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

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use shared::{
    domain::attached::{
        AttachedTable,
        definition::{AttachedSettings, InvalidDefinition as InvalidTable, KeyAttribute, KeyType},
    },
    json,
};
use thiserror::Error;

use super::filter::{self, InvalidFilter};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Key {
    attribute_name: String,
    key_type: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Attribute {
    attribute_name: String,
    attribute_type: String,
}

/// Parses the JSON of a definition.
///
/// # Errors
///
/// Returns [`InvalidDefinition`], whose variants name the mistakes.
pub fn parse(definition: &str) -> Result<AttachedTable, InvalidDefinition> {
    let definition = json::parse(definition).map_err(|error| InvalidDefinition::NotJson {
        line: error.line,
        column: error.column,
    })?;
    let definition = definition.as_object().ok_or(InvalidDefinition::NotAnObject)?;
    let keys: Vec<Key> = required(
        definition,
        "KeySchema",
        "a list of objects with AttributeName and KeyType",
    )?;
    let what = "a list of objects with AttributeName and AttributeType";
    let types: Vec<Attribute> = required(definition, "AttributeDefinitions", what)?;
    if let Some(other) = keys.iter().find(|key| !["HASH", "RANGE"].contains(&&*key.key_type)) {
        return Err(InvalidDefinition::KeyRole(other.key_type.clone()));
    }
    let key = |wanted: &'static str| -> Result<Option<KeyAttribute>, InvalidDefinition> {
        let mut names = keys
            .iter()
            .filter(|key| key.key_type == wanted)
            .map(|key| &key.attribute_name);
        match (names.next(), names.next()) {
            (_, Some(_)) => Err(InvalidDefinition::SeveralKeys(wanted)),
            (None, None) => Ok(None),
            (Some(name), None) => Ok(Some(KeyAttribute::new(name, kind_of(name, &types)?))),
        }
    };
    let mut by_key = vec![key("HASH")?.ok_or(InvalidTable::NoPartitionKey)?];
    by_key.extend(key("RANGE")?);
    let filter = member(definition, "Filter").map(|filter| filter::pattern(filter, &by_key));
    let settings = AttachedSettings {
        table: required(definition, "TableName", "a string")?,
        history_table: optional(definition, "HistoryTable", "a string")?,
        version_attribute: optional(definition, "VersionAttribute", "a string")?,
        ignored: optional::<BTreeSet<_>>(definition, "IgnoreAttributes", "a list of attribute names")?
            .unwrap_or_default(),
        filter: filter.transpose()?,
    };
    Ok(AttachedTable::new(settings, by_key)?)
}

fn kind_of(name: &str, types: &[Attribute]) -> Result<KeyType, InvalidDefinition> {
    let defined = types.iter().find(|defined| defined.attribute_name == name);
    let defined = defined.ok_or_else(|| InvalidDefinition::NoType(name.to_owned()))?;
    let kind = defined.attribute_type.parse();
    kind.map_err(|_| InvalidTable::KeyType(name.to_owned()).into())
}

fn member<'a>(definition: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    definition.get(name).filter(|value| !value.is_null())
}

/// Returns a member, which is `what`, if it is there.
fn optional<T: DeserializeOwned>(
    definition: &Map<String, Value>,
    name: &'static str,
    what: &'static str,
) -> Result<Option<T>, InvalidDefinition> {
    let member = member(definition, name).map(T::deserialize).transpose();
    member.map_err(|_| InvalidDefinition::Member(name, what))
}

fn required<T: DeserializeOwned>(
    definition: &Map<String, Value>,
    name: &'static str,
    what: &'static str,
) -> Result<T, InvalidDefinition> {
    optional(definition, name, what)?.ok_or(InvalidDefinition::Missing(name))
}

/// Reason why a text does not define an attached table.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidDefinition {
    #[error("it is not JSON: line {line}, column {column}")]
    NotJson { line: usize, column: usize },
    #[error("it is not a JSON object")]
    NotAnObject,
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A member has another form.
    #[error("{0} is not {1}")]
    Member(&'static str, &'static str),
    #[error("KeySchema has the KeyType {0}, which is neither HASH nor RANGE")]
    KeyRole(String),
    #[error("KeySchema has more than one attribute of KeyType {0}")]
    SeveralKeys(&'static str),
    #[error("AttributeDefinitions has no type of the key attribute {0}")]
    NoType(String),
    #[error("Filter is invalid")]
    Filter(#[from] InvalidFilter),
    #[error(transparent)]
    Table(#[from] InvalidTable),
}

#[cfg(test)]
mod tests;
