//! The item collections of the table, and the completeness of their histories.

use std::{collections::BTreeMap, time::Duration};

use operations::audit::{self, collection::Finding};
use shared::domain::{
    Item,
    entity::is_reserved,
    keys::{LATEST_KEY, VersionDigits, partition_key_of, sort_key_of},
    quarantine,
    version::Version,
};

/// Maximum number of missing versions that are named. `Latest` can be any number.
const MAX_NAMED: usize = 20;

/// All items of one partition key, with their sort keys, in their order.
pub type Collection = Vec<(String, Item)>;

/// All item collections of a table, by partition key.
pub type Collections = BTreeMap<String, Collection>;

pub fn collect(items: Vec<Item>, digits: VersionDigits) -> Collections {
    let mut collections = Collections::new();
    for item in items {
        let [pk, sk] = [partition_key_of, sort_key_of].map(|key| key(&item).unwrap_or_default().to_owned());
        collections.entry(pk).or_default().push((sk, item));
    }
    // The latest item, then the versions by number, then other items by sort key.
    let rank = |sk: &str| (sk != LATEST_KEY, digits.version_of(sk).map_or(u64::MAX, Version::get));
    for collection in collections.values_mut() {
        collection.sort_by(|(a, _), (b, _)| rank(a).cmp(&rank(b)).then_with(|| a.cmp(b)));
    }
    collections
}

/// Returns the number of records in quarantine.
pub fn quarantined(items: &[(String, Item)]) -> usize {
    items.iter().filter(|(sk, _)| quarantine::is_first(sk)).count()
}

/// Returns the missing or differing versions of the entity. Returns none if there is no latest item.
fn missing_of(items: &[(String, Item)], digits: VersionDigits) -> Vec<String> {
    let mut audited = audit::collection::Collection::new(digits, false);
    for (_, item) in items {
        audited.add(item.clone());
    }
    // The time only tells which latest items are ahead of it.
    let found = audited.check(Duration::ZERO);
    if let Some(Err(error)) = audited.latest_version() {
        return vec![format!("{LATEST_KEY} makes no version: {error}")];
    }
    let versions = audit::collection::missing(&found);
    let mut missing = digits.version_keys(versions.numbers().take(MAX_NAMED));
    if let Some(more @ 1..) = versions.len().checked_sub(MAX_NAMED as u64) {
        missing.push(format!("{more} more"));
    }
    let differs = found.iter().filter_map(|finding| match finding {
        Finding::LatestDiffers { version } => Some(digits.version_key(*version)),
        _ => None,
    });
    missing.extend(differs.map(|key| format!("{key} differs from {LATEST_KEY}")));
    missing
}

/// Returns the missing or differing versions of a table, by partition key.
pub fn missing(collections: &Collections, digits: VersionDigits) -> BTreeMap<String, Vec<String>> {
    let entities = collections.iter().filter(|(pk, _)| !is_reserved(pk));
    let missing = entities.map(|(pk, items)| (pk.clone(), missing_of(items, digits)));
    missing.filter(|(_, missing)| !missing.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn item(pk: &str, sk: &str, state: &str) -> Value {
        json!({"PK": {"S": pk}, "SK": {"S": sk}, "State": {"S": state}})
    }

    fn latest(pk: &str, number: &str, state: &str) -> Value {
        let mut latest = item(pk, "v0", state);
        latest["Latest"] = json!({"N": number});
        latest
    }

    #[test]
    fn gaps_and_differing_latest_items_are_reported() {
        let v1_of = |pk| item(pk, "v1", "y");
        let v2 = |state| item("a", "v2", state);
        let named: Vec<_> = (1..=20).map(|number| format!("v{number}")).collect();
        let many = format!("{}, 9223372036854775787 more", named.join(", "));
        for (items, expected) in [
            (vec![], ""),
            (
                vec![latest("a", "2", "x"), v1_of("a"), v2("x"), item("a", "Metadata", "")],
                "",
            ),
            (vec![v1_of("a"), item("b", "Metadata", "")], ""),
            (
                vec![latest("a", "4", "x"), v2("y"), latest("b", "1", "y"), v1_of("b")],
                "v1, v3, v4",
            ),
            (vec![latest("a", "1", "x"), v1_of("a")], "v1 differs from v0"),
            (vec![latest("a", "9223372036854775807", "x")], &many),
            (vec![item("a", "v0", "x")], "v0 makes no version: Latest is missing"),
        ] {
            let items: Vec<Item> = items
                .into_iter()
                .map(|item| serde_json::from_value(item).unwrap())
                .collect();
            let mut found = missing(&collect(items, VersionDigits::default()), VersionDigits::default());
            assert_eq!(found.remove("a").unwrap_or_default().join(", "), expected);
            assert!(found.is_empty(), "{found:?}");
        }
    }

    #[test]
    fn versions_are_ordered_by_number() {
        let items = ["v10", "v9", "Metadata", "v0", "v1"].map(|sk| serde_json::from_value(item("a", sk, "")).unwrap());
        let collections = collect(items.to_vec(), VersionDigits::default());
        let order: Vec<_> = collections["a"].iter().map(|(sk, _)| sk.as_str()).collect();
        assert_eq!(order, ["v0", "v1", "v9", "v10", "Metadata"]);
    }
}
