//! Key of an item of an attached table as the partition key of its history: compact JSON of its key attributes, in the order
//! of the key schema.
//!
//! | type | in the partition key | in a key that a user writes |
//! |---|---|---|
//! | S | string | string |
//! | N | number in [one form](number_text) | number in any notation, or a string with one |
//! | B | string, base64 | string, base64 |
//!
//! Equal keys have equal texts, whether they come from a stream record or from a user. A text above the limit of a partition key
//! is replaced by its SHA-256. No text begins with the prefix that the library reserves.

use std::fmt::Write as _;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::definition::{AttachedTable, KeyAttribute, KeyType};
pub use super::key_attribute::number_text;
use crate::{
    domain::{
        AttributeValue, Item,
        entity::{EntityId, MAX_ENTITY_ID_BYTES, hex},
        number::{Decimal, InvalidNumber},
    },
    json,
};

/// Prefix of the SHA-256 of a long key.
const HASHED: &str = "sha256:";

/// Returns the partition key of the history of an item with these key attributes. Other attributes are ignored.
///
/// # Errors
///
/// Returns [`InvalidKey`] if a key attribute is missing or of another type.
pub fn of_item(table: &AttachedTable, item: &Item) -> Result<EntityId, InvalidKey> {
    Ok(entity(to_json(table, item)?))
}

/// Returns the JSON of these key attributes, of any length. Other attributes are ignored.
///
/// # Errors
///
/// As [`of_item`].
pub fn to_json(table: &AttachedTable, item: &Item) -> Result<String, InvalidKey> {
    let members = table.keys().map(|key| {
        let value = item
            .get(&key.name)
            .ok_or_else(|| InvalidKey::Missing(key.name.clone()))?;
        Ok((key.name.as_str(), text_of(key, value)?))
    });
    Ok(json_of(&members.collect::<Result<Vec<_>, _>>()?))
}

/// Parses the key that a user writes: plain JSON such as `{"customerId": "c1", "orderNo": 7}`, or DynamoDB JSON.
///
/// # Errors
///
/// Returns [`InvalidKey`] if the text is not a JSON object, or has other members or types than the key of the table.
pub fn parse(table: &AttachedTable, json: &str) -> Result<EntityId, InvalidKey> {
    of_item(table, &attributes(table, json)?)
}

/// Returns the key attributes with these texts, in the order of the key schema.
///
/// # Errors
///
/// Returns [`InvalidKey`] if a text is missing, or not one of the attribute's type.
pub fn of_texts<'a>(table: &AttachedTable, texts: impl IntoIterator<Item = &'a str>) -> Result<Item, InvalidKey> {
    let (mut texts, mut item) = (texts.into_iter(), Item::default());
    for key in table.keys() {
        let text = texts.next().ok_or_else(|| InvalidKey::Missing(key.name.clone()))?;
        item.insert(key.name.clone(), value_of(key, &Value::from(text))?);
    }
    Ok(item)
}

/// Returns the text of a key attribute's value, see [`of_texts`]. `None` if it has a type that keys cannot have.
pub fn to_text(value: &AttributeValue) -> Option<String> {
    match value {
        AttributeValue::S(text) | AttributeValue::N(text) => Some(text.clone()),
        AttributeValue::B(bytes) => Some(STANDARD.encode(bytes)),
        _ => None,
    }
}

/// Parses the key that a user writes to its attributes, see [`parse`].
///
/// # Errors
///
/// As [`parse`].
pub fn attributes(table: &AttachedTable, text: &str) -> Result<Item, InvalidKey> {
    let Ok(Value::Object(members)) = json::parse(text) else {
        return Err(InvalidKey::NotAnObject);
    };
    if let Some(other) = members.keys().find(|name| table.keys().all(|key| key.name != **name)) {
        return Err(InvalidKey::NoKeyAttribute(other.clone()));
    }
    let mut item = Item::default();
    for key in table.keys() {
        let value = members
            .get(&key.name)
            .ok_or_else(|| InvalidKey::Missing(key.name.clone()))?;
        item.insert(key.name.clone(), value_of(key, value)?);
    }
    Ok(item)
}

/// Returns a partition key for the quarantine of a record whose keys are not those of the table: their DynamoDB JSON, sorted by
/// name.
pub fn of_other_keys(keys: &Item) -> Option<EntityId> {
    let mut members: Vec<_> = keys.iter().collect();
    members.sort_unstable_by_key(|(name, _)| *name);
    let members = members.into_iter();
    let members = members.map(|(name, value)| Some((name.as_str(), serde_json::to_string(value).ok()?)));
    Some(entity(json_of(&members.collect::<Option<Vec<_>>>()?)))
}

fn json_of(members: &[(&str, String)]) -> String {
    let mut text = "{".to_owned();
    for (index, (name, value)) in members.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(text, "{comma}{}:{value}", Value::from(*name));
    }
    text.push('}');
    text
}

fn entity(mut text: String) -> EntityId {
    if text.len() > MAX_ENTITY_ID_BYTES {
        text = format!("{HASHED}{}", hex(&Sha256::digest(&text)));
    }
    EntityId::of_attached(text)
}

fn text_of(key: &KeyAttribute, value: &AttributeValue) -> Result<String, InvalidKey> {
    match (key.kind, value) {
        (KeyType::S, AttributeValue::S(text)) if text.is_empty() => Err(InvalidKey::Empty(key.name.clone())),
        (KeyType::B, AttributeValue::B(bytes)) if bytes.is_empty() => Err(InvalidKey::Empty(key.name.clone())),
        (KeyType::S, AttributeValue::S(text)) => Ok(Value::from(text.as_str()).to_string()),
        (KeyType::N, AttributeValue::N(number)) => Ok(number_text(&decimal(key, number)?)),
        (KeyType::B, AttributeValue::B(bytes)) => Ok(Value::from(STANDARD.encode(bytes)).to_string()),
        _ => Err(InvalidKey::of_type(key)),
    }
}

/// Reads a value that a user wrote.
fn value_of(key: &KeyAttribute, value: &Value) -> Result<AttributeValue, InvalidKey> {
    let bytes = |text: &str| {
        STANDARD
            .decode(text)
            .map_err(|_| InvalidKey::NotBase64(key.name.clone()))
    };
    match (key.kind, value) {
        (kind, Value::Object(members)) => match (members.len(), members.get(kind.as_str())) {
            (1, Some(text @ Value::String(_))) => value_of(key, text),
            _ => Err(InvalidKey::of_type(key)),
        },
        (KeyType::S, Value::String(text)) => Ok(AttributeValue::S(text.clone())),
        (KeyType::B, Value::String(text)) => Ok(AttributeValue::B(bytes(text)?)),
        (KeyType::N, Value::String(text)) => Ok(AttributeValue::N(number_text(&decimal(key, text)?))),
        (KeyType::N, Value::Number(number)) => Ok(AttributeValue::N(number_text(&decimal(key, &number.to_string())?))),
        _ => Err(InvalidKey::of_type(key)),
    }
}

fn decimal(key: &KeyAttribute, text: &str) -> Result<Decimal, InvalidKey> {
    Decimal::parse(text).map_err(|source| InvalidKey::Number {
        name: key.name.clone(),
        source,
    })
}

/// Reason why a text or an item has no key of the attached table. No message contains a value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidKey {
    /// The text is not a JSON object.
    #[error("the key is not a JSON object")]
    NotAnObject,
    /// A key attribute is missing.
    #[error("the key attribute {0} is missing")]
    Missing(String),
    /// An attribute is not part of the key.
    #[error("{0} is not a key attribute of the table")]
    NoKeyAttribute(String),
    /// A key attribute is of another type.
    #[error("the key attribute {name} is not of type {kind}")]
    Type {
        /// Name of the attribute.
        name: String,
        /// Type that it should have.
        kind: KeyType,
    },
    /// A key attribute is empty.
    #[error("the key attribute {0} is empty")]
    Empty(String),
    /// A key attribute of type B is not base64.
    #[error("the key attribute {0} is not base64")]
    NotBase64(String),
    /// A key attribute is not a number that DynamoDB can store.
    #[error("the key attribute {name} is not a valid number")]
    Number {
        /// Name of the attribute.
        name: String,
        /// Reason.
        source: InvalidNumber,
    },
}

impl InvalidKey {
    fn of_type(key: &KeyAttribute) -> Self {
        Self::Type {
            name: key.name.clone(),
            kind: key.kind,
        }
    }
}

#[cfg(test)]
mod tests;
