//! Requests of stream-fn for versions of purged entities, with replayed responses.

use std::time::Duration;

use operations::purge::Purge;
use serde_json::{Value, json};
use shared::{
    clock::{Clock, Deadline},
    domain::{entity::EntityId, keys::VersionDigits, recorded_at::RecordedAt},
    dynamodb::Store,
};
use stream_fn::HistoryWriter;
use testkit::replay::{self, Replay};

/// Time of the function's clock, in seconds since 1970.
const NOW: u64 = 1_795_328_688;
/// Time of the purge.
const PURGED: u64 = NOW - 100;
/// Second of a record that is checked, from before the purge, and of one of another incarnation after the purge.
const LATE: u64 = PURGED - 10;
const LATER: u64 = PURGED + 50;

fn time(second: u64) -> String {
    RecordedAt::since_epoch(Duration::from_secs(second)).to_string()
}

/// Returns the record of an update that was recorded at this second.
fn record(number: u64, entity: &str, second: u64) -> Value {
    let keys = json!({"PK": {"S": entity}, "SK": {"S": "v0"}});
    let mut image = keys.clone();
    image["Latest"] = json!({"N": number.to_string()});
    image["RecordedVersion"] = image["Latest"].clone();
    image["RecordedAt"] = json!({"S": time(second)});
    image["V0Id"] = json!({"S": if second < PURGED { "purged" } else { "later" }});
    let change = json!({
        "Keys": keys, "NewImage": image, "SequenceNumber": number.to_string(), "ApproximateCreationDateTime": second,
    });
    json!({"eventName": "MODIFY", "dynamodb": change})
}

fn malformed(second: u64) -> Value {
    let mut record = record(7, "E", second);
    record["dynamodb"]["NewImage"]["Latest"] = json!({"S": "seven"});
    record
}

/// Returns the marker of the purge of version 7 of `E`.
async fn marker() -> Value {
    let latest = json!({"Item": {
        "PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": "7"}, "RecordedAt": {"S": time(LATE)},
        "V0Id": {"S": "purged"},
    }});
    let replay = Replay::new([json!({}), latest, json!({"Items": []}), json!({}), json!({})]);
    let clock = Clock::new(|| Duration::from_secs(PURGED));
    let store = Store::new(replay.client(), "Table", VersionDigits::default()).with_clock(clock);
    let entity = EntityId::new("E").unwrap();
    // It stops after the marker, because there are no more responses.
    let _ = Purge::new(&store, entity).run(Duration::ZERO, |_| {}).await;
    replay.bodies()[4]["Item"].clone()
}

/// Handles records at `NOW`, compares the operations and the failed records, and returns the requests.
async fn handle(records: &[Value], responses: Vec<Value>, operations: &[&str], failed: &[&str]) -> Vec<Value> {
    let replay = Replay::new(responses);
    let clock = Clock::new(|| Duration::from_secs(NOW));
    let writer = HistoryWriter::new(replay::client(replay.http()), &replay::settings())
        .with_checked_layout()
        .with_clock(clock);
    let event = json!({"Records": records}).to_string();
    let deadline = Deadline::after(Duration::from_secs(60));
    let response = writer.handle(&event, "lambda", deadline).await.unwrap();
    let failures = response.batch_item_failures.into_iter();
    let failures: Vec<_> = failures.map(|failure| failure.item_identifier.unwrap()).collect();
    assert_eq!(
        (replay.operations(), failures),
        (
            operations.iter().map(ToString::to_string).collect(),
            failed.iter().map(ToString::to_string).collect()
        ),
        "{records:?}"
    );
    replay.bodies()
}

fn markers(markers: &[Value]) -> Value {
    json!({"Responses": {"Table": markers}, "UnprocessedKeys": {}})
}

#[tokio::test(start_paused = true)]
async fn only_late_records_need_the_marker() {
    let (purged, none) = (markers(&[marker().await]), markers(&[]));
    let (checked, put, quarantined) = ("BatchGetItem", "PutItem", "TransactWriteItems");
    for (record, marker, expected) in [
        (record(1, "E", NOW), None, vec![put]),
        (record(1, "E", NOW - 19), None, vec![put]),
        (record(7, "E", LATE), Some(&purged), vec![checked]),
        // A later entity with the same key, and entities that were never purged.
        (record(1, "E", LATER), Some(&purged), vec![checked, put]),
        (record(1, "F", LATE), Some(&none), vec![checked, put]),
        // Otherwise, quarantine would keep the data of a purged entity.
        (malformed(LATE), Some(&purged), vec![checked]),
        (malformed(LATER), Some(&purged), vec![checked, quarantined]),
        (malformed(LATE), Some(&none), vec![checked, quarantined]),
    ] {
        let responses = marker.into_iter().cloned().chain([json!({})]).collect();
        handle(&[record], responses, &expected, &[]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_version_below_the_floor_is_not_put_again() {
    let floor = |floor: u64| json!({"PK": {"S": "E"}, "SK": {"S": "floor"}, "Floor": {"N": floor.to_string()}});
    let late = record(7, "E", LATE);
    let mut stored = late["dynamodb"]["NewImage"].clone();
    stored["SK"] = json!({"S": "v7"});
    for name in ["Latest", "RecordedVersion"] {
        stored.as_object_mut().unwrap().remove(name);
    }
    let mut different = stored.clone();
    different["A"] = json!({"S": "other"});
    let (checked, read) = ("BatchGetItem", "GetItem");
    for (floor, found, expected) in [
        // DynamoDB deleted it.
        (floor(8), Some(json!({})), vec![checked, read]),
        // It is pinned, or not expired.
        (floor(8), Some(json!({"Item": stored})), vec![checked, read]),
        (floor(7), None, vec![checked, "PutItem"]),
        // A different item is a conflict, and not lost.
        (
            floor(8),
            Some(json!({"Item": different})),
            vec![checked, read, "TransactWriteItems"],
        ),
    ] {
        let responses = [markers(&[floor])].into_iter().chain(found).chain([json!({})]);
        handle(std::slice::from_ref(&late), responses.collect(), &expected, &[]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_markers_of_a_chunk_are_read_once() {
    let purged = marker().await;
    let records = [
        record(1, "E", LATE),
        record(2, "E", LATE),
        record(3, "F", LATE),
        record(4, "G", NOW),
    ];
    let put = json!({"Responses": [{"TableName": "Table"}, {"TableName": "Table"}]});
    let operations = ["BatchGetItem", "BatchExecuteStatement"];
    let requests = handle(
        &records,
        vec![markers(std::slice::from_ref(&purged)), put],
        &operations,
        &[],
    )
    .await;
    let read = &requests[0]["RequestItems"]["Table"];
    assert_eq!(read["ConsistentRead"], true);
    // The marker and the floor of two entities.
    let keys = read["Keys"].as_array().unwrap();
    assert_eq!(keys.len(), 4);
    for key in [
        json!({"PK": purged["PK"], "SK": purged["SK"]}),
        json!({"PK": {"S": "E"}, "SK": {"S": "floor"}}),
    ] {
        assert!(keys.contains(&key), "{key}");
    }
    assert_eq!(requests[1]["Statements"].as_array().unwrap().len(), 2);
}

/// Returns the marker of an erasure from versions 1 to 7 of `E`, at this second.
async fn erasure(second: u64) -> Value {
    let entry = json!({"M": {"At": {"S": time(second)}, "To": {"N": "7"}, "Reason": {"S": "asked"}}});
    let erasures = json!({r#"["Attribute","Place","Street"]"#: entry, r#"["Metadata","Actor"]"#: entry});
    json!({"PK": marker().await["PK"], "SK": {"S": "purged"}, "Erasures": {"M": erasures}})
}

/// Returns a record with values that were erased.
fn personal(number: u64, second: u64) -> Value {
    let mut record = record(number, "E", second);
    let image = &mut record["dynamodb"]["NewImage"];
    (image["Actor"], image["RequestPayload"]) = (json!({"S": "secret"}), json!({"S": "secret"}));
    image["Place"] = json!({"M": {"Street": {"S": "secret"}, "Hall": {"S": "H1"}}});
    record
}

/// Returns the item that the last request puts, or the record that it puts into quarantine.
fn stored(requests: &[Value]) -> (Value, String) {
    let last = requests.last().unwrap();
    let quarantined = &last["TransactItems"][0]["Put"]["Item"]["Record"]["S"];
    (
        last["Item"].clone(),
        quarantined.as_str().unwrap_or_default().to_owned(),
    )
}

#[tokio::test(start_paused = true)]
async fn a_late_version_is_put_without_what_was_erased() {
    let (erased, mut both) = (erasure(LATE).await, erasure(LATE - 1).await);
    both.as_object_mut()
        .unwrap()
        .extend(marker().await.as_object().unwrap().clone());
    let mut later = both.clone();
    later["Erasures"] = erasure(PURGED + 5).await["Erasures"].clone();
    let (checked, put) = ("BatchGetItem", "PutItem");
    for (record, marker, is_erased) in [
        (personal(7, LATE), Some(&erased), true),
        (personal(8, LATE), Some(&erased), false),
        (personal(7, NOW), None, false),
        // A version of a later entity with the same key, and an erasure from it.
        (personal(1, LATER), Some(&both), false),
        (personal(1, LATER), Some(&later), true),
    ] {
        let operations = marker.map(|_| checked).into_iter().chain([put]).collect::<Vec<_>>();
        let responses = marker
            .into_iter()
            .map(|marker| markers(std::slice::from_ref(marker)))
            .chain([json!({})]);
        let requests = handle(std::slice::from_ref(&record), responses.collect(), &operations, &[]).await;
        let (item, _) = stored(&requests);
        assert_eq!(item.to_string().contains("secret"), !is_erased, "{record} {marker:?}");
        assert_eq!(item["Place"]["M"]["Hall"]["S"], "H1");
        let entries = item["Erased"]["M"]
            .as_object()
            .map(|entries| entries.values().collect::<Vec<_>>());
        let at = if marker == Some(&later) { PURGED + 5 } else { LATE };
        let entry = json!({"M": {"At": {"S": time(at)}, "Reason": {"S": "asked"}}});
        assert_eq!(entries, is_erased.then(|| vec![&entry; 2]), "{record} {marker:?}");
    }
    // Two versions are one batch.
    let responses = vec![
        markers(&[erased]),
        json!({"Responses": [{"TableName": "Table"}, {"TableName": "Table"}]}),
    ];
    let records = [personal(6, LATE), personal(7, LATE)];
    let requests = handle(&records, responses, &[checked, "BatchExecuteStatement"], &[]).await;
    assert!(!requests[1].to_string().contains("secret"));
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_delivered_again_after_an_erasure_finds_its_version() {
    let erased = markers(&[erasure(LATE).await]);
    let entry = json!({"M": {"At": {"S": time(LATE)}, "Reason": {"S": "asked"}, "Commitment": {"B": "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="}}});
    let (checked, put, quarantined) = ("BatchGetItem", "PutItem", "TransactWriteItems");
    for (second, hall, expected) in [
        (LATE, "H1", vec![checked, put]),
        (NOW, "H1", vec![put]),
        // A real difference is one.
        (LATE, "H2", vec![checked, put, quarantined]),
    ] {
        let record = personal(7, second);
        let mut item = record["dynamodb"]["NewImage"].clone();
        for name in ["Latest", "RecordedVersion", "Actor", "RequestPayload"] {
            item.as_object_mut().unwrap().remove(name);
        }
        (item["SK"], item["Place"]) = (json!({"S": "v7"}), json!({"M": {"Hall": {"S": hall}}}));
        item["Erased"] = json!({"M": {r#"["Attribute","Place","Street"]"#: entry, r#"["Metadata","Actor"]"#: entry}});
        let taken = json!({"__type": "ConditionalCheckFailedException", "Item": item});
        let responses = [erased.clone()].into_iter().filter(|_| second == LATE);
        let requests = handle(&[record], responses.chain([taken, json!({})]).collect(), &expected, &[]).await;
        let (_, quarantined) = stored(&requests);
        assert_eq!(
            (quarantined.is_empty(), quarantined.contains("secret")),
            (hall == "H1", false)
        );
    }
    // A record without a version.
    for (second, is_erased) in [(LATE + 10, true), (LATE + 11, false)] {
        let mut malformed = personal(7, second);
        malformed["dynamodb"]["NewImage"]["Latest"] = json!({"S": "seven"});
        let requests = handle(
            &[malformed],
            vec![erased.clone(), json!({})],
            &[checked, quarantined],
            &[],
        )
        .await;
        let (_, text) = stored(&requests);
        assert_eq!((text.contains("H1"), text.contains("secret")), (true, !is_erased));
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_marker_the_record_fails_and_is_retried() {
    let invalid = json!({"PK": marker().await["PK"], "SK": {"S": "purged"}, "PurgedAt": {"S": "yesterday"}});
    let mut unknown = marker().await;
    unknown["Erasures"] = json!({"M": {"x": {"S": "y"}}});
    let lost = json!({"__type": "InternalServerError"});
    for (response, attempts) in [
        (lost.clone(), 3),
        (json!({"__type": "AccessDeniedException"}), 2),
        (json!({"__type": "ThrottlingException"}), 3),
        (markers(&[invalid]), 2),
        (markers(&[unknown]), 2),
    ] {
        let responses = [vec![lost.clone()], vec![response.clone(); 9]].concat();
        handle(
            &[record(7, "E", LATE)],
            responses,
            &vec!["BatchGetItem"; attempts],
            &["7"],
        )
        .await;
    }
    // A fresh record of the same batch is put.
    let responses = vec![json!({"__type": "AccessDeniedException"}), json!({})];
    let records = [record(7, "E", LATE), record(8, "F", NOW)];
    handle(&records, responses, &["BatchGetItem", "PutItem"], &["7"]).await;
}
