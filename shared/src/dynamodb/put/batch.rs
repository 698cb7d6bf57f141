//! Batches: how many items fit into one request.

use super::insert_versions::MAX_STATEMENTS;
use crate::domain::{AttributeValue, Item};

/// Maximum text of a request in bytes. DynamoDB accepts 16 MB, escaping can multiply the length by six, and by default an
/// attempt times out after 2 s.
pub(super) const MAX_TEXT: usize = 1 << 20;

/// Returns the ends of consecutive batches of items with these texts, each with at most [`MAX_STATEMENTS`] items and no more
/// than [`MAX_TEXT`], unless it is one item.
pub(super) fn ends(texts: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let (mut ends, mut start, mut text, mut end) = (Vec::new(), 0, 0, 0);
    for more in texts {
        if end > start && (end - start == MAX_STATEMENTS || text + more > MAX_TEXT) {
            ends.push(end);
            (start, text) = (end, 0);
        }
        text += more;
        end += 1;
    }
    ends.extend((end > start).then_some(end));
    ends
}

/// Estimates the length of an item in a request, at least a sixth of the actual length.
pub(super) fn text_of_item(item: &Item) -> usize {
    item.iter().map(text_of_member).sum()
}

fn text_of_member((name, value): (&String, &AttributeValue)) -> usize {
    name.len() + text_of_value(value)
}

fn text_of_value(value: &AttributeValue) -> usize {
    /// Length of quotes, braces, commas and the type.
    const AROUND: usize = 16;
    use AttributeValue::{B, Bool, Bs, L, M, N, Ns, Null, S, Ss};
    AROUND
        + match value {
            S(text) | N(text) => text.len(),
            B(bytes) => bytes.len(),
            Bool(_) | Null(_) => 0,
            Ss(values) | Ns(values) => values.iter().map(|text| text.len() + AROUND).sum(),
            Bs(values) => values.iter().map(|bytes| bytes.len() + AROUND).sum(),
            L(values) => values.iter().map(text_of_value).sum(),
            M(members) => members.iter().map(text_of_member).sum(),
        }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_actual_length_is_at_most_six_times_the_estimate() {
        let numbers: Vec<_> = (1..500).map(|number| number.to_string()).collect();
        for value in [
            json!({"S": "\u{1}".repeat(1000)}),
            json!({"S": "\"".repeat(1000)}),
            json!({"S": ""}),
            json!({"N": format!("0.{}1", "0".repeat(129))}),
            json!({"NS": numbers}),
            json!({"SS": ["", "\u{1}"]}),
            json!({"B": "AAAAAAAAAAAA"}),
            json!({"BS": ["AA==", "AQ=="]}),
            json!({"L": [{"NULL": true}, {"BOOL": false}, {"M": {"\u{1}": {"L": []}}}]}),
            json!({"M": {}}),
        ] {
            let read: AttributeValue = serde_json::from_value(value.clone()).unwrap();
            let sent = value.to_string().len();
            assert!(sent <= 6 * text_of_value(&read), "{sent}: {value}");
        }
    }
}
