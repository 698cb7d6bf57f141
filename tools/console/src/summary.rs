//! What a version changed, in one line: the text of `vzero history --changes`.

use shared::domain::{AttributeValue, Item, names, plain};

use crate::value;

/// Maximum number of changes in a line.
const MAX_CHANGES: usize = 3;
/// Maximum number of characters of a line. The name of an attribute can have 64 KB.
const MAX_LINE: usize = 300;
/// Maximum number of characters of a value that is not a text.
const MAX_VALUE: usize = 40;
/// Times of the client. Each version has its own, so they are no changes.
const TIMES: [&str; 2] = [names::TIME, names::TIMESTAMP];

/// Returns the first changes, as in `Status: placed → paid, +Parcel: 3SABC123, -Note, +2 more`. The text is empty if there are
/// none.
pub(crate) fn line(old: Option<&Item>, new: &Item) -> String {
    let old = old.map(without_times);
    let line = item_diff::line::summary(old.as_ref(), &without_times(new), MAX_CHANGES);
    match line.char_indices().nth(MAX_LINE) {
        None => line,
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
    }
}

/// Returns a value in one line.
pub(crate) fn of_value(value: &AttributeValue) -> String {
    value::visible(&plain::attribute(value).to_string(), MAX_VALUE)
}

fn without_times(item: &Item) -> Item {
    let mut item = item.clone();
    for name in TIMES {
        item.remove(name);
    }
    item
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn item(json: Value) -> Item {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_line_names_old_and_new_values_without_times() {
        let old = item(json!({"Status": {"S": "placed"}, "Time": {"S": "2020-01-01"}, "Timestamp": {"N": "1"}}));
        let new = item(json!({"Status": {"S": "paid"}, "Time": {"S": "2020-01-02"}, "Timestamp": {"N": "2"}}));
        assert_eq!(line(Some(&old), &new), "Status: placed → paid");
        assert_eq!(line(None, &new), "+Status: paid");
        assert_eq!(line(Some(&new), &new), "");
        let many = item(json!({"A": {"N": "1"}, "B": {"N": "1"}, "C": {"N": "1"}, "D": {"N": "1"}, "E": {"N": "1"}}));
        assert_eq!(line(None, &many), "+A: 1, +B: 1, +C: 1, +2 more");
    }

    #[test]
    fn a_line_is_short() {
        let new = item(json!({"ü".repeat(30_000): {"S": "x".repeat(100_000)}}));
        assert_eq!(line(None, &new).chars().count(), MAX_LINE + 1);
    }
}
