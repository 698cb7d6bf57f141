//! `FilterCriteria`: selects the records that are delivered to the function.
//! See <https://docs.aws.amazon.com/lambda/latest/dg/invocation-eventfiltering.html>.

use attach::event_pattern::{Invalid, Pattern};
use serde_json::{Value, json};
use shared::json;
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

    /// Returns `true` if the record is delivered. The payload of a Kinesis record is matched under `data`, if it is JSON.
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
    data.and_then(|data| json::parse(&data).ok()).unwrap_or_default()
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidFilter {
    #[error(transparent)]
    Pattern(#[from] Invalid),
    #[error("there are more than {MAX_FILTERS} filters")]
    TooMany,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_members_and_filters() {
        // Rules of a member, joined by OR, and a value.
        for (rules, value, expected) in [
            (json!(["a"]), json!("a"), true),
            (json!(["a"]), json!("b"), false),
            (json!(["1"]), json!(1), false),
            (json!([1]), json!(1.0), true),
            (json!([null]), json!(null), true),
            (json!([""]), json!(""), true),
            (json!([true]), json!(true), true),
            (json!(["a"]), json!(["b", "a"]), true),
            (json!(["a"]), json!({"a": "a"}), false),
            (json!([{"prefix": "ab"}]), json!("abc"), true),
            (json!([{"prefix": "ab"}]), json!("cab"), false),
            (json!([{"suffix": "bc"}]), json!("abc"), true),
            (json!([{"equals-ignore-case": "ABC"}]), json!("aBc"), true),
            (json!([{"anything-but": "a"}]), json!("b"), true),
            (json!([{"anything-but": ["a", "b"]}]), json!("b"), false),
            (json!([{"anything-but": {"prefix": "a"}}]), json!("b"), true),
            (json!([{"anything-but": {"prefix": "a"}}]), json!("ab"), false),
            (json!([{"exists": true}]), json!("x"), true),
            (json!([{"exists": true}]), json!({"x": 1}), false),
            (json!([{"exists": false}]), json!("x"), false),
            (json!([{"numeric": [">", 1, "<=", 3]}]), json!(3), true),
            (json!([{"numeric": [">", 1, "<=", 3]}]), json!(1), false),
            (json!([{"numeric": ["=", 3]}]), json!(3.0), true),
            // The N of a stream record is a string.
            (json!([{"numeric": ["=", 3]}]), json!("3"), false),
            (json!(["x", {"prefix": "y"}]), json!("yes"), true),
        ] {
            let filters = Filters::parse([json!({"f": rules}).to_string().as_str()]).unwrap();
            assert_eq!(filters.matches(&json!({"f": value})), expected, "{rules} {value}");
        }
        // Members, joined by AND, and records of Kinesis. The data are `{"eventName":"INSERT"}`, and no JSON.
        for (case, expected) in testkit::cases::cases(
            r#"
            [{"Keys": {"SK": {"S": ["v0"]}}, "Image": {"SK": {"S": ["v0"]}}}, {"Keys": {"SK": {"S": "v0"}}, "Image": {"SK": {"S": "v0"}, "A": {}}}] -> true
            [{"Keys": {"SK": {"S": ["v0"]}}, "Image": {"SK": {"S": ["v0"]}}}, {"Keys": {"SK": {"S": "v0"}}, "Name": "REMOVE"}] -> false
            [{"a": [{"exists": false}]}, {"b": 1}] -> true
            [{"a": {"b": [{"exists": false}]}}, {}] -> true
            [{"$or": [{"a": [1]}, {"b": [2]}], "c": [3]}, {"b": 2, "c": 3}] -> true
            [{"$or": [{"a": [1]}, {"b": [2]}], "c": [3]}, {"b": 1, "c": 3}] -> false
            [{"$or": [{"a": [1]}, {"b": [2]}], "c": [3]}, {"a": 1}] -> false
            [{"data": {"eventName": ["INSERT"]}}, {"kinesis": {"data": "eyJldmVudE5hbWUiOiJJTlNFUlQifQ=="}}] -> true
            [{"data": {"eventName": ["INSERT"]}}, {"kinesis": {"data": "bm8gSlNPTg=="}}] -> false"#,
        ) {
            let filters = Filters::parse([case[0].to_string().as_str()]).unwrap();
            assert_eq!(filters.matches(&case[1]).to_string(), expected, "{case}");
        }
        // Filters, joined by OR.
        let filters = Filters::parse([r#"{"a":[1]}"#, r#"{"b":[1]}"#]).unwrap();
        assert!(filters.matches(&json!({"b": 1})) && !filters.matches(&json!({"c": 1})));
        assert!(Filters::default().matches(&json!({})));
    }

    #[test]
    fn invalid_patterns_are_rejected() {
        let rules = r#"1 [] {} [[1]] [{"like":"x"}] [{"prefix":1}] [{"prefix":"x","suffix":"y"}] [{"numeric":["~",1]}]
            [{"numeric":[]}] [{"numeric":["<"]}]"#;
        let patterns = rules.split_whitespace().map(|rule| format!("{{\"a\":{rule}}}"));
        for pattern in patterns.chain(["", "{", "[]", "{}", "7"].map(str::to_owned)) {
            assert!(Filters::parse([pattern.as_str()]).is_err(), "{pattern}");
        }
        assert_eq!(Filters::parse([r#"{"a":[1]}"#; 6]).unwrap_err(), InvalidFilter::TooMany);
    }
}
