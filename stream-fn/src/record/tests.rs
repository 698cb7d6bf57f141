//! Valid and malformed records of both kinds of streams.

use proptest::prelude::*;
use serde_json::json;
use shared::logging::chain;
use testkit::cases::{cases, patched};

use super::*;

fn record(event_name: &str, sort_key: &str, image: Value) -> Value {
    json!({
        "eventName": event_name,
        "dynamodb": {"Keys": {"PK": {"S": "E"}, "SK": {"S": sort_key}}, "NewImage": image, "SequenceNumber": "111"},
    })
}

fn image() -> Value {
    json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": "3"}, "A": {"S": "a"}})
}

fn parsed(record: &str) -> Record {
    parse(record, VersionDigits::default())
}

#[test]
fn insert_and_modify_of_the_latest_item_contain_a_version() {
    for name in ["INSERT", "MODIFY"] {
        let parsed = parsed(&record(name, "v0", image()).to_string());
        assert_eq!(parsed.sequence_number, SequenceNumber::new("111"));
        let Ok(Content::Version(version)) = parsed.content else {
            panic!("{name}")
        };
        assert_eq!(version.version().get(), 3);
    }
}

#[test]
fn a_record_whose_parsing_panics_has_its_number() {
    let record = record("MODIFY", "v0", image());
    for (record, number) in [(&record, "111"), (&in_kinesis(&record), "49571")] {
        let caught = caught(&record.to_string(), |_| -> Record { panic!("a defect") });
        assert_eq!(caught.sequence_number, SequenceNumber::new(number));
        assert!(matches!(caught.content, Err(RecordFailure::Panicked(_))));
    }
}

fn in_kinesis(record: &Value) -> Value {
    json!({"kinesis": {"data": BASE64.encode(record.to_string()), "sequenceNumber": "49571"}, "eventName": "aws:kinesis:record"})
}

#[test]
fn a_kinesis_record_contains_the_same_stream_record() {
    let mut inner = record("MODIFY", "v0", image());
    inner["dynamodb"].as_object_mut().unwrap().remove("SequenceNumber");
    inner["dynamodb"]["ApproximateCreationDateTime"] = json!(1_604_261_040_123_456_u64);
    for (precision, millis) in [
        (json!("MICROSECOND"), 1_604_261_040_123),
        (json!("MILLISECOND"), 1_604_261_040_123_456),
        (json!(null), 1_604_261_040_123_456),
    ] {
        inner["dynamodb"]["ApproximateCreationDateTimePrecision"] = precision;
        let parsed = parsed(&in_kinesis(&inner).to_string());
        assert_eq!(parsed.sequence_number, SequenceNumber::new("49571"));
        assert_eq!(parsed.created().map(EpochMillis::get), Some(millis));
        assert!(matches!(parsed.content, Ok(Content::Version(version)) if version.version().get() == 3));
    }
    for skipped in [record("REMOVE", "v0", image()), record("MODIFY", "v1", image())] {
        assert!(matches!(
            parsed(&in_kinesis(&skipped).to_string()).content,
            Ok(Content::Skipped)
        ));
    }
    // The sequence number is that of the Kinesis record, also if its data cannot be parsed.
    let mut broken = in_kinesis(&inner);
    for data in [
        json!("!"),
        json!("/w=="),
        json!("e30="),
        json!("W10="),
        json!(7),
        json!(null),
    ] {
        broken["kinesis"]["data"] = data.clone();
        let parsed = parsed(&broken.to_string());
        assert_eq!(parsed.sequence_number, SequenceNumber::new("49571"), "{data}");
        assert!(parsed.content.is_err(), "{data}");
    }
    // A Kinesis record inside a Kinesis record is malformed.
    assert!(parsed(&in_kinesis(&in_kinesis(&inner)).to_string()).content.is_err());
}

#[test]
fn creation_times_of_a_dynamodb_stream_are_seconds() {
    for (time, millis) in [
        (json!(1_604_261_040), Some(1_604_261_040_000)),
        (json!(1_604_261_040.5), Some(1_604_261_040_500)),
        (json!(1.604_261_04E9), Some(1_604_261_040_000)),
        (json!("x"), None),
        (json!(null), None),
    ] {
        let mut record = record("INSERT", "v0", image());
        record["dynamodb"]["ApproximateCreationDateTime"] = time.clone();
        let created = parsed(&record.to_string()).created();
        assert_eq!(created.map(EpochMillis::get), millis, "{time}");
    }
}

#[test]
fn records_of_other_items_are_skipped() {
    for record in [
        record("INSERT", "v3", image()),
        record("MODIFY", "Metadata", image()),
        record("MODIFY", "v00", image()),
        record("REMOVE", "v0", json!(null)),
        json!({"eventName": "REMOVE", "dynamodb": {"Keys": {"SK": {"S": "v0"}}}}),
        json!({"eventName": "REMOVE", "dynamodb": {}}),
        json!({"eventName": "INSERT", "dynamodb": {"Keys": {"SK": {"N": "0"}}}}),
    ] {
        let content = parsed(&record.to_string()).content;
        assert!(matches!(content, Ok(Content::Skipped)), "{record}");
    }
}

/// The types of `aws_lambda_events` reject most of these records.
#[test]
fn unused_members_can_be_absent_or_of_any_type() {
    const CHANGES: &str = r#"
        ["/userIdentity", null]                                       -> 3
        ["/userIdentity", []]                                         -> 3
        ["/a new member", 7]                                          -> 3
        ["/eventSource", 7]                                           -> 3
        ["/eventID", null]                                            -> 3
        ["/eventVersion", 1.1]                                        -> 3
        ["/dynamodb/SizeBytes", "many"]                               -> 3
        ["/dynamodb/StreamViewType", "NEW_AND_OLDER_IMAGES"]          -> 3
        ["/dynamodb/ApproximateCreationDateTime", "soon"]             -> 3
        ["/dynamodb/ApproximateCreationDateTime", {}]                 -> 3
        ["/dynamodb/OldImage", {"A": {"a new type": 7}}]              -> 3
        // The largest attribute of a latest item, which is not part of a version.
        ["/dynamodb/NewImage/RecentRequests", {"M": {"hash": {"N": "3"}}}] -> 3
        ["/dynamodb/NewImage/RecentRequests", {"a new type": 7}]      -> 3
        ["/dynamodb/NewImage/RecentRequests", 7]                      -> 3
    "#;
    for (patch, expected) in cases(CHANGES) {
        let parsed = parsed(&patched(record("MODIFY", "v0", image()), &patch).to_string());
        assert_eq!(parsed.sequence_number, SequenceNumber::new("111"), "{patch}");
        let version = parsed.version().unwrap();
        assert_eq!(version.version().to_string(), expected, "{patch}");
        assert!(!version.item().contains_key("RecentRequests"));
    }
}

#[test]
fn malformed_records_have_a_specific_error() {
    // Changes of a valid record.
    const MALFORMED: &str = r#"
        ["/dynamodb"]                                         -> it is not a stream record
        ["/dynamodb", 7]                                      -> it is not a stream record
        ["/dynamodb/Keys"]                                    -> its keys are missing
        ["/dynamodb/NewImage/PK", {"S": "Other"}]             -> its keys are not those of its NewImage
        ["/dynamodb/NewImage"]                                -> it has no NewImage
        ["/dynamodb/NewImage", null]                          -> it has no NewImage
        ["/dynamodb/NewImage", []]                            -> it has no NewImage
        ["/eventName", "UPSERT"]                              -> its eventName is none of INSERT, MODIFY and REMOVE
        ["/dynamodb/NewImage/Latest", {"S": "3"}]             -> its NewImage is not a valid version: Latest is not a number
        ["/dynamodb/NewImage/Latest", {"N": "3.5"}]           -> its NewImage is not a valid version: Latest is not a whole number
        ["/dynamodb/NewImage/Latest", {"N": "0"}]             -> its NewImage is not a valid version: Latest is below 1
        ["/dynamodb/NewImage/Latest"]                         -> its NewImage is not a valid version: Latest is missing
        ["/dynamodb/NewImage/A", {"Q": "secret"}]             -> ATTRIBUTE
        ["/dynamodb/NewImage/A", {"B": "secret!"}]            -> ATTRIBUTE
        ["/dynamodb/NewImage/A", {"L": [{"BS": ["secret!"]}]}] -> ATTRIBUTE
        ["/dynamodb/NewImage/A", "secret"]                    -> ATTRIBUTE
    "#;
    const ATTRIBUTE: &str = "the attribute A cannot be read: it is of an unknown type, its value is not of that type, or it is not valid base64";
    for (patch, message) in cases(&MALFORMED.replace("ATTRIBUTE", ATTRIBUTE)) {
        let record = patched(record("MODIFY", "v0", image()), &patch);
        let failure = parsed(&record.to_string()).content.err().unwrap();
        assert_eq!(
            chain(&failure),
            format!("the record is malformed: {message}"),
            "{record}"
        );
        assert!(!format!("{failure:?}").contains("secret"), "{failure:?}");
    }
    for text in ["[]", "7", "{}"] {
        let failure = parsed(text).content.err().unwrap();
        assert_eq!(chain(&failure), "the record is malformed: it is not a stream record");
    }
}

#[test]
fn a_record_whose_image_is_no_object_has_its_number() {
    for image in [json!([]), json!(7), json!("text")] {
        let parsed = parsed(&record("MODIFY", "v0", image).to_string());
        assert_eq!(parsed.sequence_number, SequenceNumber::new("111"));
        assert!(parsed.content.is_err());
    }
}

#[test]
fn the_last_member_of_a_record_counts() {
    let record = record("MODIFY", "v0", image()).to_string();
    for earlier in [
        r#"{"dynamodb": 7,"#,
        r#"{"dynamodb": {"NewImage": []},"#,
        r#"{"kinesis": 7, "kinesis": null,"#,
    ] {
        let parsed = parsed(&record.replacen('{', earlier, 1));
        assert_eq!(parsed.version().unwrap().version().to_string(), "3", "{earlier}");
        assert_eq!(parsed.sequence_number, SequenceNumber::new("111"), "{earlier}");
    }
}

#[test]
fn a_sequence_number_is_a_non_empty_string() {
    for (number, expected) in [
        (json!("7"), SequenceNumber::new("7")),
        (json!(""), None),
        (json!(7), None),
        (json!(null), None),
    ] {
        let mut record = record("INSERT", "v0", image());
        record["dynamodb"]["SequenceNumber"] = number.clone();
        assert_eq!(parsed(&record.to_string()).sequence_number, expected, "{number}");
    }
}

proptest! {
    #[test]
    fn parsing_never_panics(name in "INSERT|MODIFY|REMOVE|x", keys in any_json(), image in any_json()) {
        let record = json!({"eventName": name, "dynamodb": {"Keys": keys, "NewImage": image, "SequenceNumber": "1"}});
        let _ = parsed(&record.to_string());
        let image = json!({"PK": {"S": "E"}, "Latest": {"N": "1"}, "A": image});
        let _ = parsed(&json!({"eventName": name, "dynamodb": {"Keys": {"SK": {"S": "v0"}}, "NewImage": image}}).to_string());
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|b| json!(b)),
        any::<i64>().prop_map(|n| json!(n)),
        "\\PC{0,8}".prop_map(|s| json!(s)),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let tag = "S|N|B|M|L|SS|NS|BS|BOOL|NULL|PK|SK|Latest|X";
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((tag, inner), 0..4).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}
