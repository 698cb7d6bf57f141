//! Updates of members of a map: `{"Address": {"$update": {"City": "Bonn", "Zip": null}}}` sets `Address.City`, removes
//! `Address.Zip`, and keeps all other members.
//!
//! A path is a nesting of names, so a name can contain any character, and no two paths overlap. A member is itself a value, `null`,
//! or another `$update`. The map must exist: DynamoDB has no request that creates a map or else changes its members. An update
//! expression rejects a path without its map, and a condition of the request detects this case before.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use shared::domain::{AttributeValue, Item, change::Change};

/// Only member of an object that updates members of a map.
pub const UPDATE: &str = "$update";

/// Converts JSON to a change: `null` removes, `{"$update": {…}}` updates members, and `convert` converts any other value.
///
/// # Errors
///
/// Returns the error of `convert`.
pub fn from_json<E>(value: Value, convert: &impl Fn(Value) -> Result<AttributeValue, E>) -> Result<Change, E> {
    let mut value = value;
    if let Some(members) = members_of(&mut value) {
        let members = members.into_iter();
        let members = members.map(|(name, value)| Ok((name, from_json(value, convert)?)));
        return members.collect::<Result<_, E>>().map(Change::Update);
    }
    match value {
        Value::Null => Ok(Change::Remove),
        value => convert(value).map(Change::Set),
    }
}

fn members_of(value: &mut Value) -> Option<serde_json::Map<String, Value>> {
    let object = value.as_object_mut().filter(|object| object.len() == 1)?;
    object.get_mut(UPDATE)?.as_object_mut().map(std::mem::take)
}

/// Returns `true` if a value contains `{"$update": …}`, which has a meaning only in place of an attribute or a member of another
/// `$update`.
///
/// In typed values, `{"$map": …}` is a map whose only member has any name.
pub fn is_in(value: &Value, is_typed: bool) -> bool {
    let is_in = |value: &Value| is_in(value, is_typed);
    match value {
        Value::Object(members) if members.len() == 1 => match (members.get("$map"), members.contains_key(UPDATE)) {
            (Some(Value::Object(map)), _) if is_typed => map.values().any(is_in),
            (_, true) => true,
            _ => members.values().any(is_in),
        },
        Value::Object(members) => members.values().any(is_in),
        Value::Array(values) => values.iter().any(is_in),
        _ => false,
    }
}

/// Applies the changes of a map's members to a value. Does nothing if the value is not a map, see [`missing_map`].
pub fn apply(value: &mut AttributeValue, members: &BTreeMap<String, Change>) {
    if let AttributeValue::M(map) = value {
        change(map, members);
    }
}

/// Applies changes to the attributes of an item, or to the members of a map.
pub fn change(map: &mut HashMap<String, AttributeValue>, changes: &BTreeMap<String, Change>) {
    for (name, change) in changes {
        match change {
            Change::Set(value) => drop(map.insert(name.clone(), value.clone())),
            Change::Remove => drop(map.remove(name)),
            Change::Update(members) => {
                if let Some(value) = map.get_mut(name) {
                    apply(value, members);
                }
            }
        }
    }
}

/// Returns the path of the first map that the changes update and that an item does not have. `None` if it has all of them.
pub fn missing_map(changes: &BTreeMap<String, Change>, item: Option<&Item>) -> Option<String> {
    fn missing(changes: &BTreeMap<String, Change>, map: Option<&HashMap<String, AttributeValue>>) -> Option<String> {
        changes.iter().find_map(|(name, change)| {
            let Change::Update(members) = change else { return None };
            match map.and_then(|map| map.get(name)) {
                Some(AttributeValue::M(map)) => missing(members, Some(map)).map(|path| format!("{name}.{path}")),
                _ => Some(name.clone()),
            }
        })
    }
    missing(changes, item.map(Item::inner))
}

#[cfg(test)]
mod tests;
