//! The filter of the event source mapping.

use local::mapping::filter::Filters;
use serde_json::{Value, json};

/// A pattern, a line feed, a record. A pattern is refused by name, or it says of every record yes or no, however it is
/// written.
pub fn filter(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (pattern, record) = text.split_once('\n').unwrap_or((text, "{}"));
    let filters = match Filters::parse([pattern]) {
        Ok(filters) => filters,
        Err(error) => return crate::check_error(&error, "", "secret"),
    };
    let Ok(record) = serde_json::from_str::<Value>(record) else {
        return;
    };
    let matches = filters.matches(&record);
    let Ok(json) = serde_json::from_str::<Value>(pattern) else {
        panic!("a pattern that is no JSON")
    };
    let with = |patterns: &[String]| {
        let filters = Filters::parse(patterns.iter().map(String::as_str)).ok()?;
        Some(filters.matches(&record))
    };
    assert_eq!(
        with(&[json.to_string()]),
        Some(matches),
        "written in another way, it says something else"
    );
    // `$or` is a level more than the parser may go.
    let either = with(&[json!({"$or": [json, json]}).to_string()]);
    assert!(
        either.is_none_or(|either| either == matches),
        "this or the same is not the same"
    );
    let twice = [pattern.to_owned(), pattern.to_owned()];
    assert_eq!(with(&twice), Some(matches), "two of the same say something else");
    let never = r#"{"a":[{"numeric":["<",0,">",0]}]}"#.to_owned();
    assert_eq!(
        with(&[never, pattern.to_owned()]),
        Some(matches),
        "this or never is not this"
    );
    assert!(
        Filters::default().matches(&record),
        "without a filter, a record is held back"
    );
}
