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
    let (again, never) = (json.to_string(), r#"{"a":[{"numeric":["<",0,">",0]}]}"#);
    for patterns in [&[again.as_str()][..], &[pattern, pattern], &[never, pattern]] {
        let same = Filters::parse(patterns.iter().copied()).map(|filters| filters.matches(&record));
        assert!(
            same.is_ok_and(|same| same == matches),
            "equal patterns have different results"
        );
    }
    // `$or` adds a level, which can exceed the nesting limit.
    let either = json!({"$or": [json, json]}).to_string();
    let either = Filters::parse([either.as_str()]).map(|filters| filters.matches(&record));
    assert!(either.is_err() || either.is_ok_and(|either| either == matches));
    assert!(
        Filters::default().matches(&record),
        "a record is rejected without a pattern"
    );
}
