//! The event filter of the event source mapping.

use local::mapping::filter::Filters;
use serde_json::json;
use shared::json;

use crate::errors;

/// Parses the input as a pattern, a line feed and a record. Equivalent patterns must have the same result.
pub fn filter(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (pattern, record) = text.split_once('\n').unwrap_or((text, "{}"));
    let filters = match Filters::parse([pattern]) {
        Ok(filters) => filters,
        Err(error) => return errors::check(&error, "secret"),
    };
    let Ok(record) = json::parse(record) else {
        return;
    };
    let matches = filters.matches(&record);
    let Ok(json) = json::parse(pattern) else {
        panic!("a pattern that is not JSON")
    };
    let with = |patterns: &[String]| {
        let filters = Filters::parse(patterns.iter().map(String::as_str)).ok()?;
        Some(filters.matches(&record))
    };
    assert_eq!(
        with(&[json.to_string()]),
        Some(matches),
        "the same pattern in another notation has a different result"
    );
    // `$or` adds a level, which can exceed the nesting limit.
    let either = with(&[json!({"$or": [json, json]}).to_string()]);
    assert!(
        either.is_none_or(|either| either == matches),
        "a pattern or the same pattern has a different result"
    );
    let twice = [pattern.to_owned(), pattern.to_owned()];
    assert_eq!(with(&twice), Some(matches), "two equal patterns differ from one");
    let never = r#"{"a":[{"numeric":["<",0,">",0]}]}"#.to_owned();
    assert_eq!(
        with(&[never, pattern.to_owned()]),
        Some(matches),
        "a pattern that never matches changes the result"
    );
    assert!(
        Filters::default().matches(&record),
        "a record is rejected without a pattern"
    );
}
