//! Filter patterns of the event source mapping, which select stream records.
//! See <https://docs.aws.amazon.com/lambda/latest/dg/invocation-eventfiltering.html>.
//!
//! Lambda applies them to the records that it delivers. Here they tell which items of an
//! [attached table](shared::domain::attached) have a history, and the local stack applies them as Lambda does.

use std::{cmp::Ordering, slice};

use serde_json::{Number, Value};
use shared::{domain::number::Decimal, json};
use thiserror::Error;

/// Pattern of a filter, in JSON. All its members must match.
#[derive(Debug, Clone)]
pub struct Pattern(Value);

impl Pattern {
    /// Parses the JSON of a pattern.
    ///
    /// # Errors
    ///
    /// Returns [`Invalid`] if the text is not JSON, or if a rule is unknown.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let pattern = json::parse(text).map_err(|_| Invalid("it is not JSON".to_owned()))?;
        // Every rule is applied to any record, so that an unknown one is found.
        has_members(&pattern, &Value::Null)?;
        Ok(Self(pattern))
    }

    /// Returns `true` if a record matches.
    pub fn matches(&self, record: &Value) -> bool {
        has_members(&self.0, record) == Ok(true)
    }
}

/// Returns `true` if a value has all members of a pattern. A value that is not an object has no members, so that `exists: false`
/// matches.
fn has_members(pattern: &Value, value: &Value) -> Result<bool, Invalid> {
    let members = pattern.as_object().filter(|members| !members.is_empty());
    let members = members.ok_or_else(Invalid::not_an_object)?;
    let unknown = || Invalid("a rule is unknown, or its operand is not of its type".to_owned());
    members.iter().try_fold(true, |all, (name, rules)| {
        let is_found = match rules {
            Value::Array(patterns) if name == "$or" => any(patterns, |pattern| has_members(pattern, value))?,
            Value::Object(_) => has_members(rules, value.get(name).unwrap_or(&Value::Null))?,
            Value::Array(rules) if !rules.is_empty() => {
                any(rules, |rule| follows(rule, value.get(name)).ok_or_else(unknown))?
            }
            _ => {
                return Err(Invalid(format!(
                    "{name} is neither an object nor a list that is not empty"
                )));
            }
        };
        Ok(all & is_found)
    })
}

/// Returns `true` if one of these matches. All are tried.
fn any(patterns: &[Value], matches: impl Fn(&Value) -> Result<bool, Invalid>) -> Result<bool, Invalid> {
    patterns
        .iter()
        .try_fold(false, |any, pattern| Ok(any | matches(pattern)?))
}

/// Returns `true` if a member follows a rule. An absent member is `None`. A list follows a rule if one of its values does. The result is
/// `None` if the rule is unknown.
fn follows(rule: &Value, member: Option<&Value>) -> Option<bool> {
    // Also without a value.
    let is_known = value_follows(rule, &Value::Null);
    if rule.get("exists").is_some() {
        let exists = member.is_some_and(|member| !member.is_object());
        return is_known.map(|expected| expected == exists);
    }
    let values = match member {
        Some(Value::Array(values)) => values,
        member => member.map_or(&[][..], slice::from_ref),
    };
    is_known.map(|_| values.iter().any(|value| value_follows(rule, value) == Some(true)))
}

fn value_follows(rule: &Value, value: &Value) -> Option<bool> {
    let Value::Object(members) = rule else {
        return (!rule.is_array()).then(|| is_equal(rule, value));
    };
    let (kind, operand) = members.iter().next().filter(|_| members.len() == 1)?;
    let text = value.as_str();
    Some(match (kind.as_str(), operand) {
        ("prefix", Value::String(prefix)) => text.is_some_and(|text| text.starts_with(prefix)),
        ("suffix", Value::String(suffix)) => text.is_some_and(|text| text.ends_with(suffix)),
        ("equals-ignore-case", Value::String(other)) => {
            text.is_some_and(|text| text.to_lowercase() == other.to_lowercase())
        }
        ("exists", Value::Bool(exists)) => *exists,
        // DynamoDB's N is a string in a record, which no numeric rule matches.
        ("numeric", Value::Array(parts)) => is_within(parts, value.as_number().and_then(decimal).as_ref())?,
        ("anything-but", rules) => {
            let mut rules = rules.as_array().map_or(slice::from_ref(rules), Vec::as_slice).iter();
            let is_any = rules.try_fold(false, |any, rule| Some(any | value_follows(rule, value)?))?;
            !value.is_object() && !is_any
        }
        _ => return None,
    })
}

fn is_equal(literal: &Value, value: &Value) -> bool {
    match (literal, value) {
        (Value::Number(a), Value::Number(b)) => decimal(a).is_some_and(|a| decimal(b) == Some(a)),
        (literal, value) => literal == value,
    }
}

fn decimal(number: &Number) -> Option<Decimal> {
    Decimal::parse(&number.to_string()).ok()
}

/// Returns `true` if a number is within one or two bounds, such as `[">", 1, "<=", 3]`. `None` if they are none.
fn is_within(bounds: &[Value], number: Option<&Decimal>) -> Option<bool> {
    let (bounds, []) = bounds.as_chunks() else { return None };
    (1..=2).contains(&bounds.len()).then_some(())?;
    bounds.iter().try_fold(true, |all, [operator, bound]| {
        let orders: &[Ordering] = match operator.as_str()? {
            "=" => &[Ordering::Equal],
            "<" => &[Ordering::Less],
            "<=" => &[Ordering::Less, Ordering::Equal],
            ">" => &[Ordering::Greater],
            ">=" => &[Ordering::Greater, Ordering::Equal],
            _ => return None,
        };
        let bound = decimal(bound.as_number()?)?;
        Some(all & number.is_some_and(|number| orders.contains(&number.cmp(&bound))))
    })
}

/// Reason why a text is not a pattern, a filter or a definition.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Invalid(pub String);

impl Invalid {
    pub(crate) fn not_an_object() -> Self {
        Self("a pattern is an object that is not empty".to_owned())
    }
}
