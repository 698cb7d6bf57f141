//! Stream records that can never become a version, with replayed responses.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json};
use shared::clock::Deadline;
use stream_fn::HistoryWriter;
use testkit::replay::{self, NeverClient, Replay};

const LEFT: Duration = Duration::from_secs(60);

fn record(number: &str, latest: &Value) -> Value {
    let keys = json!({"PK": {"S": "E"}, "SK": {"S": "v0"}});
    let image = json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": latest, "A": {"S": "secret"}});
    let mut change = json!({"Keys": keys, "NewImage": image, "SequenceNumber": number});
    // Older records need the purge marker.
    change["ApproximateCreationDateTime"] = json!(shared::clock::since_epoch().as_secs());
    json!({"eventName": "MODIFY", "dynamodb": change})
}

fn batch(records: &[Value]) -> String {
    json!({"Records": records}).to_string()
}

/// Returns the item identifiers of the failed records, or the type of the error.
async fn failed(writer: &HistoryWriter, records: &[Value], left: Duration) -> Result<Vec<String>, String> {
    let response = writer.handle(&batch(records), "lambda", Deadline::after(left)).await;
    let response = response.map_err(|error| lambda_runtime::Diagnostic::from(error).error_type)?;
    let failures = response.batch_item_failures.into_iter();
    Ok(failures.filter_map(|failure| failure.item_identifier).collect())
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
            let writer = HistoryWriter::new(replay.client(), &replay::settings()).with_checked_layout();
            let record = record("42", latest);
            assert_eq!(
                failed(&writer, std::slice::from_ref(&record), LEFT).await,
                Ok(vec![]),
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
async fn a_record_that_is_not_quarantined_fails() {
    let malformed = json!({"S": "7"});
    for error in [
        json!({"__type": "ProvisionedThroughputExceededException"}),
        json!({"__type": "InternalServerError"}),
        json!({"__type": "AccessDeniedException"}),
        cancelled("ThrottlingError"),
        cancelled("TransactionConflict"),
        cancelled("ValidationError"),
    ] {
        let replay = Replay::new(vec![error.clone(); 12]);
        let writer = HistoryWriter::new(replay.client(), &replay::settings()).with_checked_layout();
        let failed = failed(&writer, &[record("42", &malformed)], LEFT).await;
        assert_eq!(failed, Ok(vec!["42".to_owned()]), "{error}");
    }
    // Without a response, and without time for a request.
    for left in [Duration::from_secs(5), Duration::ZERO] {
        let start = tokio::time::Instant::now();
        let writer = HistoryWriter::new(replay::client(NeverClient::new()), &replay::settings()).with_checked_layout();
        let failed = failed(&writer, &[record("42", &malformed)], left).await;
        assert_eq!(failed, Ok(vec!["42".to_owned()]), "{left:?}");
        assert!(start.elapsed() <= left, "{:?} of {left:?}", start.elapsed());
    }
}

#[tokio::test]
async fn a_record_without_a_valid_key_or_number_fails() {
    let malformed = json!({"S": "7"});
    let replay = Replay::new([]);
    let writer = HistoryWriter::new(replay.client(), &replay::settings()).with_checked_layout();
    for pk in [json!({"N": "7"}), json!({"S": ""}), json!({"S": "x".repeat(2049)})] {
        let mut record = record("42", &malformed);
        record["dynamodb"]["Keys"]["PK"] = pk.clone();
        assert_eq!(
            failed(&writer, &[record], LEFT).await,
            Ok(vec!["42".to_owned()]),
            "{pk}"
        );
    }
    let mut record = record("42", &malformed);
    record["dynamodb"]["SequenceNumber"] = Value::Null;
    assert_eq!(failed(&writer, &[record], LEFT).await, Err("Malformed".to_owned()));
    assert!(replay.requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_a_retry_can_resolve_is_not_quarantined() {
    for error in [
        "ProvisionedThroughputExceededException",
        "InternalServerError",
        "AccessDeniedException",
    ] {
        let replay = Replay::new(vec![json!({"__type": error}); 12]);
        let writer = HistoryWriter::new(replay.client(), &replay::settings()).with_checked_layout();
        let failed = failed(&writer, &[record("42", &json!({"N": "7"}))], LEFT).await;
        assert_eq!(failed, Ok(vec!["42".to_owned()]), "{error}");
        assert!(
            replay.operations().iter().all(|operation| operation == "PutItem"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_replay_quarantines_nothing() {
    let replay = Replay::new([]);
    let store = shared::dynamodb::Store::new(replay.client(), "Table", shared::domain::keys::VersionDigits::default());
    let record = record("42", &json!({"S": "7"})).to_string();
    let processed = HistoryWriter::from_store(store)
        .process(vec![&record], Deadline::after(LEFT))
        .await;
    assert!(
        matches!(processed[0].outcome, stream_fn::response::Outcome::Failed { .. }),
        "{processed:?}"
    );
    assert!(replay.requests().is_empty());
}

/// The record is kept as Kinesis delivered it, so that a redrive reads it in the same way.
#[tokio::test]
async fn a_record_of_a_kinesis_stream_is_quarantined() {
    let replay = Replay::new([json!({})]);
    let writer = HistoryWriter::new(replay.client(), &replay::settings()).with_checked_layout();
    let mut change = record("42", &json!({"S": "7"}));
    change["dynamodb"]["SequenceNumber"] = Value::Null;
    // Kinesis gives milliseconds.
    change["dynamodb"]["ApproximateCreationDateTime"] =
        json!(u64::try_from(shared::clock::since_epoch().as_millis()).unwrap());
    let kinesis = json!({"kinesis": {"data": BASE64.encode(change.to_string()), "sequenceNumber": "43"}});
    assert_eq!(failed(&writer, std::slice::from_ref(&kinesis), LEFT).await, Ok(vec![]));
    let item = replay.requests().pop().unwrap().1["TransactItems"][0]["Put"]["Item"].clone();
    assert_eq!(item["SK"], json!({"S": "quarantine#43"}));
    let stored = item["Record"]["S"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(stored).unwrap(), kinesis);
    assert_eq!(stream_fn::record::to_json(stored), change);
}
