//! Counter of an entity whose floor shows that it had versions, although neither a version nor the latest item has the number of
//! the floor or a higher one.
//!
//! The counter continues with the number after the floor, so that no version is created below the floor. The floor rises to the
//! same number, because the version at the old floor does not exist.

use shared::domain::{Item, names, version::Version, version_item::latest_of};

/// Number of a latest item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    /// There is no latest item. A tombstone is created, because the state is not known.
    NoLatestItem,
    /// The latest item has no `Latest`.
    Uncounted,
    /// The latest item has this number, below the floor.
    At(Version),
}

/// Returns the current number of such an entity's latest item and the next one, `None` if the latest item has an invalid `Latest`, or if there is no higher number.
pub fn recount(floor: Version, latest: Option<&Item>) -> Option<(Counter, Version)> {
    let from = match latest {
        None => Counter::NoLatestItem,
        Some(latest) if !latest.contains_key(names::LATEST) => Counter::Uncounted,
        Some(latest) => Counter::At(latest_of(latest).ok()?),
    };
    let to = floor.get().checked_add(1).and_then(Version::new)?;
    Some((from, to))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_counter_continues_above_the_floor() {
        let version = |number| Version::new(number).unwrap();
        let recounted = |floor: u64, latest: Option<Value>| {
            let latest: Option<Item> = latest.map(|latest| serde_json::from_value(latest).unwrap());
            recount(version(floor), latest.as_ref()).map(|(from, to)| (from, to.get()))
        };
        assert_eq!(recounted(9, None), Some((Counter::NoLatestItem, 10)));
        assert_eq!(
            recounted(9, Some(json!({"A": {"S": "x"}}))),
            Some((Counter::Uncounted, 10))
        );
        let counted = |number: &str| json!({"Latest": {"N": number}});
        assert_eq!(recounted(9, Some(counted("2"))), Some((Counter::At(version(2)), 10)));
        assert_eq!(recounted(9, Some(counted("1.5"))), None);
        assert_eq!(recounted(Version::MAX, None), None);
    }
}
