//! Selection of the items that have a history, as a filter pattern of the event source mapping.
//!
//! | form | example |
//! |---|---|
//! | pattern of the mapping | `{"dynamodb": {"Keys": {"pk": {"S": [{"prefix": "ORDER#"}]}}}}` |
//! | attributes with rules | `{"pk": [{"prefix": "ORDER#"}], "status": ["open"]}` |
//! | an attribute with one rule | `{"status": "open"}`, `{"pk": {"prefix": "ORDER#"}}` |
//! | one of them as a string | `"{\"status\": [\"open\"]}"` |
//! | a list of them: one must match | `[{"status": ["open"]}, {"eventName": ["REMOVE"]}]` |
//!
//! All attributes of the second form must match. Attributes that are not part of the key must match in the new image, or all in
//! the old image, so that a deletion, and the change with which an item stops to match, are part of history. For the syntax see
//! [Lambda event filtering](https://docs.aws.amazon.com/lambda/latest/dg/invocation-eventfiltering.html).

use serde_json::{Map, Value, json};
use shared::{
    domain::{
        attached::key_attribute::{KeyAttribute, KeyType, number_text},
        number::Decimal,
    },
    json,
};

use super::event_pattern::{Invalid, Pattern};

/// Maximum length of a pattern in characters: `MaxLength` of the parameter `Filter`. The mapping accepts 4,096, but the pattern is
/// also an environment variable of stream-fn.
pub const MAX_PATTERN_CHARS: usize = 2048;
/// Members of a stream record, by which a pattern of the mapping is recognized.
const RECORD_MEMBERS: [&str; 3] = ["dynamodb", "eventName", "userIdentity"];

/// Returns the pattern, in JSON, for a filter of a table with these key attributes.
///
/// # Errors
///
/// Returns [`Invalid`] if the syntax is unknown, if the type of an attribute cannot be derived from its rules, or if a
/// limit of the mapping is exceeded.
pub fn pattern(filter: &Value, keys: &[KeyAttribute]) -> Result<String, Invalid> {
    let parsed;
    let filter = match filter {
        Value::String(text) => {
            parsed = json::parse(text).map_err(|_| Invalid("the string is not JSON".to_owned()))?;
            &parsed
        }
        filter => filter,
    };
    let mut patterns = Vec::new();
    match filter {
        Value::Array(filters) if !filters.is_empty() => {
            for filter in filters {
                // A list in a list has no meaning.
                let one = filter.as_object().ok_or_else(Invalid::not_an_object)?;
                patterns.extend(compile(one, keys)?);
            }
        }
        filter => patterns = compile(filter.as_object().ok_or_else(Invalid::not_an_object)?, keys)?,
    }
    let pattern = any_of(patterns).to_string();
    let length = pattern.chars().count();
    if length > MAX_PATTERN_CHARS {
        return Err(Invalid(format!(
            "the pattern has {length} characters, and {MAX_PATTERN_CHARS} are allowed"
        )));
    }
    Pattern::parse(&pattern)?;
    Ok(pattern)
}

/// Returns a pattern that matches if one of these does.
fn any_of(mut patterns: Vec<Value>) -> Value {
    if patterns.len() == 1 {
        return patterns.remove(0);
    }
    let changes = patterns.iter().map(|pattern| match pattern.as_object() {
        Some(members) if members.len() == 1 => members.get("dynamodb").cloned(),
        _ => None,
    });
    match changes.collect::<Option<Vec<_>>>() {
        Some(changes) => json!({"dynamodb": {"$or": changes}}),
        None => json!({"$or": patterns}),
    }
}

fn compile(filter: &Map<String, Value>, keys: &[KeyAttribute]) -> Result<Vec<Value>, Invalid> {
    if filter.is_empty() {
        return Err(Invalid::not_an_object());
    }
    if RECORD_MEMBERS.iter().any(|name| filter.contains_key(*name)) {
        return Ok(vec![Value::Object(filter.clone())]);
    }
    let (mut of_keys, mut of_image) = (Map::new(), Map::new());
    for (name, rules) in filter {
        let rules = match rules {
            Value::Array(rules) if rules.is_empty() => return Err(unknown_rules(name)),
            Value::Array(rules) => rules.as_slice(),
            rule => std::slice::from_ref(rule),
        };
        let key = keys.iter().find(|key| key.name == *name);
        let (kind, rules) = typed(name, rules, key)?;
        let attributes = if key.is_some() { &mut of_keys } else { &mut of_image };
        attributes.insert(name.clone(), json!({kind: rules}));
    }
    let pattern = |image: Option<&str>| {
        let mut change = Map::new();
        if !of_keys.is_empty() {
            change.insert("Keys".to_owned(), of_keys.clone().into());
        }
        if let Some(image) = image {
            change.insert(image.to_owned(), of_image.clone().into());
        }
        json!({"dynamodb": change})
    };
    Ok(match of_image.is_empty() {
        true => vec![pattern(None)],
        false => vec![pattern(Some("NewImage")), pattern(Some("OldImage"))],
    })
}

fn unknown_rules(name: &str) -> Invalid {
    Invalid(format!(
        "the rules of {name} are not a list of values, prefix, suffix, equals-ignore-case and anything-but; for other rules, \
         write a pattern of the event source mapping"
    ))
}

/// Returns the type of an attribute, and its rules for a stream record, in which a number is a string.
fn typed(name: &str, rules: &[Value], key: Option<&KeyAttribute>) -> Result<(&'static str, Vec<Value>), Invalid> {
    let invalid = || unknown_rules(name);
    let mut kind = key.map(|key| key.kind.as_str());
    let mut converted = Vec::new();
    for rule in rules {
        let (of_rule, rule) = match (key.map(|key| key.kind), rule) {
            // The text of a number, or base64.
            (Some(KeyType::N), Value::String(text)) => ("N", number(text).ok_or_else(invalid)?),
            (Some(KeyType::B), rule @ Value::String(_)) => ("B", rule.clone()),
            (_, rule) => convert(rule).ok_or_else(invalid)?,
        };
        if *kind.get_or_insert(of_rule) != of_rule {
            return Err(Invalid(format!("the rules of {name} are of different types")));
        }
        converted.push(rule);
    }
    Ok((kind.ok_or_else(invalid)?, converted))
}

/// Returns the type that a rule implies, and the rule for that type in a stream record.
fn convert(rule: &Value) -> Option<(&'static str, Value)> {
    match rule {
        Value::String(_) => Some(("S", rule.clone())),
        Value::Number(text) => Some(("N", number(&text.to_string())?)),
        Value::Bool(_) => Some(("BOOL", rule.clone())),
        Value::Object(members) => {
            let (operator, operand) = members.iter().next().filter(|_| members.len() == 1)?;
            match (operator.as_str(), operand) {
                ("prefix" | "suffix" | "equals-ignore-case", Value::String(_)) => Some(("S", rule.clone())),
                ("anything-but", Value::Array(operands)) => {
                    let operands = operands.iter().map(convert).collect::<Option<Vec<_>>>()?;
                    let (kinds, operands): (Vec<_>, Vec<_>) = operands.into_iter().unzip();
                    let kind = *kinds.first()?;
                    let is_same = kinds.iter().all(|other| *other == kind);
                    is_same.then(|| (kind, json!({"anything-but": operands})))
                }
                ("anything-but", operand) => {
                    let (kind, operand) = convert(operand)?;
                    Some((kind, json!({"anything-but": operand})))
                }
                // No type follows from `exists`, and `numeric` does not match the numbers of a stream record.
                _ => None,
            }
        }
        _ => None,
    }
}

fn number(text: &str) -> Option<Value> {
    Decimal::parse(text).ok().map(|number| number_text(&number).into())
}

#[cfg(test)]
mod tests;
