//! Checks of error messages.

use std::error::Error;

use serde_json::Value;
use shared::logging::chain;

/// Text that no error message may contain. The corpus contains it in values only.
const SECRET: &str = "secret";

/// Checks that an error has a message, and that it contains no value. It may contain the member names in `names`.
pub(crate) fn check(error: &dyn Error, names: &str) {
    let (line, debug) = (chain(error), format!("{error:?}"));
    assert!(!line.is_empty(), "an error without a message");
    let has_value = !names.contains(SECRET) && (line.contains(SECRET) || debug.contains(SECRET));
    assert!(!has_value, "an error message contains a value: {line}");
}

/// Returns the names of all members in a JSON value, concatenated.
pub(crate) fn names(json: &Value) -> String {
    match json {
        Value::Array(values) => values.iter().map(names).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| name.clone() + &names(value))
            .collect(),
        _ => String::new(),
    }
}
