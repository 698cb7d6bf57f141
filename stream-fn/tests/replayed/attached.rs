//! Requests of stream-fn for an attached table, with replayed responses.

use std::time::Duration;

use serde_json::{Value, json};
use shared::{
    clock,
    domain::{
        self,
        attached::{
            AttachedTable,
            definition::{AttachedSettings, KeyAttribute, KeyType},
        },
        entity::EntityId,
        recorded_at::RecordedAt,
    },
    dynamodb::Store,
};
use stream_fn::{HistoryWriter, Purpose};
use testkit::replay::Replay;

use super::{LEFT, failed};

fn attached_writer(replay: &Replay) -> HistoryWriter {
    let settings = AttachedSettings {
        table: "Orders".to_owned(),
        ..AttachedSettings::default()
    };
    let table = AttachedTable::new(settings, vec![KeyAttribute::new("id", KeyType::S)]).unwrap();
    HistoryWriter::from_store(Store::attached(replay.client(), table), Purpose::Invocation)
}

fn record(id: &str, number: u64, old: Option<u64>, new: u64) -> Value {
    let keys = json!({"id": {"S": id}});
    let state = |state: u64| json!({"N": state.to_string()});
    let mut record = super::record(&number.to_string(), &keys, &json!({"state": state(new)}));
    record["dynamodb"]["StreamViewType"] = json!("NEW_AND_OLD_IMAGES");
    if let Some(old) = old {
        record["eventName"] = json!("MODIFY");
        record["dynamodb"]["OldImage"] = json!({"id": keys["id"], "state": state(old)});
    }
    record
}

const INSERT: &str = "BatchExecuteStatement";

/// An empty history.
fn empty() -> Value {
    json!({"Items": [], "Count": 0})
}

/// The response to an INSERT of one version.
fn recorded() -> Value {
    json!({"Responses": [{}]})
}

/// A page of history with the newest version, and these attributes besides those of each version.
fn page(number: u64, id: &str, more: Value) -> Value {
    let mut item = json!({
        "PK": {"S": "{\"id\":\"a\"}"}, "SK": {"S": format!("v{number:010}")}, "RequestId": {"S": id},
        "Stream": {"S": "2026-11-22T06:24:48.123"}, "Image": {"M": {"id": {"S": "a"}}},
    });
    item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"Items": [item], "Count": 1, "LastEvaluatedKey": {"PK": {"S": "a"}, "SK": {"S": "b"}}})
}

#[tokio::test(start_paused = true)]
async fn a_failure_ends_the_later_records_of_its_item() {
    let response = |statements: Value| json!({"Responses": statements});
    let throttled = || json!({"Error": {"Code": "ThrottlingError", "Message": "x"}});
    // One item is throttled, in each attempt.
    let mut responses = vec![empty(), empty(), response(json!([throttled(), {}]))];
    responses.extend((0..20).map(|_| response(json!([throttled()]))));
    let replay = Replay::new(responses);
    let writer = attached_writer(&replay);
    let records = [
        record("a", 1, None, 1),
        record("b", 2, None, 1),
        record("a", 3, Some(1), 2),
    ];
    let failures = failed(&writer, &records, LEFT).await;
    assert_eq!(failures, ["1", "3"]);
    // The last record is not processed: it would be ahead of the first one.
    let reads = replay
        .operations()
        .iter()
        .filter(|operation| *operation == "Query")
        .count();
    assert_eq!(reads, 2);
    // Without time, nothing is sent.
    let replay = Replay::new([]);
    let writer = attached_writer(&replay);
    assert_eq!(failed(&writer, &records, Duration::ZERO).await, ["1", "2", "3"]);
    assert_eq!(replay.requests().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_others_take_each_time_is_retried_later() {
    let taken = json!({"Responses": [{"Error": {"Code": "DuplicateItem", "Message": "x"}}]});
    let responses = (0..5).flat_map(|_| [empty(), taken.clone()]);
    let replay = Replay::new(responses);
    let writer = attached_writer(&replay);
    let failures = failed(&writer, &[record("a", 1, None, 1)], LEFT).await;
    assert_eq!(failures, ["1"]);
    let requests = replay.requests();
    let reads = requests.iter().filter(|(operation, _)| operation == "Query");
    let consistent: Vec<_> = reads.map(|(_, body)| body["ConsistentRead"].clone()).collect();
    assert_eq!(consistent, [false, true, true, true, true]);
}

/// Bytes that no compression makes smaller.
fn random(bytes: usize) -> Value {
    let mut rng = fastrand::Rng::with_seed(1);
    let bytes: Vec<u8> = (0..bytes).map(|_| rng.u8(..)).collect();
    let value = domain::AttributeValue::B(bytes);
    serde_json::to_value(value).unwrap()
}

/// Returns the items that the requests insert one by one.
fn inserted(replay: &Replay) -> Vec<Value> {
    let requests = replay.requests().into_iter();
    let inserts = requests.filter(|(operation, _)| operation == "BatchExecuteStatement");
    let item = |(_, body): (String, Value)| {
        let statement = body["Statements"][0]["Statement"].as_str().unwrap().to_owned();
        let names = statement.split('\'').skip(1).step_by(2).map(str::to_owned);
        let values = body["Statements"][0]["Parameters"].as_array().unwrap().clone();
        names.zip(values).collect::<serde_json::Map<_, _>>().into()
    };
    inserts.map(item).collect()
}

#[tokio::test(start_paused = true)]
async fn a_state_that_does_not_fit_is_compressed() {
    let replay = Replay::new([empty(), recorded()]);
    let writer = attached_writer(&replay);
    let mut large = record("a", 1, None, 1);
    large["dynamodb"]["NewImage"]["text"] = json!({"S": "x".repeat(409_500)});
    assert_eq!(failed(&writer, &[large], LEFT).await, [""; 0]);
    let version = &inserted(&replay)[0];
    assert!(version.get("ImageDeflate").is_some() && version.get("Omitted").is_none());
}

/// A large state has a version without it, and its record is in quarantine. What follows has a version of its own.
#[tokio::test(start_paused = true)]
async fn a_state_that_fits_in_no_form_is_omitted() {
    let large = |image: &mut Value| image["bytes"] = random(409_500);
    let mut grown = record("a", 2, Some(1), 2);
    large(&mut grown["dynamodb"]["NewImage"]);
    let mut touched = record("a", 3, Some(2), 2);
    large(&mut touched["dynamodb"]["OldImage"]);
    large(&mut touched["dynamodb"]["NewImage"]);
    let mut shrunk = record("a", 4, Some(2), 3);
    large(&mut shrunk["dynamodb"]["OldImage"]);
    let replay = Replay::new([empty(), recorded(), recorded(), recorded(), json!({})]);
    let writer = attached_writer(&replay);
    let records = [record("a", 1, None, 1), grown, touched, shrunk];
    assert_eq!(failed(&writer, &records, LEFT).await, [""; 0]);
    let operations = ["Query", INSERT, INSERT, INSERT, "ExecuteTransaction"];
    assert_eq!(replay.operations(), operations);
    let versions: Vec<_> = inserted(&replay)
        .into_iter()
        .map(|version| {
            let omitted = version["Omitted"]["M"]["Reason"]["S"].as_str().unwrap_or_default();
            let image = version["Image"]["M"].as_object().unwrap();
            (version["SK"]["S"].clone(), omitted.to_owned(), image.len())
        })
        .collect();
    let key = |number: u64| json!(format!("v{number:010}"));
    let expected = [
        (key(1), String::new(), 2),
        (key(2), "TooLarge".to_owned(), 1),
        (key(3), String::new(), 2),
    ];
    assert_eq!(versions, expected);
    let quarantined = replay.requests().pop().unwrap().1.to_string();
    assert!(quarantined.contains("quarantine#2") && !quarantined.contains("quarantine#4"));
}

/// The large state of a record that got lost is known from the old image of a deletion only.
#[tokio::test(start_paused = true)]
async fn a_missed_state_that_does_not_fit_does_not_prevent_the_version_after_it() {
    let mut deletion = record("a", 4, Some(2), 3);
    deletion["eventName"] = json!("REMOVE");
    deletion["dynamodb"]["OldImage"]["bytes"] = random(409_500);
    deletion["dynamodb"].as_object_mut().unwrap().remove("NewImage");
    let first = page(2, "1", json!({}));
    let replay = Replay::new([first, recorded(), recorded(), json!({})]);
    let writer = attached_writer(&replay);
    assert_eq!(failed(&writer, &[deletion.clone()], LEFT).await, [""; 0]);
    let omitted = json!({"M": {"Bytes": {"N": "409516"}, "Reason": {"S": "TooLarge"}}});
    let stored = inserted(&replay);
    assert_eq!(
        (&stored[0]["SK"]["S"], &stored[0]["Missed"]["BOOL"]),
        (&json!("v0000000003"), &json!(true))
    );
    assert_eq!(stored[0]["Omitted"]["M"]["Reason"], json!({"S": "TooLarge"}));
    assert_eq!(
        (&stored[1]["SK"]["S"], &stored[1]["Deleted"]["BOOL"]),
        (&json!("v0000000004"), &json!(true))
    );
    assert_eq!(replay.operations().last().unwrap(), "ExecuteTransaction");
    // The invocation ended before the record was in quarantine: it is found again, and writes no version.
    let last = page(4, "4", json!({"Deleted": {"BOOL": true}}));
    let before = page(3, "4#old", json!({"Omitted": omitted, "Missed": {"BOOL": true}}));
    let replay = Replay::new([last, before, json!({})]);
    let writer = attached_writer(&replay);
    assert_eq!(failed(&writer, &[deletion], LEFT).await, [""; 0]);
    assert_eq!(replay.operations(), ["Query", "Query", "ExecuteTransaction"]);
}

/// An eventually consistent read that lacks the last version makes a change look like none.
#[tokio::test(start_paused = true)]
async fn a_record_is_dropped_only_after_a_consistent_read() {
    let version = |number: u64, state: u64| {
        let image = json!({"M": {"id": {"S": "a"}, "state": {"N": state.to_string()}}});
        page(number, &number.to_string(), json!({"Image": image}))
    };
    let mut change = record("a", 9, None, 1);
    change["eventName"] = json!("MODIFY");
    change["dynamodb"]["StreamViewType"] = json!("NEW_IMAGE");
    // The state 1 of version 1 came back after the state 2 of version 2, which the first read lacks.
    let replay = Replay::new([version(1, 1), version(2, 2), recorded()]);
    let writer = attached_writer(&replay);
    assert_eq!(failed(&writer, &[change.clone()], LEFT).await, [""; 0]);
    assert_eq!(replay.operations(), ["Query", "Query", INSERT]);
    assert_eq!(replay.requests()[1].1["ConsistentRead"], json!(true));
    assert_eq!(inserted(&replay)[0]["SK"]["S"], "v0000000003");
    // An unchanged one is read twice, and those after it use the same read.
    let mut next = change.clone();
    next["dynamodb"]["SequenceNumber"] = json!("10");
    let replay = Replay::new([version(1, 1), version(1, 1)]);
    let writer = attached_writer(&replay);
    assert_eq!(failed(&writer, &[change, next], LEFT).await, [""; 0]);
    assert_eq!(replay.operations(), ["Query", "Query"]);
}

/// Returns the response with the erasure of `state` and of the author from the history of item `a`, so many seconds ago.
fn erasure(ago: u64) -> Value {
    let at = RecordedAt::since_epoch(clock::since_epoch().saturating_sub(Duration::from_secs(ago))).to_string();
    let entry = json!({"M": {"At": {"S": at}, "To": {"N": "9"}, "Reason": {"S": "asked"}}});
    let entity = EntityId::new(r#"{"id":"a"}"#).unwrap();
    let keys = json!({"PK": {"S": entity.of_purge_marker().as_str()}, "SK": {"S": "purged"}});
    let mut marker = json!({"Erasures": {"M": {r#"["Attribute","state"]"#: entry, r#"["Attribute","by"]"#: entry}}});
    marker
        .as_object_mut()
        .unwrap()
        .extend(keys.as_object().unwrap().clone());
    json!({"Responses": {"Orders-history": [marker]}, "UnprocessedKeys": {}})
}

#[tokio::test(start_paused = true)]
async fn a_late_record_is_stored_without_what_was_erased() {
    const MARKER: &str = "BatchGetItem";
    let mark = json!({"M": {r#"["Attribute","state"]"#: {"M": {"At": {"S": "2026-11-26T13:20:52.000000000Z"}, "Reason": {"S": "asked"}}}}});
    let version = |state: u64| {
        let image = json!({"M": {"id": {"S": "a"}, "state": {"N": state.to_string()}}});
        page(1, "1", json!({"Image": image}))
    };
    let erased = page(1, "1", json!({"Erased": mark}));
    let missed = |seen: &str| {
        let mut missed = record("a", 2, Some(6), 7);
        missed["dynamodb"]["OldImage"]["seen"] = json!({"S": seen});
        missed
    };
    for (mut record, age, before, marker, expected) in [
        (
            record("a", 2, Some(6), 7),
            100,
            version(6),
            Some(erasure(95)),
            "v0000000002 erased",
        ),
        // The clocks differ by up to 10 seconds.
        (
            record("a", 2, Some(6), 7),
            100,
            version(6),
            Some(erasure(108)),
            "v0000000002 erased",
        ),
        (
            record("a", 2, Some(6), 7),
            100,
            version(6),
            Some(erasure(115)),
            "v0000000002 7",
        ),
        (record("a", 2, Some(6), 7), 0, version(6), None, "v0000000002 7"),
        // The item still has what was erased from its version.
        (record("a", 2, Some(6), 7), 0, erased.clone(), None, "v0000000002 7"),
        // So does the state before a change, if history does not have it.
        (
            missed("x"),
            0,
            erased.clone(),
            None,
            "v0000000002 erased, v0000000003 7",
        ),
        (
            missed("x"),
            100,
            version(6),
            Some(erasure(95)),
            "v0000000002 erased, v0000000003 erased",
        ),
        // It is delivered again.
        (record("a", 1, Some(6), 7), 100, erased.clone(), Some(erasure(95)), ""),
    ] {
        let change = &mut record["dynamodb"];
        change["ApproximateCreationDateTime"] = json!(clock::since_epoch().as_secs() - age);
        change["NewImage"]["by"] = json!({"S": "secret"});
        let inserts = expected.split(", ").filter(|version| !version.is_empty());
        let operations: Vec<_> = [MARKER]
            .into_iter()
            .filter(|_| marker.is_some())
            .chain(["Query"])
            .chain(inserts.clone().map(|_| INSERT))
            .collect();
        let replay = Replay::new(marker.into_iter().chain([before]).chain(inserts.map(|_| recorded())));
        assert_eq!(
            failed(&attached_writer(&replay), &[record], LEFT).await,
            [""; 0],
            "{expected}"
        );
        assert_eq!(replay.operations(), operations, "{expected}");
        let shown = |item: &Value| {
            let state = item["Image"]["M"]["state"]["N"].as_str();
            let is_marked = item["Erased"]["M"].get(r#"["Attribute","state"]"#).is_some();
            assert_eq!(state.is_none(), is_marked, "{expected}");
            format!("{} {}", item["SK"]["S"].as_str().unwrap(), state.unwrap_or("erased"))
        };
        let inserted = inserted(&replay);
        assert_eq!(inserted.iter().map(shown).collect::<Vec<_>>().join(", "), expected);
        if expected.ends_with("erased") {
            assert!(!json!(inserted).to_string().contains("secret"), "{expected}");
        }
    }
    // In quarantine too.
    let mut malformed = record("a", 2, Some(6), 7);
    malformed["dynamodb"]["ApproximateCreationDateTime"] = json!(clock::since_epoch().as_secs() - 100);
    malformed["dynamodb"]["NewImage"]["by"] = json!({"S": "secret"});
    malformed["dynamodb"]["NewImage"]["other"] = json!({"X": "Y"});
    let replay = Replay::new([erasure(95), json!({})]);
    assert_eq!(failed(&attached_writer(&replay), &[malformed], LEFT).await, [""; 0]);
    let quarantined = replay.requests().pop().unwrap().1.to_string();
    assert!(quarantined.contains("quarantine#2") && !quarantined.contains("secret"));
}

#[tokio::test(start_paused = true)]
async fn versions_that_are_rejected_together_are_sent_alone() {
    let rejected = || json!({"__type": "ValidationException"});
    let history = [empty(), empty()].into_iter();
    let inserts = [rejected(), recorded(), rejected(), recorded(), json!({})];
    let replay = Replay::new(history.chain(inserts));
    let writer = attached_writer(&replay);
    let records = [record("a", 1, None, 1), record("b", 2, None, 1)];
    assert_eq!(failed(&writer, &records, LEFT).await, [""; 0]);
    // The one that is rejected alone is sent without its state.
    let operations = ["Query", "Query", INSERT, INSERT, INSERT, INSERT, "ExecuteTransaction"];
    assert_eq!(replay.operations(), operations);
    let omitted = &inserted(&replay)[3]["Omitted"]["M"]["Reason"];
    assert_eq!(omitted, &json!({"S": "Rejected"}));
}
