//! Marks of a version item: `TTL`, which pruning sets, `Pinned`, `Erased` with the [erased values](super::erased), and the marks of the
//! [time index](super::time_index). The version itself does not contain them.

use std::time::Duration;

use super::{AttributeValue, Item, attributes::number, names, number::Decimal, time_index};

/// Names of the marks.
pub const MARKS: [&str; 5] = [
    names::TTL,
    names::PINNED,
    names::ERASED,
    time_index::PARTITION,
    time_index::INSERTED_AT,
];

/// Returns `true` if the item has a `TTL`.
pub fn is_marked(item: &Item) -> bool {
    item.contains_key(names::TTL)
}

/// Returns `true` if pruning keeps the item.
pub fn is_pinned(item: &Item) -> bool {
    item.get(names::PINNED) == Some(&AttributeValue::Bool(true))
}

/// Returns `true` if the item's `TTL` has passed. `DynamoDB` deletes it within a few days, see
/// [TTL](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/TTL.html); until then it is treated as deleted.
/// Like `DynamoDB`, it ignores a `TTL` that is not a number.
pub fn is_expired(item: &Item, now: Duration) -> bool {
    let now = Decimal::parse(&now.as_secs().to_string());
    number(item, names::TTL)
        .zip(now.ok())
        .is_some_and(|(ttl, now)| ttl <= now)
}

/// Returns the item without its marks.
#[must_use]
pub fn unmarked(item: &Item) -> Item {
    let mut item = item.clone();
    for name in MARKS {
        item.remove(name);
    }
    item
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_item_is_expired_from_the_second_of_its_ttl() {
        let expired = |ttl: Value| {
            let item = serde_json::from_value(json!({"A": {"N": "1"}, "TTL": ttl})).unwrap();
            is_expired(&item, Duration::from_millis(100_999))
        };
        assert!(expired(json!({"N": "100"})));
        assert!(expired(json!({"N": "0"})) && expired(json!({"N": "-5"})));
        assert!(expired(json!({"N": "99.5"})) && expired(json!({"N": "-1e100"})));
        assert!(!expired(json!({"N": "101"})) && !expired(json!({"N": "100.5"})));
        for no_time in [
            json!({"S": "100"}),
            json!({"N": "x"}),
            json!({"N": "1e30"}),
            json!({"NULL": true}),
        ] {
            assert!(!expired(no_time.clone()), "{no_time}");
        }
        let item = serde_json::from_value(json!({"A": {"N": "1"}})).unwrap();
        assert!(!is_expired(&item, Duration::MAX));
    }
}
