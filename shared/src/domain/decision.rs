//! Decides an update against the stored latest item.
//!
//! The condition expressions of the requests express the same rules. This module explains a failed condition from the item
//! that DynamoDB returns with it, and plans a transaction from an item that was read.

use super::{
    AttributeValue, Item,
    attributes::same_item,
    keys::VersionDigits,
    names,
    number::Decimal,
    recent_requests,
    request_id::RequestHash,
    update::{Change, ExpectedVersion, Update},
    version::Version,
    version_item::{InvalidImage, latest_of},
};

/// Decision on an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It creates the next version.
    Apply,
    /// It was applied before.
    Duplicate {
        /// Version that it created.
        version: Version,
    },
    /// It expects another latest version.
    Conflict {
        /// Expected version, 0 for none.
        expected: u64,
        /// Stored version, 0 for none.
        latest: u64,
    },
    /// It is older than the latest item.
    Stale {
        /// Latest version.
        version: Version,
    },
}

/// Decides an update against the stored latest item. A duplicate is detected first: after a previous delivery of the same
/// request, the other rules can fail too.
///
/// # Errors
///
/// Returns [`InvalidImage`] if the decision needs the latest version and the latest item has no valid one.
pub fn decide(update: &Update, stored: Option<&Item>) -> Result<Decision, InvalidImage> {
    let Some(stored) = stored else {
        return Ok(match update.expected {
            Some(ExpectedVersion::Is(version)) => Decision::Conflict {
                expected: version.get(),
                latest: 0,
            },
            _ => Decision::Apply,
        });
    };
    if let Some(version) = recent_requests::version_of(stored, &RequestHash::of(&update.request_id)) {
        return Ok(Decision::Duplicate { version });
    }
    // A latest item without a map has only the last request.
    let request_id = AttributeValue::S(update.request_id.as_str().to_owned());
    if stored.get(names::REQUEST_ID) == Some(&request_id) {
        let version = latest_of(stored)?;
        return Ok(Decision::Duplicate { version });
    }
    if let Some(expected) = update.expected {
        let latest = latest_of(stored).ok();
        if latest.map(ExpectedVersion::Is) != Some(expected) {
            return Ok(Decision::Conflict {
                expected: expected.number(),
                latest: latest.map_or(0, Version::get),
            });
        }
    }
    if is_older(update, stored) {
        let version = latest_of(stored)?;
        return Ok(Decision::Stale { version });
    }
    Ok(Decision::Apply)
}

fn is_older(update: &Update, stored: &Item) -> bool {
    let (Some(timestamp), Some(AttributeValue::N(stored))) = (update.timestamp, stored.get(names::TIMESTAMP)) else {
        return false;
    };
    // A number too large for a time is later than any time.
    Decimal::parse(stored).is_ok_and(|stored| stored.to_i64().is_none_or(|stored| stored > timestamp.get()))
}

/// Returns the latest item after the update: the result of the `UpdateItem`, except for the recent requests.
///
/// # Errors
///
/// Returns [`InvalidImage`] if the latest item has an invalid version, or if there is no higher one.
pub fn apply(update: &Update, stored: Option<&Item>, digits: VersionDigits) -> Result<Item, InvalidImage> {
    let latest = match stored {
        Some(stored) if stored.contains_key(names::LATEST) => latest_of(stored)?.get(),
        _ => 0,
    };
    let next = latest.checked_add(1).ok_or(InvalidImage::LatestTooLarge)?;
    let mut item = stored
        .cloned()
        .unwrap_or_else(|| Item::from(std::collections::HashMap::<_, AttributeValue>::new()));
    let s = |text: &str| AttributeValue::S(text.to_owned());
    item.insert(names::PK.to_owned(), s(update.entity.as_str()));
    item.insert(names::SK.to_owned(), s(&digits.latest_key()));
    item.insert(names::REQUEST_ID.to_owned(), s(update.request_id.as_str()));
    item.insert(names::LATEST.to_owned(), AttributeValue::N(next.to_string()));
    if let Some(timestamp) = update.timestamp {
        item.insert(
            names::TIMESTAMP.to_owned(),
            AttributeValue::N(timestamp.get().to_string()),
        );
    }
    if update.deleted {
        item.insert(names::DELETED.to_owned(), AttributeValue::Bool(true));
    } else {
        item.remove(names::DELETED);
    }
    for (name, change) in &update.changes {
        match change {
            Change::Set(value) => item.insert(name.clone(), value.clone()),
            Change::Remove => item.remove(name),
        };
    }
    Ok(item)
}

/// Returns `true` if two latest items differ only in version and requests.
pub fn is_unchanged(before: &Item, after: &Item) -> bool {
    let bare = |item: &Item| {
        let mut item = item.clone();
        item.remove(names::LATEST);
        item.remove(names::REQUEST_ID);
        item.remove(names::RECENT_REQUESTS);
        item
    };
    same_item(&bare(before), &bare(after))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::{request_id::RequestId, update::Ordering};

    fn update(json: Value, ordering: Ordering) -> Update {
        Update::parse(json, "r-2", ordering).unwrap()
    }

    fn item(json: Value) -> Item {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn an_update_is_decided_by_the_stored_item() {
        let plain = json!({"ID": "E"});
        let expects = |version: u64| json!({"ID": "E", "ExpectedVersion": version});
        let at_5 = json!({"ID": "E", "Timestamp": 5});
        let stored = |request: &str, latest: &str| {
            Some(json!({"RequestId": {"S": request}, "Latest": {"N": latest}, "Timestamp": {"N": "7"}}))
        };
        let version = |number| Version::new(number).unwrap();
        let duplicate = |number| {
            Ok(Decision::Duplicate {
                version: version(number),
            })
        };
        let stale = |number| {
            Ok(Decision::Stale {
                version: version(number),
            })
        };
        let conflict = |expected, latest| Ok(Decision::Conflict { expected, latest });
        // The hash is that of "r-2".
        let with_recent = |version: &str| {
            let mut stored = stored("r-9", "9").unwrap();
            let hash = RequestHash::of(&RequestId::new("r-2").unwrap());
            stored["RecentRequests"] = json!({"M": {hash.as_str(): {"N": version}, "other": {"N": "9"}}});
            Some(stored)
        };
        let uncounted = || Some(json!({"State": {"S": "manual"}}));
        for (json, ordering, stored, expected) in [
            (plain.clone(), Ordering::Arrival, None, Ok(Decision::Apply)),
            (
                plain.clone(),
                Ordering::Arrival,
                stored("r-1", "4"),
                Ok(Decision::Apply),
            ),
            (plain.clone(), Ordering::Arrival, uncounted(), Ok(Decision::Apply)),
            (plain.clone(), Ordering::Arrival, stored("r-2", "4"), duplicate(4)),
            (plain.clone(), Ordering::Arrival, with_recent("2"), duplicate(2)),
            (expects(1), Ordering::Arrival, with_recent("2"), duplicate(2)),
            (at_5.clone(), Ordering::Time, with_recent("3"), duplicate(3)),
            // A previous delivery of the same request, although the latest version is no longer the expected one.
            (expects(1), Ordering::Arrival, stored("r-2", "2"), duplicate(2)),
            (expects(0), Ordering::Arrival, stored("r-2", "1"), duplicate(1)),
            (expects(0), Ordering::Arrival, None, Ok(Decision::Apply)),
            (expects(2), Ordering::Arrival, stored("r-1", "2"), Ok(Decision::Apply)),
            (expects(1), Ordering::Arrival, stored("r-1", "2"), conflict(1, 2)),
            (expects(1), Ordering::Arrival, None, conflict(1, 0)),
            (expects(0), Ordering::Arrival, stored("r-1", "3"), conflict(0, 3)),
            (expects(0), Ordering::Arrival, uncounted(), conflict(0, 0)),
            (at_5.clone(), Ordering::Time, stored("r-1", "3"), stale(3)),
            (at_5.clone(), Ordering::Time, stored("r-2", "3"), duplicate(3)),
            (
                at_5.clone(),
                Ordering::Time,
                Some(json!({"Timestamp": {"N": "5"}})),
                Ok(Decision::Apply),
            ),
            (
                plain,
                Ordering::Arrival,
                Some(json!({"RequestId": {"S": "r-2"}})),
                Err(InvalidImage::NoLatest),
            ),
        ] {
            let decided = decide(&update(json.clone(), ordering), stored.clone().map(item).as_ref());
            assert_eq!(decided, expected, "{json} {stored:?}");
        }
    }

    #[test]
    fn updates_that_change_nothing_are_detected() {
        let stored = item(json!({
            "PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": "3"}, "RequestId": {"S": "r-1"}, "A": {"N": "1.0"},
        }));
        for (json, unchanged) in [
            (json!({"ID": "E"}), true),
            (json!({"ID": "E", "A": 1, "B": null}), true),
            (json!({"ID": "E", "A": 2}), false),
            (json!({"ID": "E", "A": null}), false),
            (json!({"ID": "E", "Deleted": true}), false),
        ] {
            let after = apply(
                &update(json.clone(), Ordering::Arrival),
                Some(&stored),
                VersionDigits::default(),
            )
            .unwrap();
            assert_eq!(is_unchanged(&stored, &after), unchanged, "{json}");
            assert_eq!(after[names::LATEST], AttributeValue::N("4".to_owned()));
        }
    }
}
