//! Comparison of an item of an attached table with its history.

use std::collections::BTreeSet;

use shared::{
    domain::{
        Item,
        attached::{
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

    use super::*;

    #[test]
    fn an_item_agrees_with_a_state_that_is_equal_except_for_ignored_attributes() {
        let item = |item| serde_json::from_value::<Item>(item).unwrap();
        let stored = item(json!({"id": {"S": "a"}, "n": {"N": "1.0"}, "set": {"SS": ["x", "y"]}, "seen": {"S": "1"}}));
        // The form of numbers and the order of sets do not count.
        let same = item(json!({"id": {"S": "a"}, "n": {"N": "1"}, "set": {"SS": ["y", "x"]}, "seen": {"S": "2"}}));
        let other = item(json!({"id": {"S": "a"}, "n": {"N": "2"}, "set": {"SS": ["x", "y"]}, "seen": {"S": "1"}}));
        let state = KnownState::Item(stored);
        for (state, current, expected) in [
            (&state, Some(&same), true),
            (&state, Some(&other), false),
            (&state, None, false),
            (&KnownState::Deleted, None, true),
            (&KnownState::Deleted, Some(&same), false),
            // Nothing shows that another state is not the omitted one.
            (&KnownState::Unknown, Some(&same), true),
            (&KnownState::Unknown, None, false),
        ] {
            assert_eq!(
                agrees(state, current, &["seen".to_owned()].into()),
                expected,
                "{expected} {current:?}"
            );
        }
    }
}
