//! Comparison of an item of an attached table with its history.

use std::collections::BTreeSet;

use shared::{
    domain::{
        Item,
        attached::{
            decision::{Tail, has_state},
            item::{KnownState, Recorded},
        },
        entity::EntityId,
    },
    dynamodb::{Store, client::error::ServiceError},
};

/// Returns `true` if an item, `None` if it was deleted, can be in the state of a version, see [`has_state`].
pub fn agrees(version: &Recorded, item: Option<&Item>, ignored: &BTreeSet<String>) -> bool {
    match item {
        Some(item) => has_state(version, item, ignored),
        None => version.state == KnownState::Deleted,
    }
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
    use shared::domain::version::Version;

    use super::*;

    #[test]
    fn an_item_agrees_with_a_state_that_is_equal_except_for_ignored_attributes() {
        let item = |item| serde_json::from_value::<Item>(item).unwrap();
        let stored = item(json!({"id": {"S": "a"}, "n": {"N": "1.0"}, "set": {"SS": ["x", "y"]}, "seen": {"S": "1"}}));
        // The form of numbers and the order of sets do not count.
        let same = item(json!({"id": {"S": "a"}, "n": {"N": "1"}, "set": {"SS": ["y", "x"]}, "seen": {"S": "2"}}));
        let other = item(json!({"id": {"S": "a"}, "n": {"N": "2"}, "set": {"SS": ["x", "y"]}, "seen": {"S": "1"}}));
        let version = |outer: serde_json::Value| {
            Recorded::of_parts(Version::FIRST, &serde_json::from_value(outer).unwrap(), stored.clone())
        };
        let (state, deleted) = (version(json!({})), version(json!({"Deleted": {"BOOL": true}})));
        let unknown = version(json!({"Omitted": {"M": {}}}));
        let entry = json!({"M": {"At": {"S": "2026-11-26T13:20:52.000000000Z"}, "Reason": {"S": "asked"}}});
        let erased = version(json!({"Erased": {"M": {"[\"Attribute\",\"n\"]": entry}}}));
        for (state, current, expected) in [
            (&state, Some(&same), true),
            (&state, Some(&other), false),
            (&state, None, false),
            (&deleted, None, true),
            (&deleted, Some(&same), false),
            // Nothing shows that another state is not the omitted one.
            (&unknown, Some(&same), true),
            (&unknown, None, false),
            // An erased value equals any value.
            (&erased, Some(&other), true),
            (&erased, None, false),
        ] {
            assert_eq!(
                agrees(state, current, &["seen".to_owned()].into()),
                expected,
                "{expected} {current:?}"
            );
        }
    }
}
