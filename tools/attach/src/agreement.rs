//! Comparison of an item of an attached table with its history.

use std::collections::BTreeSet;

use shared::{
    domain::{
        Item,
        attached::{
            AttachedTable,
            decision::{Tail, is_same},
            item::KnownState,
        },
        entity::EntityId,
    },
    dynamodb::{Store, client::error::ServiceError},
};

/// Returns `true` if an item, `None` if it was deleted, can be in a state of history, except for ignored attributes.
pub fn agrees(state: &KnownState, item: Option<&Item>, ignored: &BTreeSet<String>) -> bool {
    match (state, item) {
        (KnownState::Item(state), Some(item)) => is_same(state, item, ignored),
        (KnownState::Unknown, Some(_)) | (KnownState::Deleted, None) => true,
        _ => false,
    }
}

/// Compares the state of an item, `None` if it was deleted, with its newest versions, except for ignored attributes. `None` if there is no
/// version.
pub fn compare(table: &AttachedTable, item: Option<&Item>, tail: &Tail) -> Option<bool> {
    Some(agrees(&tail.last()?.state, item, table.ignored()))
}

/// Reads the newest versions up to the last one that is not late.
pub async fn tail_in_order(store: &Store, entity: &EntityId, consistent: bool) -> Result<Tail, ServiceError> {
    let mut tail = Tail::default();
    loop {
        let known = tail.versions.len();
        store.extend_tail(entity, &mut tail, consistent).await?;
        if tail.is_complete || tail.last().is_some() || tail.versions.len() == known {
            return Ok(tail);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use shared::domain::{
        attached::{change::Place, item::Recorded},
        version::Version,
    };

    use super::*;

    /// An item with this state; a state of two letters has the second one in an ignored attribute, and other forms of equal values.
    fn item(state: &str) -> Item {
        let mut item =
            json!({"id": {"S": "a"}, "state": {"S": &state[..1]}, "n": {"N": "1.0"}, "set": {"SS": ["x", "y"]}});
        if state.len() > 1 {
            item["seen"] = json!({"S": &state[1..]});
            (item["n"], item["set"]) = (json!({"N": "1"}), json!({"SS": ["y", "x"]}));
        }
        serde_json::from_value(item).unwrap()
    }

    /// The versions 1, 2, … in this order, each with its record, its state, `-` if it was deleted and `*` if the state is not known, and `true` if it
    /// is late.
    fn tail(versions: &[(&str, &str, bool)]) -> Tail {
        let version = |(number, (record, state, is_late)): (u64, &(&str, &str, bool))| Recorded {
            version: Version::new(number).unwrap(),
            place: Place::parse("2026-01-01T00:00:00.000", record),
            is_late: *is_late,
            recorded_at: None,
            is_backfilled: false,
            state: match *state {
                "-" => KnownState::Deleted,
                "*" => KnownState::Unknown,
                state => KnownState::Item(item(state)),
            },
        };
        let mut versions: Vec<_> = (1..).zip(versions).map(version).collect();
        versions.reverse();
        Tail {
            versions,
            ..Tail::default()
        }
    }

    #[test]
    fn an_item_is_compared_with_the_last_version_in_order() {
        let definition = json!({
            "TableName": "Orders", "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}], "IgnoreAttributes": ["seen"],
            "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        });
        let table = crate::parse(&definition.to_string()).unwrap();
        for (versions, state, expected) in [
            (&[][..], "a", None),
            (&[("7", "a", false)], "a", Some(true)),
            // Ignored attributes, the form of numbers and the order of sets do not count.
            (&[("7", "a", false)], "ab", Some(true)),
            (&[("7", "a", false)], "b", Some(false)),
            (&[("7", "a", false)], "-", Some(false)),
            (&[("7", "a", false), ("8", "-", false)], "-", Some(true)),
            (&[("7", "a", false), ("8", "-", false)], "a", Some(false)),
            // Nothing shows that another state is not the omitted one.
            (&[("7", "*", false)], "a", Some(true)),
            (&[("7", "*", false)], "-", Some(false)),
            // A late version is older than the one before it.
            (&[("7", "a", false), ("6", "b", true)], "a", Some(true)),
            (&[("7", "a", false), ("6", "b", true)], "b", Some(false)),
            (&[("6", "b", true)], "b", None),
        ] {
            let current = (state != "-").then(|| item(state));
            let found = compare(&table, current.as_ref(), &tail(versions));
            assert_eq!(found, expected, "{versions:?} {state}");
        }
    }
}
