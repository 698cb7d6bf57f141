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
    if !names.contains(SECRET) {
        assert!(
            !line.contains(SECRET) && !debug.contains(SECRET),
            "an error message contains a value: {line}"
        );
    }
}

/// Returns the names of all members in a JSON value, concatenated.
pub(crate) fn names(json: &Value) -> String {
    let mut found = String::new();
    let mut open = vec![json];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(values) => open.extend(values),
            Value::Object(members) => {
                for (name, value) in members {
                    found.push_str(name);
                    open.push(value);
                }
            }
            _ => {}
        }
    }
    found
}
