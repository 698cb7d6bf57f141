//! `FilterCriteria`: selects the records that are delivered to the function.
//! See <https://docs.aws.amazon.com/lambda/latest/dg/invocation-eventfiltering.html>.

use serde_json::{Map, Value, json};
use shared::domain::number::Decimal;
use stream_fn::record::unwrap_kinesis;
use thiserror::Error;

/// Maximum number of filters of one mapping, by default.
const MAX_FILTERS: usize = 5;

/// Filters of a mapping. A record matches if one filter does, or if there are none.
#[derive(Debug, Clone, Default)]
pub struct Filters(Vec<Pattern>);

impl Filters {
    pub fn parse<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidFilter> {
        let patterns: Vec<_> = patterns.into_iter().map(Pattern::parse).collect::<Result<_, _>>()?;
        if patterns.len() > MAX_FILTERS {
            return Err(InvalidFilter::TooMany);
        }
        Ok(Self(patterns))
    }

    /// Returns `true` if the record is delivered.
    ///
    /// ```
    /// use local::mapping::filter::Filters;
    /// use serde_json::json;
    ///
    /// let filters = Filters::parse([r#"{"dynamodb":{"Keys":{"SK":{"S":["v0"]}}}}"#]).unwrap();
    /// assert!(filters.matches(&json!({"dynamodb": {"Keys": {"SK": {"S": "v0"}}}})));
    /// assert!(!filters.matches(&json!({"dynamodb": {"Keys": {"SK": {"S": "v1"}}}})));
    /// ```
    /// The payload of a Kinesis record is matched under `data`, if it is JSON.
    ///
    /// ```
    /// # use local::mapping::filter::Filters;
    /// # use serde_json::json;
    /// let filters = Filters::parse([r#"{"data":{"eventName":["INSERT"]}}"#]).unwrap();
    /// assert!(filters.matches(&json!({"kinesis": {"data": "eyJldmVudE5hbWUiOiJJTlNFUlQifQ=="}})));
    /// assert!(!filters.matches(&json!({"kinesis": {"data": "bm8gSlNPTg=="}})));
    /// ```
    pub fn matches(&self, record: &Value) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let payload = record.get("kinesis").map(|kinesis| json!({"data": payload(kinesis)}));
        let record = payload.as_ref().unwrap_or(record);
        self.0.iter().any(|pattern| pattern.matches(record))
    }
}

fn payload(kinesis: &Value) -> Value {
    let data = kinesis["data"].as_str().and_then(unwrap_kinesis);
    data.and_then(|data| serde_json::from_str(&data).ok())
        .unwrap_or_default()
}

/// All members of a pattern must match.
#[derive(Debug, Clone)]
struct Pattern(Vec<Member>);

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
    Numeric(Vec<(Comparison, f64)>),
}

#[derive(Debug, Clone, Copy)]
enum Comparison {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, InvalidFilter> {
        let pattern: Value = serde_json::from_str(text).map_err(|_| InvalidFilter::NotJson)?;
        Self::from_value(&pattern)
    }

    fn from_value(pattern: &Value) -> Result<Self, InvalidFilter> {
        let members = pattern.as_object().ok_or(InvalidFilter::NotAnObject)?;
        if members.is_empty() {
            return Err(InvalidFilter::NotAnObject);
        }
        members
            .iter()
            .map(Member::from_entry)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    fn matches(&self, value: &Value) -> bool {
        let empty = Map::new();
        // A value that is not an object has no members, so that `exists: false` matches.
        let members = value.as_object().unwrap_or(&empty);
        self.0.iter().all(|member| member.matches(members, value))
    }
}

impl Member {
    fn from_entry((name, value): (&String, &Value)) -> Result<Self, InvalidFilter> {
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
            _ => Err(InvalidFilter::Member(name.clone())),
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
    fn from_value(rule: &Value) -> Result<Self, InvalidFilter> {
        let Value::Object(members) = rule else {
            return match rule {
                Value::Array(_) => Err(InvalidFilter::Rule),
                literal => Ok(Self::Equals(literal.clone())),
            };
        };
        let mut members = members.iter();
        let (Some((kind, operand)), None) = (members.next(), members.next()) else {
            return Err(InvalidFilter::Rule);
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
            _ => Err(InvalidFilter::Rule),
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
                Value::Number(number) => number.as_f64().is_some_and(|number| within(number, bounds)),
                _ => false,
            },
        }
    }
}

fn equal(literal: &Value, value: &Value) -> bool {
    match (literal, value) {
        (Value::Number(a), Value::Number(b)) => {
            Decimal::parse(&a.to_string()).is_ok_and(|a| Decimal::parse(&b.to_string()).is_ok_and(|b| a == b))
        }
        (Value::Object(_) | Value::Array(_), _) => false,
        (literal, value) => literal == value,
    }
}

fn numeric(parts: &[Value]) -> Result<Rule, InvalidFilter> {
    let pairs = parts.chunks_exact(2);
    if parts.is_empty() || parts.len() > 4 || !pairs.remainder().is_empty() {
        return Err(InvalidFilter::Rule);
    }
    let bound = |pair: &[Value]| {
        let comparison = match pair[0].as_str() {
            Some("=") => Comparison::Equal,
            Some("<") => Comparison::Less,
            Some("<=") => Comparison::LessOrEqual,
            Some(">") => Comparison::Greater,
            Some(">=") => Comparison::GreaterOrEqual,
            _ => return Err(InvalidFilter::Rule),
        };
        let number = pair[1].as_f64().ok_or(InvalidFilter::Rule)?;
        Ok((comparison, number))
    };
    pairs.map(bound).collect::<Result<_, _>>().map(Rule::Numeric)
}

fn within(number: f64, bounds: &[(Comparison, f64)]) -> bool {
    bounds.iter().all(|(comparison, bound)| match comparison {
        Comparison::Equal => (number - bound).abs() < f64::EPSILON * number.abs().max(1.0),
        Comparison::Less => number < *bound,
        Comparison::LessOrEqual => number <= *bound,
        Comparison::Greater => number > *bound,
        Comparison::GreaterOrEqual => number >= *bound,
    })
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidFilter {
    #[error("it is not JSON")]
    NotJson,
    #[error("a pattern is an object that is not empty")]
    NotAnObject,
    #[error("{0} is neither an object nor a list that is not empty")]
    Member(String),
    #[error("a rule is unknown, or its operand is not of its type")]
    Rule,
    #[error("there are more than {MAX_FILTERS} filters")]
    TooMany,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn matches(pattern: &Value, record: &Value) -> bool {
        Filters::parse([pattern.to_string().as_str()]).unwrap().matches(record)
    }

    #[test]
    fn rules() {
        for (rule, value, expected) in [
            (json!("a"), json!("a"), true),
            (json!("a"), json!("b"), false),
            (json!("1"), json!(1), false),
            (json!(1), json!(1.0), true),
            (json!(null), json!(null), true),
            (json!(""), json!(""), true),
            (json!(true), json!(true), true),
            (json!("a"), json!(["b", "a"]), true),
            (json!("a"), json!({"a": "a"}), false),
            (json!({"prefix": "ab"}), json!("abc"), true),
            (json!({"prefix": "ab"}), json!("cab"), false),
            (json!({"suffix": "bc"}), json!("abc"), true),
            (json!({"equals-ignore-case": "ABC"}), json!("aBc"), true),
            (json!({"anything-but": "a"}), json!("b"), true),
            (json!({"anything-but": ["a", "b"]}), json!("b"), false),
            (json!({"anything-but": {"prefix": "a"}}), json!("b"), true),
            (json!({"anything-but": {"prefix": "a"}}), json!("ab"), false),
            (json!({"exists": true}), json!("x"), true),
            (json!({"exists": true}), json!({"x": 1}), false),
            (json!({"exists": false}), json!("x"), false),
            (json!({"numeric": [">", 1, "<=", 3]}), json!(3), true),
            (json!({"numeric": [">", 1, "<=", 3]}), json!(1), false),
            (json!({"numeric": ["=", 3]}), json!(3.0), true),
            // The N of a stream record is a string.
            (json!({"numeric": ["=", 3]}), json!("3"), false),
        ] {
            assert_eq!(
                matches(&json!({"f": [rule]}), &json!({"f": value})),
                expected,
                "{rule} {value}"
            );
        }
    }

    #[test]
    fn members_are_joined_by_and_rules_by_or() {
        let keys = json!({"dynamodb": {"Keys": {"SK": {"S": ["v0"]}}, "NewImage": {"SK": {"S": ["v0"]}}}});
        let insert =
            json!({"dynamodb": {"Keys": {"SK": {"S": "v0"}}, "NewImage": {"SK": {"S": "v0"}, "A": {"N": "1"}}}});
        let remove = json!({"eventName": "REMOVE", "dynamodb": {"Keys": {"SK": {"S": "v0"}}}});
        assert!(matches(&keys, &insert));
        assert!(!matches(&keys, &remove));
        assert!(matches(&json!({"a": ["x", {"prefix": "y"}]}), &json!({"a": "yes"})));
        assert!(matches(&json!({"a": [{"exists": false}]}), &json!({"b": 1})));
        assert!(matches(&json!({"a": {"b": [{"exists": false}]}}), &json!({})));
        let or = json!({"$or": [{"a": [1]}, {"b": [2]}], "c": [3]});
        assert!(matches(&or, &json!({"b": 2, "c": 3})));
        assert!(!matches(&or, &json!({"b": 1, "c": 3})));
        assert!(!matches(&or, &json!({"a": 1})));
    }

    #[test]
    fn several_filters_are_joined_by_or() {
        let filters = Filters::parse([r#"{"a":[1]}"#, r#"{"b":[1]}"#]).unwrap();
        assert!(filters.matches(&json!({"b": 1})));
        assert!(!filters.matches(&json!({"c": 1})));
        assert!(Filters::default().matches(&json!({})));
    }

    #[test]
    fn invalid_patterns_are_rejected() {
        for pattern in [
            "",
            "{",
            "[]",
            "{}",
            "7",
            r#"{"a":1}"#,
            r#"{"a":[]}"#,
            r#"{"a":{}}"#,
            r#"{"a":[[1]]}"#,
            r#"{"a":[{"like":"x"}]}"#,
            r#"{"a":[{"prefix":1}]}"#,
            r#"{"a":[{"prefix":"x","suffix":"y"}]}"#,
            r#"{"a":[{"numeric":["~",1]}]}"#,
            r#"{"a":[{"numeric":[]}]}"#,
            r#"{"a":[{"numeric":["<"]}]}"#,
        ] {
            assert!(Filters::parse([pattern]).is_err(), "{pattern}");
        }
        assert_eq!(Filters::parse([r#"{"a":[1]}"#; 6]).unwrap_err(), InvalidFilter::TooMany);
    }

    proptest! {
        #[test]
        fn no_pattern_panics(pattern in "[\\[\\]{}\",:a-z0-9$ ]{0,40}") {
            if let Ok(filters) = Filters::parse([pattern.as_str()]) {
                let _ = filters.matches(&json!({"a": {"b": [1, "x", null]}}));
            }
        }
    }
}
