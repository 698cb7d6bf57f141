//! What pruning and pinning add to a version item, and to nothing else of it: `TTL` and `Pinned`.

use std::time::Duration;

use super::{AttributeValue, Item, names, number::Decimal};

/// The attributes that are not of the version itself.
pub const MARKS: [&str; 2] = [names::TTL, names::PINNED];

/// Whether the item is marked for deletion.
pub fn is_marked(item: &Item) -> bool {
    item.contains_key(names::TTL)
}

/// Whether the item is kept whatever is pruned.
pub fn is_pinned(item: &Item) -> bool {
    item.get(names::PINNED) == Some(&AttributeValue::Bool(true))
}

/// Whether the time of the item is over. `DynamoDB` deletes it some time later, and until then it is as good as gone.
/// A `TTL` that is no number means nothing, as it does to `DynamoDB`.
pub fn is_expired(item: &Item, now: Duration) -> bool {
    let Some(AttributeValue::N(ttl)) = item.get(names::TTL) else {
        return false;
    };
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    (Decimal::parse(ttl).ok().and_then(|ttl| ttl.to_i64())).is_some_and(|ttl| ttl <= now)
}

/// The item without its marks.
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
    fn an_item_is_expired_from_the_second_that_its_ttl_names() {
        let expired = |ttl: Value| {
            let item = serde_json::from_value(json!({"A": {"N": "1"}, "TTL": ttl})).unwrap();
            is_expired(&item, Duration::from_millis(100_999))
        };
        assert!(expired(json!({"N": "100"})));
        assert!(expired(json!({"N": "0"})) && expired(json!({"N": "-5"})));
        assert!(!expired(json!({"N": "101"})));
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
