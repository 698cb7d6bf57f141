//! Decides an update against the stored latest item.
//!
//! The condition expressions of the requests express the same rules. This module explains a failed condition from the item
//! that DynamoDB returns with it, and plans a transaction from an item that was read.

use super::{
    AttributeValue, Item,
    attributes::{same_item, text},
    attribution::{self, Writer},
    keys::LATEST_KEY,
    marks::is_expired,
    names,
    number::Decimal,
    recent_requests,
    recorded_at::RecordedAt,
    request_id::RequestHash,
    stamp::Stamp,
    time::EpochMillis,
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
    /// Its request id belongs to a different update.
    Reused {
        /// Version that the other update created.
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
    /// The time of the latest item cannot be read, so it is not known whether the update is older.
    Unordered {
        /// Latest version.
        version: Version,
    },
}

/// Decides an update against the stored latest item. A duplicate is detected first: after a previous delivery of the same
/// request, the other rules can fail too. For them, a latest item that has expired is absent.
///
/// # Errors
///
/// Returns [`InvalidImage`] if the decision needs the latest version and the latest item has no valid one.
pub fn decide(update: &Update, stored: Option<&Item>, now: RecordedAt) -> Result<Decision, InvalidImage> {
    let without_latest = match update.expected {
        Some(ExpectedVersion::Is(version)) => Decision::Conflict {
            expected: version.get(),
            latest: 0,
        },
        _ => Decision::Apply,
    };
    let Some(stored) = stored else {
        return Ok(without_latest);
    };
    let is_same = match recent_requests::entry_of(stored, &RequestHash::of(&update.request_id)) {
        Some(entry) => Some((entry.version, entry.is_of(&update.payload()))),
        // A latest item without a map has only the last request.
        None if text(stored, names::REQUEST_ID) == Some(update.request_id.as_str()) => {
            let latest = latest_of(stored)?;
            let version = match Writer::of(stored, latest) {
                Writer::Stale(version) => version,
                Writer::Own | Writer::Other => latest,
            };
            Some((version, is_payload_of(stored, update)))
        }
        None => None,
    };
    match is_same {
        Some((version, true)) => return Ok(Decision::Duplicate { version }),
        Some((version, false)) => return Ok(Decision::Reused { version }),
        None => {}
    }
    if is_expired(stored, now.to_duration()) {
        return Ok(without_latest);
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
    match is_older(update, stored) {
        Some(false) => Ok(Decision::Apply),
        Some(true) => latest_of(stored).map(|version| Decision::Stale { version }),
        None => latest_of(stored).map(|version| Decision::Unordered { version }),
    }
}

/// Returns `false` if an item with the request id of an update was created by a different update.
pub fn is_payload_of(item: &Item, update: &Update) -> bool {
    text(item, names::REQUEST_PAYLOAD).is_none_or(|payload| payload == update.payload().short())
}

/// Returns `None` if the time of the latest item cannot be read. One without a time is older than every update.
fn is_older(update: &Update, stored: &Item) -> Option<bool> {
    let Some(timestamp) = update.timestamp else {
        return Some(false);
    };
    match (stored.get(names::TIMESTAMP), stored.get(names::TIME)) {
        (Some(AttributeValue::N(stored)), _) => {
            // Another program can write a fraction, or a number that is no time.
            Some(Decimal::parse(stored).ok()? > Decimal::from_i64(timestamp.get()))
        }
        // It was written when updates were not ordered by time.
        (None, Some(AttributeValue::S(time))) => Some(EpochMillis::parse_iso(time).ok()? > timestamp),
        (None, None) => Some(false),
        _ => None,
    }
}

/// Returns the latest item after the update: the result of the `UpdateItem`, except for the recent requests.
///
/// # Errors
///
/// Returns [`InvalidImage`] if the latest item has an invalid version, or if there is no higher one.
pub fn apply(update: &Update, stored: Option<&Item>, stamp: Stamp, now: RecordedAt) -> Result<Item, InvalidImage> {
    let latest = match stored {
        Some(stored) if stored.contains_key(names::LATEST) => latest_of(stored)?.get(),
        _ => 0,
    };
    let next = latest.checked_add(1).ok_or(InvalidImage::LatestTooLarge)?;
    let live = stored.filter(|stored| !is_expired(stored, now.to_duration()));
    let mut item = live
        .cloned()
        .unwrap_or_else(|| Item::from(std::collections::HashMap::<_, AttributeValue>::new()));
    for name in attribution::OF_CLIENT.into_iter().chain(attribution::OF_WRITER) {
        item.remove(name);
    }
    let s = |text: &str| AttributeValue::S(text.to_owned());
    let number = |number: u64| AttributeValue::N(number.to_string());
    let recorded = stamp.time(stored);
    match update.expires {
        Some(expires) => item.insert(names::TTL.to_owned(), number(expires)),
        None => item.remove(names::TTL),
    };
    item.insert(names::RECORDED_AT.to_owned(), recorded.without_ticks().value());
    item.insert(names::RECORDED_TICK.to_owned(), number(recorded.ticks().into()));
    item.insert(names::RECORDED_VERSION.to_owned(), number(next));
    item.insert(names::REQUEST_PAYLOAD.to_owned(), s(update.payload().short()));
    if let Some(sender) = &update.sender {
        item.insert(names::SENDER.to_owned(), s(sender));
    }
    if let Some(version) = update.restored_from {
        item.insert(names::RESTORED_FROM.to_owned(), number(version.get()));
    }
    item.insert(names::PK.to_owned(), s(update.entity.as_str()));
    item.insert(names::SK.to_owned(), s(LATEST_KEY));
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

/// Returns `true` if an update changed no state, and named no other author, reason or time than the item had before.
pub fn is_unchanged(before: &Item, after: &Item) -> bool {
    let bare = |item: &Item| {
        let mut item = item.clone();
        let of_request = attribution::OF_REQUEST.into_iter().chain([names::RECORDED_AT]);
        for name in attribution::OF_WRITER
            .into_iter()
            .chain(of_request)
            .chain(attribution::OF_LATEST)
        {
            item.remove(name);
        }
        for name in attribution::OF_CLIENT {
            if !after.contains_key(name) {
                item.remove(name);
            }
        }
        item
    };
    same_item(&bare(before), &bare(after))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::{
        payload::Payload, recent_requests::Entry, recorded_at::RecordedAt, request_id::RequestId, update::Ordering,
    };

    fn update(json: Value, ordering: Ordering) -> Update {
        Update::parse(json, "r-2", ordering).unwrap()
    }

    fn now() -> RecordedAt {
        RecordedAt::since_epoch(std::time::Duration::from_secs(1000))
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
            stored["RecentRequests"] = json!({"M": {hash.key(): {"N": version}, "other": {"N": "9"}}});
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
            let decided = decide(
                &update(json.clone(), ordering),
                stored.clone().map(item).as_ref(),
                now(),
            );
            assert_eq!(decided, expected, "{json} {stored:?}");
        }
    }

    #[test]
    fn a_request_id_of_a_different_update_is_detected() {
        let update = update(json!({"ID": "E", "A": 1}), Ordering::Arrival);
        let other = self::update(json!({"ID": "E", "A": 2}), Ordering::Arrival);
        let version = Version::new(2).unwrap();
        let in_map = |payload: &Payload| {
            let AttributeValue::N(number) = (Entry {
                version,
                check: payload.check(),
            })
            .value() else {
                unreachable!()
            };
            let hash = RequestHash::of(&update.request_id);
            item(
                json!({"RequestId": {"S": "r-9"}, "Latest": {"N": "3"}, "RecentRequests": {"M": {hash.key(): {"N": number}}}}),
            )
        };
        let last = |payload: &Payload| {
            item(json!({
                "RequestId": {"S": "r-2"}, "Latest": {"N": "3"}, "RecordedVersion": {"N": "2"},
                "RequestPayload": {"S": payload.short()},
            }))
        };
        for stored in [in_map(&update.payload()), last(&update.payload())] {
            assert_eq!(
                decide(&update, Some(&stored), now()),
                Ok(Decision::Duplicate { version })
            );
        }
        for stored in [in_map(&other.payload()), last(&other.payload())] {
            assert_eq!(decide(&update, Some(&stored), now()), Ok(Decision::Reused { version }));
        }
    }

    #[test]
    fn an_update_is_ordered_by_the_time_that_the_latest_item_has() {
        let update = update(json!({"ID": "E", "Timestamp": 5000}), Ordering::Time);
        let version = Version::new(3).unwrap();
        let (stale, unordered) = (Decision::Stale { version }, Decision::Unordered { version });
        for (stored, expected) in [
            (json!({}), Decision::Apply),
            (
                json!({"Timestamp": {"N": "5000"}, "Time": {"S": "1970-01-01T00:00:05"}}),
                Decision::Apply,
            ),
            (json!({"Timestamp": {"N": "5001"}}), stale),
            (json!({"Timestamp": {"N": "1e30"}}), stale),
            (json!({"Timestamp": {"N": "4999.5"}}), Decision::Apply),
            (json!({"Timestamp": {"N": "5000.5"}}), stale),
            (json!({"Timestamp": {"N": "-1e100"}}), Decision::Apply),
            (json!({"Timestamp": {"S": "4000"}}), unordered),
            // Written when updates were not ordered by time.
            (json!({"Time": {"S": "1970-01-01T00:00:05"}}), Decision::Apply),
            (json!({"Time": {"S": "1970-01-01T00:00:05.001Z"}}), stale),
            (json!({"Time": {"S": "1970-01-01T01:00:05.001+01:00"}}), stale),
            (json!({"Time": {"S": "soon"}}), unordered),
            (json!({"Time": {"N": "4000"}}), unordered),
        ] {
            let mut latest = stored.clone();
            latest["Latest"] = json!({"N": "3"});
            assert_eq!(decide(&update, Some(&item(latest)), now()), Ok(expected), "{stored}");
        }
    }

    #[test]
    fn an_expired_latest_item_is_absent_except_for_its_counter_and_requests() {
        let stored = |ttl: u64| {
            item(json!({
                "PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": "3"}, "RequestId": {"S": "r-1"}, "Deleted": {"BOOL": true},
                "State": {"S": "x"}, "Timestamp": {"N": "9000"}, "TTL": {"N": ttl.to_string()},
            }))
        };
        let older = update(json!({"ID": "E", "Timestamp": 5000, "A": 1}), Ordering::Time);
        let first = update(json!({"ID": "E", "ExpectedVersion": 0}), Ordering::Arrival);
        let third = update(json!({"ID": "E", "ExpectedVersion": 3}), Ordering::Arrival);
        let retry = update(json!({"ID": "E", "RequestId": "r-1"}), Ordering::Arrival);
        let version = Version::new(3).unwrap();
        let conflict = |expected, latest| Decision::Conflict { expected, latest };
        for (update, alive, expired) in [
            (&older, Decision::Stale { version }, Decision::Apply),
            (&first, conflict(0, 3), Decision::Apply),
            (&third, Decision::Apply, conflict(3, 0)),
            (&retry, Decision::Duplicate { version }, Decision::Duplicate { version }),
        ] {
            assert_eq!(decide(update, Some(&stored(1001)), now()), Ok(alive));
            assert_eq!(decide(update, Some(&stored(1000)), now()), Ok(expired));
        }
        let revived = apply(&older, Some(&stored(1000)), Stamp::At(now()), now()).unwrap();
        assert_eq!(revived[names::LATEST], AttributeValue::N("4".to_owned()));
        for name in ["State", "Deleted", "TTL"] {
            assert!(!revived.contains_key(name), "{name}");
        }
        assert!(revived.contains_key("A"));
    }

    #[test]
    fn author_and_time_belong_to_one_version() {
        let stored = item(json!({
            "PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": "3"}, "State": {"S": "x"}, "Actor": {"S": "amy"},
            "Reason": {"S": "r"}, "Time": {"S": "2026-01-01"}, "Timestamp": {"N": "1"}, "Sender": {"S": "AIDA"},
            "RestoredFrom": {"N": "1"},
        }));
        let stamp = Stamp::At(now());
        let after = |json: Value| {
            let update = update(json, Ordering::Arrival);
            apply(&update, Some(&stored), stamp, now()).unwrap()
        };
        let plain = after(json!({"ID": "E", "A": 1}));
        for name in ["Actor", "Reason", "Time", "Timestamp", "Sender", "RestoredFrom"] {
            assert!(!plain.contains_key(name), "{name}");
        }
        assert!(plain.contains_key("State") && plain.contains_key("RecordedAt"));
        let named = after(json!({"ID": "E", "Actor": "bob"}));
        assert_eq!(text(&named, "Actor"), Some("bob"));
        assert!(!named.contains_key("Reason"));
    }

    #[test]
    fn updates_that_change_nothing_are_detected() {
        let stored = item(json!({
            "PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": "3"}, "RequestId": {"S": "r-1"}, "A": {"N": "1.0"},
            "Actor": {"S": "amy"}, "Sender": {"S": "AIDA"}, "RecordedVersion": {"N": "3"},
        }));
        for (json, unchanged) in [
            (json!({"ID": "E"}), true),
            (json!({"ID": "E", "A": 1, "B": null}), true),
            (json!({"ID": "E", "Actor": "amy"}), true),
            (json!({"ID": "E", "Actor": "bob"}), false),
            (json!({"ID": "E", "Time": "2026-01-01"}), false),
            (json!({"ID": "E", "A": 2}), false),
            (json!({"ID": "E", "A": null}), false),
            (json!({"ID": "E", "Deleted": true}), false),
        ] {
            let after = apply(
                &update(json.clone(), Ordering::Arrival),
                Some(&stored),
                Stamp::At(now()),
                now(),
            )
            .unwrap();
            assert_eq!(is_unchanged(&stored, &after), unchanged, "{json}");
            assert_eq!(after[names::LATEST], AttributeValue::N("4".to_owned()));
        }
    }
}
