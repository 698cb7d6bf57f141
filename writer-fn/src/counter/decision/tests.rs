use serde_json::{Value, json};
use shared::{
    config::Ordering,
    domain::{recorded_at::RecordedAt, request_id::RequestId},
};

use crate::{
    counter::{
        decision::*,
        recent_requests::{Entry, SentCode},
    },
    update::payload::Payload,
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
        Ok(Some(WriteOutcome::Duplicate {
            version: version(number),
        }))
    };
    let stale = |number| {
        Ok(Some(WriteOutcome::Stale {
            version: version(number),
        }))
    };
    let conflict = |expected, latest| Ok(Some(WriteOutcome::Conflict { expected, latest }));
    // The hash is that of "r-2".
    let with_recent = |version: &str| {
        let mut stored = stored("r-9", "9").unwrap();
        let hash = RequestHash::of(&RequestId::new("r-2").unwrap());
        stored["RecentRequests"] = json!({"M": {hash.key(): {"N": version}, "other": {"N": "9"}}});
        Some(stored)
    };
    let uncounted = || Some(json!({"State": {"S": "manual"}}));
    for (json, ordering, stored, expected) in [
        (plain.clone(), Ordering::Arrival, None, Ok(None)),
        (plain.clone(), Ordering::Arrival, stored("r-1", "4"), Ok(None)),
        (plain.clone(), Ordering::Arrival, uncounted(), Ok(None)),
        (plain.clone(), Ordering::Arrival, stored("r-2", "4"), duplicate(4)),
        (plain.clone(), Ordering::Arrival, with_recent("2"), duplicate(2)),
        (expects(1), Ordering::Arrival, with_recent("2"), duplicate(2)),
        (at_5.clone(), Ordering::Time, with_recent("3"), duplicate(3)),
        // A previous delivery of the same request, although the latest version is no longer the expected one.
        (expects(1), Ordering::Arrival, stored("r-2", "2"), duplicate(2)),
        (expects(0), Ordering::Arrival, stored("r-2", "1"), duplicate(1)),
        (expects(0), Ordering::Arrival, None, Ok(None)),
        (expects(2), Ordering::Arrival, stored("r-1", "2"), Ok(None)),
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
            Ok(None),
        ),
        (
            plain,
            Ordering::Arrival,
            Some(json!({"RequestId": {"S": "r-2"}})),
            Err(WriteError::Latest(InvalidImage::NoLatest)),
        ),
    ] {
        let decided = decide(&update(json.clone(), ordering), stored.clone().map(item).as_ref());
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
            sent: SentCode::UNKNOWN,
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
            decide(&update, Some(&stored)),
            Ok(Some(WriteOutcome::Duplicate { version }))
        );
    }
    for stored in [in_map(&other.payload()), last(&other.payload())] {
        assert_eq!(
            decide(&update, Some(&stored)),
            Err(WriteError::RequestIdReused { version })
        );
    }
}

#[test]
fn an_update_is_ordered_by_the_time_that_the_latest_item_has() {
    let update = update(json!({"ID": "E", "Timestamp": 5000}), Ordering::Time);
    let version = Version::new(3).unwrap();
    let stale = || Ok(Some(WriteOutcome::Stale { version }));
    let unordered = || Err(WriteError::Unordered { version });
    for (stored, expected) in [
        (json!({}), Ok(None)),
        (
            json!({"Timestamp": {"N": "5000"}, "Time": {"S": "1970-01-01T00:00:05"}}),
            Ok(None),
        ),
        (json!({"Timestamp": {"N": "5001"}}), stale()),
        (json!({"Timestamp": {"N": "1e30"}}), stale()),
        (json!({"Timestamp": {"N": "4999.5"}}), Ok(None)),
        (json!({"Timestamp": {"N": "5000.5"}}), stale()),
        (json!({"Timestamp": {"N": "-1e100"}}), Ok(None)),
        (json!({"Timestamp": {"S": "4000"}}), unordered()),
        // Written when updates were not ordered by time.
        (json!({"Time": {"S": "1970-01-01T00:00:05"}}), Ok(None)),
        (json!({"Time": {"S": "1970-01-01T00:00:05.001Z"}}), stale()),
        (json!({"Time": {"S": "1970-01-01T01:00:05.001+01:00"}}), stale()),
        (json!({"Time": {"S": "soon"}}), unordered()),
        (json!({"Time": {"N": "4000"}}), unordered()),
    ] {
        let mut latest = stored.clone();
        latest["Latest"] = json!({"N": "3"});
        assert_eq!(decide(&update, Some(&item(latest))), expected, "{stored}");
    }
}

#[test]
fn a_deletion_ends_the_state() {
    let stored = |json: Value| {
        let mut stored = json!({
            "PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": "3"}, "RecordedVersion": {"N": "3"}, "RequestId": {"S": "r-0"},
            "State": {"S": "x"}, "M": {"M": {"A": {"N": "1"}}}, "Timestamp": {"N": "9000"},
        });
        stored
            .as_object_mut()
            .unwrap()
            .extend(json.as_object().unwrap().clone());
        item(stored)
    };
    let live = stored(json!({}));
    let tombstone = stored(json!({"Deleted": {"BOOL": true}, "TombstoneState": {"M": {"Note": {"S": "n"}}}}));
    let after = |stored: &Item, json: Value| {
        let update = update(json, Ordering::Arrival);
        assert_eq!(decide(&update, Some(stored)), Ok(None));
        let after = apply(&update, Some(stored), &Stamp::At(now())).unwrap();
        let version = latest_of(&after).unwrap();
        assert_eq!(version.get(), 4);
        let (version, _) = attribution::of_version(after.clone(), version);
        (attribution::state_names(&after), attribution::state_names(&version))
    };
    let none = Vec::<String>::new();
    for stored in [&live, &tombstone] {
        // The state that a deletion names is in a map of the latest item, and in attributes of the version.
        let deletion = json!({"ID": "E", "Deleted": true, "Why": "sold", "State": null, "Actor": "amy"});
        assert_eq!(after(stored, deletion), (none.clone(), vec!["Why".to_owned()]));
        assert_eq!(
            after(stored, json!({"ID": "E", "Deleted": true})),
            (none.clone(), none.clone())
        );
        let nested = update(
            json!({"ID": "E", "Deleted": true, "M": {"$update": {"A": 2}}}),
            Ordering::Arrival,
        );
        assert_eq!(
            decide(&nested, Some(stored)),
            Err(WriteError::NoMap { path: "M".to_owned() })
        );
    }
    // An update that follows it starts from an empty item.
    let one = vec!["A".to_owned()];
    assert_eq!(after(&tombstone, json!({"ID": "E", "A": 1})), (one.clone(), one));
    let nested = update(json!({"ID": "E", "M": {"$update": {"A": 2}}}), Ordering::Arrival);
    assert_eq!(
        decide(&nested, Some(&tombstone)),
        Err(WriteError::NoMap { path: "M".to_owned() })
    );
    assert_eq!(decide(&nested, Some(&live)), Ok(None));
    // Order and expected version are compared with the tombstone.
    let late = update(json!({"ID": "E", "Timestamp": 5000}), Ordering::Time);
    let version = Version::new(3).unwrap();
    assert_eq!(
        decide(&late, Some(&tombstone)),
        Ok(Some(WriteOutcome::Stale { version }))
    );
    // A second deletion changes nothing, unless it names another state.
    for (json, unchanged) in [
        (json!({"ID": "E", "Deleted": true, "Note": "n"}), true),
        (json!({"ID": "E", "Deleted": true, "Note": "m"}), false),
        (json!({"ID": "E", "Deleted": true}), false),
        (json!({"ID": "E", "Note": "n"}), false),
    ] {
        let update = update(json.clone(), Ordering::Arrival);
        let after = apply(&update, Some(&tombstone), &Stamp::At(now())).unwrap();
        assert_eq!(is_unchanged(&tombstone, &after), unchanged, "{json}");
    }
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
        apply(&update, Some(&stored), &stamp).unwrap()
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
            &Stamp::At(now()),
        )
        .unwrap();
        assert_eq!(is_unchanged(&stored, &after), unchanged, "{json}");
        assert_eq!(after[names::LATEST], AttributeValue::N("4".to_owned()));
    }
}
