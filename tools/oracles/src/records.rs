//! The record splitter of stream-fn.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json, value::RawValue};
use shared::domain::{attributes::same_item, keys::VersionDigits, names, sequence::SequenceNumber};
use stream_fn::record::{Content, parse, split, unwrap_kinesis};

/// An event of stream-fn. Each record is read, skipped or refused by itself, none is lost, and a version item that is put
/// back into a record is read from it again.
pub fn records(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(event) = RawValue::from_string(text.to_owned()) else {
        return;
    };
    let json = serde_json::from_str::<Value>(text).ok();
    let records = match split(&event) {
        Ok(records) => records,
        Err(error) => return crate::check_error(&error, &format!("{error:?}"), ""),
    };
    if let Some(Value::Array(all)) = json.as_ref().and_then(|json| json.get("Records")) {
        assert_eq!(records.len(), all.len(), "a record is lost, or comes up twice");
    }
    let names = json.as_ref().map(crate::names).unwrap_or_default();
    for raw in records {
        let inner = carried(raw).and_then(|inner| serde_json::from_str::<Value>(&inner).ok());
        let names = names.clone() + &inner.as_ref().map(crate::names).unwrap_or_default();
        if inner.is_none() {
            check_carried(raw);
        }
        for digits in [1, 10].into_iter().filter_map(VersionDigits::new) {
            match parse(raw, digits).content {
                Ok(Content::Skipped) => {}
                Ok(Content::Version(version)) => {
                    let item = version.item();
                    assert!(!item.contains_key(names::LATEST), "a version item that counts");
                    let key = serde_json::to_value(&item[names::SK]).unwrap_or_default();
                    assert_eq!(key, json!({"S": digits.version_key(version.version())}));
                    let printed = print(item, version.version().get(), digits);
                    let Ok(Content::Version(again)) = parse(&printed, digits).content else {
                        panic!("its own print makes no version")
                    };
                    assert!(same_item(again.item(), item), "its own print makes another version");
                }
                // Where the text has more than the parser goes into, so have its names.
                Err(failure) => {
                    let names = if json.is_some() { names.as_str() } else { "secret" };
                    crate::check_error(&failure, &format!("{failure:?}"), names);
                }
            }
        }
    }
}

/// What Kinesis carries.
fn carried(raw: &RawValue) -> Option<String> {
    let record: Value = serde_json::from_str(raw.get()).ok()?;
    unwrap_kinesis(record.get("kinesis")?["data"].as_str()?)
}

/// A record comes to the same if Kinesis carries it, but for what names it.
fn check_carried(raw: &RawValue) {
    let digits = VersionDigits::default();
    let alone = parse(raw, digits).content;
    let record = json!({"kinesis": {"data": BASE64.encode(raw.get()), "sequenceNumber": "7"}}).to_string();
    let Ok(record) = RawValue::from_string(record) else {
        panic!("a record that is no JSON")
    };
    let carried = parse(&record, digits);
    assert_eq!(carried.sequence_number.as_ref().map(SequenceNumber::as_str), Some("7"));
    match (alone, carried.content) {
        (Ok(Content::Skipped), Ok(Content::Skipped)) | (Err(_), Err(_)) => {}
        (Ok(Content::Version(alone)), Ok(Content::Version(carried))) => {
            assert!(same_item(alone.item(), carried.item()), "another version by Kinesis");
        }
        (alone, carried) => panic!("{} alone, {} by Kinesis", alone.is_ok(), carried.is_ok()),
    }
}

fn print(item: &shared::domain::Item, version: u64, digits: VersionDigits) -> Box<RawValue> {
    let mut image = serde_json::to_value(item).unwrap_or_default();
    image[names::LATEST] = json!({"N": version.to_string()});
    let record = json!({
        "eventName": "MODIFY",
        "dynamodb": {"Keys": {"SK": {"S": digits.latest_key()}}, "NewImage": image, "SequenceNumber": "1"},
    });
    match RawValue::from_string(record.to_string()) {
        Ok(raw) => raw,
        Err(error) => panic!("a record that is no JSON: {error}"),
    }
}
