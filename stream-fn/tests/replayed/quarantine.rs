//! Stream records that can never become a version, with replayed responses.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json};
use shared::{clock, clock::Deadline, domain::keys::VersionDigits, dynamodb::Store};
use stream_fn::{HistoryWriter, Purpose, response::Outcome};
use testkit::replay::{NeverClient, Replay};

use super::{LEFT, batch, failed, handle, latest_keys, writer};

fn record(number: &str, latest: &Value) -> Value {
    super::record(
        number,
        &latest_keys("E"),
        &json!({"Latest": latest, "A": {"S": "secret"}}),
    )
}

fn conflict() -> Value {
    json!({"__type": "ConditionalCheckFailedException", "Item": {"PK": {"S": "E"}, "SK": {"S": "v7"}, "A": {"S": "other"}}})
}

fn cancelled(code: &str) -> Value {
    json!({"__type": "TransactionCanceledException", "CancellationReasons": [{"Code": code}]})
}

#[tokio::test(start_paused = true)]
async fn a_record_that_can_never_become_a_version_does_not_fail() {
    let seven = json!({"N": "7"});
    let malformed = json!({"S": "7"});
    let too_large =
        json!({"__type": "ValidationException", "message": "Item size has exceeded the maximum allowed size"});
    for (latest, puts, kind, version) in [
        (&seven, vec![conflict()], "Conflict", json!({"N": "7"})),
        // The second put is that of the compact form.
        (&seven, vec![too_large; 2], "Rejected", json!({"N": "7"})),
        (&malformed, vec![], "Malformed", Value::Null),
    ] {
        // The second time, an earlier delivery of the record is in quarantine.
        for quarantined in [json!({}), cancelled("ConditionalCheckFailed")] {
            let replay = Replay::new(puts.clone().into_iter().chain([quarantined]));
            let writer = writer(replay.http());
            let record = record("42", latest);
            assert_eq!(
                failed(&writer, std::slice::from_ref(&record), LEFT).await,
                [""; 0],
                "{kind}"
            );
            let (operation, body) = replay.requests().pop().unwrap();
            assert_eq!(operation, "TransactWriteItems", "{kind}");
            let put = &body["TransactItems"][0]["Put"];
            assert_eq!(put["ConditionExpression"], "attribute_not_exists(#pk)");
            let item = &put["Item"];
            assert_eq!(
                [&item["PK"], &item["SK"], &item["Kind"], &item["Version"]],
                [
                    &json!({"S": "E"}),
                    &json!({"S": "quarantine#42"}),
                    &json!({"S": kind}),
                    &version
                ]
            );
            let stored: Value = serde_json::from_str(item["Record"]["S"].as_str().unwrap()).unwrap();
            assert_eq!(stored, record, "{kind}");
            let reason = item["Reason"]["S"].as_str().unwrap();
            assert!(!reason.is_empty() && !reason.contains("secret"), "{reason}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_put_or_quarantined_now_fails() {
    let (seven, malformed) = (json!({"N": "7"}), json!({"S": "7"}));
    let errors = [
        "ProvisionedThroughputExceededException",
        "InternalServerError",
        "AccessDeniedException",
    ];
    let errors = errors.map(|code| json!({"__type": code}));
    // A retry can put the version.
    let of_put = errors.iter().map(|error| (&seven, error.clone()));
    let reasons = ["ThrottlingError", "TransactionConflict", "ValidationError"].map(cancelled);
    let of_quarantine = errors.iter().cloned().chain(reasons);
    for (latest, error) in of_put.chain(of_quarantine.map(|error| (&malformed, error))) {
        let replay = Replay::new(vec![error.clone(); 12]);
        let failed = failed(&writer(replay.http()), &[record("42", latest)], LEFT).await;
        assert_eq!(failed, ["42"], "{error}");
        let is_put = replay.operations().iter().all(|operation| operation == "PutItem");
        assert_eq!(is_put, *latest == seven, "{error}");
    }
    // Without a response, and without time for a request.
    for left in [Duration::from_secs(5), Duration::ZERO] {
        let start = tokio::time::Instant::now();
        let writer = writer(NeverClient::new());
        let failed = failed(&writer, &[record("42", &malformed)], left).await;
        assert_eq!(failed, ["42"], "{left:?}");
        assert!(start.elapsed() <= left, "{:?} of {left:?}", start.elapsed());
    }
}

#[tokio::test]
async fn a_record_without_a_valid_key_or_number_fails() {
    let malformed = json!({"S": "7"});
    let replay = Replay::new([]);
    let writer = writer(replay.http());
    for pk in [json!({"N": "7"}), json!({"S": ""}), json!({"S": "x".repeat(2049)})] {
        let mut record = record("42", &malformed);
        record["dynamodb"]["Keys"]["PK"] = pk.clone();
        assert_eq!(failed(&writer, &[record], LEFT).await, ["42"], "{pk}");
    }
    let mut record = record("42", &malformed);
    record["dynamodb"]["SequenceNumber"] = Value::Null;
    let error = handle(&writer, &batch(&[record]), LEFT).await.unwrap_err();
    assert_eq!(error.error_type, "Malformed");
    assert!(replay.requests().is_empty());
}

#[tokio::test]
async fn a_replay_quarantines_nothing() {
    let replay = Replay::new([]);
    let store = Store::new(replay.client(), "Table", VersionDigits::default());
    let record = record("42", &json!({"S": "7"})).to_string();
    let processed = HistoryWriter::from_store(store, Purpose::Redrive)
        .process(vec![&record], Deadline::after(LEFT))
        .await;
    assert!(matches!(processed[0].outcome, Outcome::Failed { .. }), "{processed:?}");
    assert!(replay.requests().is_empty());
}

/// The record is kept as Kinesis delivered it, so that a redrive reads it in the same way.
#[tokio::test]
async fn a_record_of_a_kinesis_stream_is_quarantined() {
    let replay = Replay::new([json!({})]);
    let writer = writer(replay.http());
    let mut change = record("42", &json!({"S": "7"}));
    change["dynamodb"]["SequenceNumber"] = Value::Null;
    // Kinesis gives milliseconds.
    change["dynamodb"]["ApproximateCreationDateTime"] = json!(u64::try_from(clock::since_epoch().as_millis()).unwrap());
    let kinesis =
        |change: &Value| json!({"kinesis": {"data": BASE64.encode(change.to_string()), "sequenceNumber": "43"}});
    // The stream can have the changes of other tables.
    change["tableName"] = json!("Other");
    assert_eq!(failed(&writer, &[kinesis(&change)], LEFT).await, [""; 0]);
    assert!(replay.requests().is_empty());
    change["tableName"] = json!("Table");
    let kinesis = kinesis(&change);
    assert_eq!(failed(&writer, std::slice::from_ref(&kinesis), LEFT).await, [""; 0]);
    let item = replay.requests().pop().unwrap().1["TransactItems"][0]["Put"]["Item"].clone();
    assert_eq!(item["SK"], json!({"S": "quarantine#43"}));
    let stored = item["Record"]["S"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(stored).unwrap(), kinesis);
    assert_eq!(stream_fn::record::to_json(stored), change);
}
