//! Stream records that the types of `aws_lambda_events` reject as a whole or read differently. See
//! `docs/adr/0022-event-types.md`. If a newer version of the crate reads one of them, a test fails.

use aws_lambda_events::event::{dynamodb::EventRecord, kinesis::KinesisEventRecord};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json};
use shared::domain::{keys::VersionDigits, sequence::SequenceNumber};
use stream_fn::record::{self, Content, Record};

fn parsed(record: &Value) -> Record {
    let raw = record.to_string();
    record::parse(&raw, VersionDigits::default())
}

fn by_crate(record: &Value) -> Result<EventRecord, serde_json::Error> {
    serde_json::from_str(&record.to_string())
}

fn stream_record() -> Value {
    let image = json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": "3"}, "A": {"S": "a"}});
    json!({
        "eventID": "1", "eventName": "MODIFY", "awsRegion": "eu-central-1",
        "dynamodb": {
            "ApproximateCreationDateTime": 1_604_261_040, "Keys": {"PK": {"S": "E"}, "SK": {"S": "v0"}}, "NewImage": image,
            "SequenceNumber": "111", "SizeBytes": 26, "StreamViewType": "NEW_IMAGE",
        },
    })
}

/// Sets a member, or removes it.
fn with(mut record: Value, pointer: &str, value: Option<Value>) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let members = record.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    match value {
        Some(value) => members.insert(name.to_owned(), value),
        None => members.remove(name),
    };
    record
}

fn assert_version(parsed: &Record, number: &str, case: &Value) {
    assert_eq!(parsed.sequence_number, SequenceNumber::new(number), "{case}");
    match &parsed.content {
        Ok(Content::Version(version)) => assert_eq!(version.version().get(), 3, "{case}"),
        other => panic!("{case}: {other:?}"),
    }
}

#[test]
fn unused_members_of_a_stream_record_can_have_any_type() {
    for (pointer, value, is_accepted_by_crate) in [
        ("/userIdentity", Some(json!(null)), true),
        ("/a new member", Some(json!(7)), true),
        ("/awsRegion", None, false),
        ("/eventID", None, false),
        ("/eventID", Some(json!(null)), false),
        ("/eventVersion", Some(json!(1.1)), false),
        ("/userIdentity", Some(json!("user")), false),
        ("/dynamodb/SizeBytes", None, false),
        ("/dynamodb/SizeBytes", Some(json!("26")), false),
        ("/dynamodb/StreamViewType", Some(json!("NEW_AND_OLDER_IMAGES")), false),
        ("/dynamodb/ApproximateCreationDateTime", Some(json!("soon")), false),
        ("/dynamodb/OldImage", Some(json!({"A": {"a new type": 7}})), false),
        // The largest attribute of a latest item, which is not part of a version.
        (
            "/dynamodb/NewImage/RecentRequests",
            Some(json!({"a new type": 7})),
            false,
        ),
    ] {
        let record = with(stream_record(), pointer, value);
        assert_eq!(by_crate(&record).is_ok(), is_accepted_by_crate, "{record}");
        assert_version(&parsed(&record), "111", &record);
    }
}

/// The response names the record. Without its number, the whole batch would fail.
#[test]
fn a_malformed_stream_record_keeps_its_number() {
    for (pointer, value, is_accepted_by_crate) in [
        ("/dynamodb/NewImage/A", Some(json!({"a new type": 7})), false),
        ("/dynamodb/NewImage/A", Some(json!({"B": "!"})), false),
        ("/eventName", None, false),
        // An image without attributes in the crate.
        ("/dynamodb/NewImage", None, true),
        ("/dynamodb/NewImage", Some(json!(null)), true),
    ] {
        let record = with(stream_record(), pointer, value);
        assert_eq!(by_crate(&record).is_ok(), is_accepted_by_crate, "{record}");
        let parsed = parsed(&record);
        assert_eq!(parsed.sequence_number, SequenceNumber::new("111"), "{record}");
        assert!(parsed.content.is_err(), "{record}");
    }
}

#[test]
fn the_crate_reads_other_creation_times() {
    for (created, expected, of_crate) in [
        (Some(json!(1_604_261_040)), Some(1_604_261_040_000), 1_604_261_040_000),
        (Some(json!(1_604_261_040.5)), Some(1_604_261_040_500), 1_604_261_040_000),
        (None, None, 0),
    ] {
        let record = with(stream_record(), "/dynamodb/ApproximateCreationDateTime", created);
        let found = parsed(&record).created.map(shared::domain::time::EpochMillis::get);
        assert_eq!(found, expected, "{record}");
        let found = by_crate(&record).unwrap().change.approximate_creation_date_time;
        assert_eq!(found.timestamp_millis(), of_crate, "{record}");
    }
}

/// `serde_json/arbitrary_precision`, which keeps all digits of numbers, is incompatible with the untagged enum of the crate's
/// `SecondTimestamp`. Arrival times of Kinesis have decimal places.
#[test]
fn the_crate_reads_no_kinesis_record() {
    let data = with(stream_record(), "/dynamodb/SequenceNumber", None);
    let kinesis = json!({
        "eventID": "shardId-000000000006:49590338271490256608559692538361571095921575989136588898",
        "eventName": "aws:kinesis:record", "eventSource": "aws:kinesis", "eventVersion": "1.0", "awsRegion": "eu-central-1",
        "kinesis": {
            "approximateArrivalTimestamp": 1_545_084_650.987, "data": BASE64.encode(data.to_string()), "partitionKey": "1",
            "sequenceNumber": "49590338271490256608559692538361571095921575989136588898", "kinesisSchemaVersion": "1.0",
        },
    });
    let by_crate = serde_json::from_str::<KinesisEventRecord>(&kinesis.to_string());
    assert!(by_crate.is_err());
    let number = "49590338271490256608559692538361571095921575989136588898";
    assert_version(&parsed(&kinesis), number, &kinesis);
}
