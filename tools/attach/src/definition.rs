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
use shared::{
    domain::attached::{
        AttachedTable,
        definition::{AttachedSettings, InvalidDefinition as InvalidTable, KeyAttribute, KeyType},
    },
    json,
};
use thiserror::Error;

use super::filter::{self, InvalidFilter};

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
            (Some(name), None) => Ok(Some(KeyAttribute::new(name, kind_of(name, &types)?))),
        }
    };
    let mut by_key = vec![key("HASH")?.ok_or(InvalidTable::NoPartitionKey)?];
    by_key.extend(key("RANGE")?);
    let filter = member(definition, "Filter").map(|filter| filter::pattern(filter, &by_key));
    let settings = AttachedSettings {
        table: text(definition, "TableName")?.ok_or(InvalidDefinition::Missing("TableName"))?,
        history_table: text(definition, "HistoryTable")?,
        version_attribute: text(definition, "VersionAttribute")?,
        ignored: texts(definition, "IgnoreAttributes")?,
        filter: filter.transpose()?,
    };
    Ok(AttachedTable::new(settings, by_key)?)
}

fn kind_of(name: &str, types: &[[&str; 2]]) -> Result<KeyType, InvalidDefinition> {
    let kind = types.iter().find(|[defined, _]| *defined == name).map(|[_, kind]| kind);
    let kind = kind.ok_or_else(|| InvalidDefinition::NoType(name.to_owned()))?;
    kind.parse().map_err(|_| InvalidTable::KeyType(name.to_owned()).into())
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
    /// A `KeyType` is unknown.
    #[error("KeySchema has the KeyType {0}, which is neither HASH nor RANGE")]
    KeyRole(String),
    /// There are several keys of a kind.
    #[error("KeySchema has more than one attribute of KeyType {0}")]
    SeveralKeys(&'static str),
    /// The type of a key attribute is not defined.
    #[error("AttributeDefinitions has no type of the key attribute {0}")]
    NoType(String),
    /// The filter is invalid.
    #[error("Filter is invalid")]
    Filter(#[from] InvalidFilter),
    /// The table cannot be attached.
    #[error(transparent)]
    Table(#[from] InvalidTable),
}

#[cfg(test)]
mod tests;
