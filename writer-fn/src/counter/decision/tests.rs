use serde_json::{Value, json};
use shared::{
    config::Ordering,
    domain::{attributes, recorded_at::RecordedAt, request_id::RequestId},
    logging::chain,
};
use testkit::cases::cases;

use crate::counter::{
    decision::*,
    recent_requests::{Entry, SentCode},
};

fn update(json: Value, ordering: Ordering) -> Update {
    Update::parse(json, "r-2", ordering).unwrap()
}

fn now() -> RecordedAt {
    RecordedAt::since_epoch(std::time::Duration::from_secs(1000))
}

fn item(mut json: Value) -> Item {
    json["PK"] = json!({"S": "E"});
    serde_json::from_value(json).unwrap()
}

/// Returns the outcome in short: `Duplicate 2`, or the error.
fn decided(update: &Update, stored: Option<&Item>) -> String {
    match decide(update, stored) {
        Ok(None) => "applied".to_owned(),
        Ok(Some(WriteOutcome::Duplicate { version })) => format!("Duplicate {version}"),
        Ok(Some(WriteOutcome::Stale { version })) => format!("Stale {version}"),
        Ok(Some(WriteOutcome::Conflict { expected, latest })) => format!("Conflict {expected} {latest}"),
        Ok(Some(other)) => format!("{other:?}"),
        Err(error) => chain(&error),
    }
}

#[test]
fn an_update_is_decided_by_the_stored_item() {
    // Members of the update, whose request id is r-2, and the stored item. HASH is that of r-2.
    const DECISIONS: &str = r#"
        [{}, null] -> applied
        [{}, {"RequestId": "r-1", "Latest": 4}] -> applied
        [{}, {"State": "manual"}] -> applied
        [{}, {"RequestId": "r-2", "Latest": 4}] -> Duplicate 4
        [{}, {"RequestId": "r-9", "Latest": 9, "RecentRequests": {"HASH": 2, "other": 9}}] -> Duplicate 2
        [{"ExpectedVersion": 1}, {"RequestId": "r-9", "Latest": 9, "RecentRequests": {"HASH": 2}}] -> Duplicate 2
        [{"Timestamp": 5}, {"RequestId": "r-9", "Latest": 9, "Timestamp": 7, "RecentRequests": {"HASH": 3}}] -> Duplicate 3
        // A previous delivery of the same request, although the latest version is no longer the expected one.
        [{"ExpectedVersion": 1}, {"RequestId": "r-2", "Latest": 2}] -> Duplicate 2
        [{"ExpectedVersion": 0}, {"RequestId": "r-2", "Latest": 1}] -> Duplicate 1
        [{"ExpectedVersion": 0}, null] -> applied
        [{"ExpectedVersion": 2}, {"RequestId": "r-1", "Latest": 2}] -> applied
        [{"ExpectedVersion": 1}, {"RequestId": "r-1", "Latest": 2}] -> Conflict 1 2
        [{"ExpectedVersion": 1}, null] -> Conflict 1 0
        [{"ExpectedVersion": 0}, {"RequestId": "r-1", "Latest": 3}] -> Conflict 0 3
        [{"ExpectedVersion": 0}, {"State": "manual"}] -> Conflict 0 0
        [{"Timestamp": 5}, {"RequestId": "r-1", "Latest": 3, "Timestamp": 7}] -> Stale 3
        [{"Timestamp": 5}, {"RequestId": "r-2", "Latest": 3, "Timestamp": 7}] -> Duplicate 3
        [{"Timestamp": 5}, {"Timestamp": 5}] -> applied
        [{}, {"RequestId": "r-2"}] -> the latest item has no valid version: Latest is missing
        [{}, {"Latest": 9223372036854775806}] -> applied
        [{}, {"Latest": 9223372036854775807}] -> the latest item has no valid version: Latest is 9223372036854775807, the greatest version, so there is no next one
        [{}, {"Latest": 9223372036854775808}] -> the latest item has no valid version: Latest is above 9223372036854775807
        [{}, {"Latest": "manual"}] -> applied
    "#;
    let hash = RequestHash::of(&RequestId::new("r-2").unwrap());
    for (case, expected) in cases(&DECISIONS.replace("HASH", hash.key())) {
        let ordering = match case[0].get("Timestamp") {
            Some(_) => Ordering::Time,
            None => Ordering::Arrival,
        };
        let mut json = case[0].clone();
        json["ID"] = json!("E");
        let stored = attributes::from_json(case[1].clone()).unwrap();
        let stored = match stored {
            AttributeValue::M(members) => Some(item(serde_json::to_value(members).unwrap())),
            _ => None,
        };
        assert_eq!(decided(&update(json, ordering), stored.as_ref()), expected, "{case}");
    }
}

#[test]
fn a_request_id_of_a_different_update_is_detected() {
    let update = update(json!({"ID": "E", "A": 1}), Ordering::Arrival);
    let other = self::update(json!({"ID": "E", "A": 2}), Ordering::Arrival);
    let hash = RequestHash::of(&update.request_id);
    let reused = "the request id was used for another update, version 2";
    for (payload, expected) in [(update.payload(), "Duplicate 2"), (other.payload(), reused)] {
        let entry = Entry {
            version: Version::new(2).unwrap(),
            check: payload.check(),
            sent: SentCode::UNKNOWN,
        };
        let requests = json!({"M": {hash.key(): entry.value()}});
        for stored in [
            json!({"RequestId": {"S": "r-9"}, "Latest": {"N": "3"}, "RecentRequests": requests}),
            json!({
                "RequestId": {"S": "r-2"}, "Latest": {"N": "3"}, "RecordedVersion": {"N": "2"},
                "RequestPayload": {"S": payload.short()},
            }),
        ] {
            assert_eq!(decided(&update, Some(&item(stored.clone()))), expected, "{stored}");
        }
    }
}

#[test]
fn an_update_is_ordered_by_the_time_that_the_latest_item_has() {
    const ORDERED: &str = r#"
        {}                                                                   -> applied
        {"Timestamp": {"N": "5000"}, "Time": {"S": "1970-01-01T00:00:05"}}   -> applied
        {"Timestamp": {"N": "5001"}}                                         -> Stale 3
        {"Timestamp": {"N": "1e30"}}                                         -> Stale 3
        {"Timestamp": {"N": "4999.5"}}                                       -> applied
        {"Timestamp": {"N": "5000.5"}}                                       -> Stale 3
        {"Timestamp": {"N": "-1e100"}}                                       -> applied
        {"Timestamp": {"S": "4000"}}                                         -> unordered
        // Written when updates were not ordered by time.
        {"Time": {"S": "1970-01-01T00:00:05"}}                               -> applied
        {"Time": {"S": "1970-01-01T00:00:05.001Z"}}                          -> Stale 3
        {"Time": {"S": "1970-01-01T01:00:05.001+01:00"}}                     -> Stale 3
        {"Time": {"S": "soon"}}                                              -> unordered
        {"Time": {"N": "4000"}}                                              -> unordered
    "#;
    let update = update(json!({"ID": "E", "Timestamp": 5000}), Ordering::Time);
    let unordered = "the time of version 3 cannot be read, so it is not known whether the update is older";
    for (mut stored, expected) in cases(ORDERED) {
        stored["Latest"] = json!({"N": "3"});
        let found = decided(&update, Some(&item(stored.clone())));
        assert_eq!(found.replace(unordered, "unordered"), expected, "{stored}");
    }
}

#[test]
fn a_deletion_ends_the_state() {
    const NO_MAP: &str = "the latest item has no map M, whose members the update changes: set the whole map first";
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
        assert_eq!(decided(&nested, Some(stored)), NO_MAP);
    }
    // An update that follows it starts from an empty item.
    let one = vec!["A".to_owned()];
    assert_eq!(after(&tombstone, json!({"ID": "E", "A": 1})), (one.clone(), one));
    let nested = update(json!({"ID": "E", "M": {"$update": {"A": 2}}}), Ordering::Arrival);
    assert_eq!(decided(&nested, Some(&tombstone)), NO_MAP);
    assert_eq!(decide(&nested, Some(&live)), Ok(None));
    // Order and expected version are compared with the tombstone.
    let late = update(json!({"ID": "E", "Timestamp": 5000}), Ordering::Time);
    assert_eq!(decided(&late, Some(&tombstone)), "Stale 3");
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
        "RestoredFrom": {"N": "1"}, "ChangeSet": {"S": "import-7"},
    }));
    let stamp = Stamp::At(now());
    let after = |json: Value| {
        let update = update(json, Ordering::Arrival);
        apply(&update, Some(&stored), &stamp).unwrap()
    };
    let plain = after(json!({"ID": "E", "A": 1}));
    for name in [
        "Actor",
        "Reason",
        "ChangeSet",
        "Time",
        "Timestamp",
        "Sender",
        "RestoredFrom",
    ] {
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
