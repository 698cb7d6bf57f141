//! Filter patterns of the event source mapping, which select stream records.
//! See <https://docs.aws.amazon.com/lambda/latest/dg/invocation-eventfiltering.html>.
//!
//! Lambda applies them to the records that it delivers. Here they tell which items of an
//! [attached table](shared::domain::attached) have a history, and the local stack applies them as Lambda does.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};
use shared::{domain::number::Decimal, json};
use thiserror::Error;

/// Pattern of a filter. All its members must match.
#[derive(Debug, Clone)]
pub struct Pattern(Vec<Member>);

#[derive(Debug, Clone)]
enum Member {
    /// `"name": {…}`
    Inside(String, Pattern),
    /// `"name": […]`: one of the rules must match.
    Leaf(String, Vec<Rule>),
    /// `"$or": [{…}, {…}]`
    Or(Vec<Pattern>),
}

#[derive(Debug, Clone)]
enum Rule {
    Equals(Value),
    EqualsIgnoreCase(String),
    Prefix(String),
    Suffix(String),
    AnythingBut(Vec<Rule>),
    Exists(bool),
    /// Each bound has one of these orders.
    Numeric(Vec<(&'static [Ordering], Decimal)>),
}

impl Pattern {
    /// Parses the JSON of a pattern.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidPattern`] if the text is not JSON, or if a rule is unknown.
    pub fn parse(text: &str) -> Result<Self, InvalidPattern> {
        let pattern = json::parse(text).map_err(|_| InvalidPattern::NotJson)?;
        Self::from_value(&pattern)
    }

    fn from_value(pattern: &Value) -> Result<Self, InvalidPattern> {
        let members = pattern.as_object().ok_or(InvalidPattern::NotAnObject)?;
        if members.is_empty() {
            return Err(InvalidPattern::NotAnObject);
        }
        members
            .iter()
            .map(Member::from_entry)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Returns `true` if a record matches.
    pub fn matches(&self, value: &Value) -> bool {
        let empty = Map::new();
        // A value that is not an object has no members, so that `exists: false` matches.
        let members = value.as_object().unwrap_or(&empty);
        self.0.iter().all(|member| member.matches(members, value))
    }
}

impl Member {
    fn from_entry((name, value): (&String, &Value)) -> Result<Self, InvalidPattern> {
        match value {
            Value::Array(patterns) if name == "$or" => {
                let patterns = patterns.iter().map(Pattern::from_value).collect::<Result<_, _>>()?;
                Ok(Self::Or(patterns))
            }
            Value::Object(_) => Ok(Self::Inside(name.clone(), Pattern::from_value(value)?)),
            Value::Array(rules) if !rules.is_empty() => {
                let rules = rules.iter().map(Rule::from_value).collect::<Result<_, _>>()?;
                Ok(Self::Leaf(name.clone(), rules))
            }
            _ => Err(InvalidPattern::Member(name.clone())),
        }
    }

    fn matches(&self, members: &Map<String, Value>, whole: &Value) -> bool {
        match self {
            Self::Inside(name, pattern) => pattern.matches(members.get(name).unwrap_or(&Value::Null)),
            Self::Leaf(name, rules) => {
                let value = members.get(name);
                rules.iter().any(|rule| rule.matches(value))
            }
            Self::Or(patterns) => patterns.iter().any(|pattern| pattern.matches(whole)),
        }
    }
}

impl Rule {
    fn from_value(rule: &Value) -> Result<Self, InvalidPattern> {
        let Value::Object(members) = rule else {
            return match rule {
                Value::Array(_) => Err(InvalidPattern::Rule),
                literal => Ok(Self::Equals(literal.clone())),
            };
        };
        let mut members = members.iter();
        let (Some((kind, operand)), None) = (members.next(), members.next()) else {
            return Err(InvalidPattern::Rule);
        };
        match (kind.as_str(), operand) {
            ("prefix", Value::String(text)) => Ok(Self::Prefix(text.clone())),
            ("suffix", Value::String(text)) => Ok(Self::Suffix(text.clone())),
            ("equals-ignore-case", Value::String(text)) => Ok(Self::EqualsIgnoreCase(text.to_lowercase())),
            ("exists", Value::Bool(exists)) => Ok(Self::Exists(*exists)),
            ("numeric", Value::Array(parts)) => numeric(parts),
            ("anything-but", Value::Array(rules)) => rules
                .iter()
                .map(Self::from_value)
                .collect::<Result<_, _>>()
                .map(Self::AnythingBut),
            ("anything-but", rule) => Ok(Self::AnythingBut(vec![Self::from_value(rule)?])),
            _ => Err(InvalidPattern::Rule),
        }
    }

    /// A list matches if one of its members does.
    fn matches(&self, value: Option<&Value>) -> bool {
        match (self, value) {
            (Self::Exists(exists), value) => *exists == value.is_some_and(|value| !value.is_object()),
            (_, None) => false,
            (rule, Some(Value::Array(values))) => values.iter().any(|value| rule.matches_one(value)),
            (rule, Some(value)) => rule.matches_one(value),
        }
    }

    fn matches_one(&self, value: &Value) -> bool {
        match self {
            Self::Equals(literal) => equal(literal, value),
            Self::EqualsIgnoreCase(text) => value.as_str().is_some_and(|value| value.to_lowercase() == *text),
            Self::Prefix(prefix) => value.as_str().is_some_and(|value| value.starts_with(prefix)),
            Self::Suffix(suffix) => value.as_str().is_some_and(|value| value.ends_with(suffix)),
            Self::AnythingBut(rules) => !value.is_object() && !rules.iter().any(|rule| rule.matches_one(value)),
            Self::Exists(exists) => *exists,
            Self::Numeric(bounds) => match value {
                // DynamoDB's N is a string in a record, which no numeric rule matches.
                Value::Number(number) => decimal(number)
                    .is_some_and(|number| bounds.iter().all(|(orders, bound)| orders.contains(&number.cmp(bound)))),
                _ => false,
            },
        }
    }
}

fn equal(literal: &Value, value: &Value) -> bool {
    match (literal, value) {
        (Value::Number(a), Value::Number(b)) => decimal(a).is_some_and(|a| decimal(b) == Some(a)),
        (Value::Object(_) | Value::Array(_), _) => false,
        (literal, value) => literal == value,
    }
}

fn decimal(number: &Number) -> Option<Decimal> {
    Decimal::parse(&number.to_string()).ok()
}

fn numeric(parts: &[Value]) -> Result<Rule, InvalidPattern> {
    let pairs = parts.chunks_exact(2);
    if parts.is_empty() || parts.len() > 4 || !pairs.remainder().is_empty() {
        return Err(InvalidPattern::Rule);
    }
    let bound = |pair: &[Value]| {
        let orders: &[Ordering] = match pair[0].as_str()? {
            "=" => &[Ordering::Equal],
            "<" => &[Ordering::Less],
            "<=" => &[Ordering::Less, Ordering::Equal],
            ">" => &[Ordering::Greater],
            ">=" => &[Ordering::Greater, Ordering::Equal],
            _ => return None,
        };
        Some((orders, decimal(pair[1].as_number()?)?))
    };
    let bounds = pairs.map(bound).collect::<Option<_>>();
    bounds.map(Rule::Numeric).ok_or(InvalidPattern::Rule)
}

/// Reason why a text is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidPattern {
    /// The text is not JSON.
    #[error("it is not JSON")]
    NotJson,
    /// A pattern is not an object, or is empty.
    #[error("a pattern is an object that is not empty")]
    NotAnObject,
    /// A member has no rules.
    #[error("{0} is neither an object nor a list that is not empty")]
    Member(String),
    /// A rule is unknown.
    #[error("a rule is unknown, or its operand is not of its type")]
    Rule,
}
