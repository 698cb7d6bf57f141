//! The record parser of stream-fn.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use operations::latest::latest_from;
use serde_json::{Value, json};
use shared::{
    domain::{
        keys::{LATEST_KEY, VersionDigits},
        names,
        sequence::SequenceNumber,
        version::Version,
    },
    json,
};
use stream_fn::record::{Content, parse, split, unwrap_kinesis};

use crate::errors;

/// Parses the input as a batch of stream records. Every record must be parsed, skipped or rejected separately, exactly once. A
/// record created from a version item must contain the same version item.
pub fn records(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let json = json::parse(text).ok();
    let records = match split(text) {
        Ok(records) => records,
        Err(error) => return errors::check(&error, ""),
    };
    if let Some(Value::Array(all)) = json.as_ref().and_then(|json| json.get("Records")) {
        assert_eq!(records.len(), all.len(), "a record is lost or duplicated");
    }
    let names = json.as_ref().map(errors::names).unwrap_or_default();
    for raw in records {
        let inner = unwrapped(raw).and_then(|inner| json::parse(&inner).ok());
        let names = names.clone() + &inner.as_ref().map(errors::names).unwrap_or_default();
        if inner.is_none() {
            check_in_kinesis(raw);
        }
        for digits in [1, 10].into_iter().filter_map(VersionDigits::new) {
            match parse(raw, digits).content {
                Ok(Content::Skipped) => {}
                Ok(Content::Version(version)) => {
                    let item = version.item();
                    assert!(!item.contains_key(names::LATEST), "a version item with the counter");
                    let key = serde_json::to_value(&item[names::SK]).unwrap_or_default();
                    assert_eq!(key, json!({"S": digits.version_key(version.version())}));
                    let record = record_of(item, version.version().get());
                    let Ok(Content::Version(again)) = parse(&record, digits).content else {
                        panic!("the record of a version item contains no version")
                    };
                    assert!(again.is_same_as(item), "a different version item");
                }
                // If the text is nested too deeply for a JSON value, its names are unknown, and any name is allowed.
                Err(failure) => {
                    let names = if json.is_some() { names.as_str() } else { "secret" };
                    errors::check(&failure, names);
                }
            }
        }
    }
}

/// Returns the stream record in a Kinesis record.
fn unwrapped(raw: &str) -> Option<String> {
    let record = json::parse(raw).ok()?;
    unwrap_kinesis(record.get("kinesis")?["data"].as_str()?)
}

/// A record must have the same content inside a Kinesis record, except for its sequence number.
fn check_in_kinesis(raw: &str) {
    let digits = VersionDigits::default();
    let alone = parse(raw, digits).content;
    let record = json!({"kinesis": {"data": BASE64.encode(raw), "sequenceNumber": "7"}});
    let wrapped = parse(&record.to_string(), digits);
    assert_eq!(wrapped.sequence_number.as_ref().map(SequenceNumber::as_str), Some("7"));
    match (alone, wrapped.content) {
        (Ok(Content::Skipped), Ok(Content::Skipped)) | (Err(_), Err(_)) => {}
        (Ok(Content::Version(alone)), Ok(Content::Version(inner))) => {
            // The stream and Kinesis give times of different precision.
            assert!(alone.is_same_as(inner.item()), "a different version in Kinesis");
        }
        (alone, inner) => panic!("valid: {} alone, {} in a Kinesis record", alone.is_ok(), inner.is_ok()),
    }
}

fn record_of(item: &shared::domain::Item, version: u64) -> String {
    let version = Version::new(version).unwrap_or(Version::FIRST);
    let image = serde_json::to_value(latest_from(item.clone(), version)).unwrap_or_default();
    let keys = json!({"PK": image[names::PK], "SK": {"S": LATEST_KEY}});
    let change = json!({"Keys": keys, "NewImage": image, "SequenceNumber": "1"});
    json!({"eventName": "MODIFY", "dynamodb": change}).to_string()
}
