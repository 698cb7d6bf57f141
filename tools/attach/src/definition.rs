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
//!   "ActorAttribute": "updatedBy",
//!   "ReasonAttribute": "reason",
//!   "ChangeSetAttribute": "job",
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

use super::{event_pattern::Invalid, filter};

/// Members that are not parameters of `CreateTable`, with spaces between them.
pub const OWN_MEMBERS: &str =
    "HistoryTable VersionAttribute ActorAttribute ReasonAttribute ChangeSetAttribute IgnoreAttributes Filter";

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
/// Returns [`Invalid`], which names the mistake.
pub fn parse(definition: &str) -> Result<AttachedTable, Invalid> {
    let definition = json::parse(definition).map_err(|error| {
        let (line, column) = (error.line, error.column);
        Invalid(format!("it is not JSON: line {line}, column {column}"))
    })?;
    let definition = definition.as_object();
    let definition = definition.ok_or_else(|| Invalid("it is not a JSON object".to_owned()))?;
    let keys: Vec<Key> = required(
        definition,
        "KeySchema",
        "a list of objects with AttributeName and KeyType",
    )?;
    let what = "a list of objects with AttributeName and AttributeType";
    let types: Vec<Attribute> = required(definition, "AttributeDefinitions", what)?;
    if let Some(other) = keys.iter().find(|key| !["HASH", "RANGE"].contains(&&*key.key_type)) {
        return Err(Invalid(format!(
            "KeySchema has the KeyType {}, which is neither HASH nor RANGE",
            other.key_type
        )));
    }
    let key = |wanted: &'static str| -> Result<Option<KeyAttribute>, Invalid> {
        let mut names = keys
            .iter()
            .filter(|key| key.key_type == wanted)
            .map(|key| &key.attribute_name);
        match (names.next(), names.next()) {
            (_, Some(_)) => Err(Invalid(format!(
                "KeySchema has more than one attribute of KeyType {wanted}"
            ))),
            (None, None) => Ok(None),
            (Some(name), None) => Ok(Some(KeyAttribute::new(name, kind_of(name, &types)?))),
        }
    };
    let mut by_key = vec![key("HASH")?.ok_or_else(|| of_table(InvalidTable::NoPartitionKey))?];
    by_key.extend(key("RANGE")?);
    let filter = member(definition, "Filter").map(|filter| filter_pattern(filter, &by_key));
    let settings = AttachedSettings {
        table: required(definition, "TableName", "a string")?,
        history_table: optional(definition, "HistoryTable", "a string")?,
        version_attribute: optional(definition, "VersionAttribute", "a string")?,
        actor_attribute: optional(definition, "ActorAttribute", "a string")?,
        reason_attribute: optional(definition, "ReasonAttribute", "a string")?,
        change_set_attribute: optional(definition, "ChangeSetAttribute", "a string")?,
        ignored: optional::<BTreeSet<_>>(definition, "IgnoreAttributes", "a list of attribute names")?
            .unwrap_or_default(),
        filter: filter.transpose()?,
    };
    AttachedTable::new(settings, by_key).map_err(of_table)
}

/// Returns the pattern of the member `Filter`.
pub(crate) fn filter_pattern(filter: &Value, keys: &[KeyAttribute]) -> Result<String, Invalid> {
    filter::pattern(filter, keys).map_err(|Invalid(why)| Invalid(format!("Filter is invalid: {why}")))
}

pub(crate) fn of_table(error: InvalidTable) -> Invalid {
    Invalid(error.to_string())
}

fn kind_of(name: &str, types: &[Attribute]) -> Result<KeyType, Invalid> {
    let defined = types.iter().find(|defined| defined.attribute_name == name);
    let defined =
        defined.ok_or_else(|| Invalid(format!("AttributeDefinitions has no type of the key attribute {name}")))?;
    let kind = defined.attribute_type.parse();
    kind.map_err(|_| of_table(InvalidTable::KeyType(name.to_owned())))
}

fn member<'a>(definition: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    definition.get(name).filter(|value| !value.is_null())
}

/// Returns a member, which is `what`, if it is there.
fn optional<T: DeserializeOwned>(
    definition: &Map<String, Value>,
    name: &'static str,
    what: &'static str,
) -> Result<Option<T>, Invalid> {
    let member = member(definition, name).map(T::deserialize).transpose();
    member.map_err(|_| Invalid(format!("{name} is not {what}")))
}

fn required<T: DeserializeOwned>(
    definition: &Map<String, Value>,
    name: &'static str,
    what: &'static str,
) -> Result<T, Invalid> {
    optional(definition, name, what)?.ok_or_else(|| Invalid(format!("{name} is missing")))
}

#[cfg(test)]
mod tests;
