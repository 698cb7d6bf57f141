//! Names that libraries reserve are data, at each position of a document.

use std::collections::HashMap;

use local::mapping::filter::Filters;
use operations::failures::document;
use serde_json::{Map, Value, json};
use shared::{
    config::Ordering,
    domain::{AttributeValue, Item, attributes, change::Change, keys::VersionDigits, plain, size},
    json,
};
use stream_fn::record::{self, Content};
use writer_fn::{
    event::request::{self, Carrier, Request},
    update::Update,
};

/// Names that the deserializers of the libraries in use reserve, and names like them.
const RESERVED: [&str; 4] = [
    "$serde_json::private::RawValue",
    "$serde_json::private::Number",
    "$serde_json::private::",
    "$__serde_private",
];
/// Maximum number of positions of a document that are tried.
const MAX_POSITIONS: usize = 32;
/// Maximum size of a value that is stored twice in an item.
const MAX_BYTES: usize = 100_000;

/// Parses the input as JSON, and puts an object with each reserved name at each of its positions. The name must stay in the document,
/// in updates, messages, stream records, filters and failure documents.
pub fn names(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let parsed = json::parse(text);
    let Ok(document) = parsed else {
        // What is only split has no limit of nesting.
        let _ = (json::check(text), json::members(text), json::elements(text));
        let _ = (request::parse(text), record::split(text), document::parse(text));
        return;
    };
    check_reader(&document);
    for name in RESERVED {
        for position in 0..MAX_POSITIONS {
            let mut left = Some(position);
            let placed = placed(&document, name, &mut left);
            if left.is_some() {
                break;
            }
            check_reader(&placed);
            check_update(&placed);
            check_record(name, &placed);
        }
    }
}

/// Replaces the value at a position, in the order of the document, by an object whose only member has this name and its JSON text.
/// `left` is `None` once that is done.
fn placed(value: &Value, name: &str, left: &mut Option<usize>) -> Value {
    match left {
        None => return value.clone(),
        Some(0) => {
            *left = None;
            return json!({name: value.to_string()});
        }
        Some(left) => *left -= 1,
    }
    match value {
        Value::Array(values) => values.iter().map(|value| placed(value, name, left)).collect(),
        Value::Object(members) => {
            let members = members.iter();
            let members = members.map(|(member, value)| (member.clone(), placed(value, name, left)));
            Value::Object(members.collect())
        }
        value => value.clone(),
    }
}

/// Without the reserved names, the reader and `serde_json` must agree.
fn check_reader(document: &Value) {
    let text = document.to_string();
    let Ok(again) = json::parse(&text) else {
        // An object adds a level.
        assert!(
            levels(document) > json::MAX_LEVELS,
            "the serialized document is rejected"
        );
        return;
    };
    assert!(again == *document, "the serialized document is another one");
    let renamed = renamed(document);
    let read = serde_json::from_str::<Value>(&renamed.to_string());
    assert!(
        read.is_ok_and(|read| read == renamed),
        "serde_json reads another document"
    );
    assert!(json::check(&text).is_ok_and(|checked| checked == text));
}

fn levels(value: &Value) -> usize {
    match value {
        Value::Array(values) => 1 + values.iter().map(levels).max().unwrap_or_default(),
        Value::Object(members) => 1 + members.values().map(levels).max().unwrap_or_default(),
        _ => 0,
    }
}

fn renamed(value: &Value) -> Value {
    match value {
        Value::Array(values) => values.iter().map(renamed).collect(),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (format!("n{name}"), renamed(value)));
            Value::Object(members.collect())
        }
        value => value.clone(),
    }
}

/// An update must set the value, alone and inside of a message, whatever the other members of the message are.
fn check_update(placed: &Value) {
    let Ok(expected) = attributes::from_json(placed.clone()) else {
        return;
    };
    let update = json!({"ID": "E", "A": placed});
    let is_set = |update: Update| matches!(update.changes.get("A"), Some(Change::Set(value)) if *value == expected);
    let Ok(alone) = Update::parse(update.clone(), "r", Ordering::Arrival) else {
        return;
    };
    // `null` removes, and `$update` changes members.
    if !is_set(alone) {
        return;
    }
    let message =
        json!({"messageId": "m", "body": update.to_string(), "attributes": placed, "messageAttributes": placed});
    let event = json!({"Records": [message, {"messageId": placed, "body": placed}, placed], "other": placed});
    let Ok(Request::Batch(messages)) = request::parse(&event.to_string()) else {
        panic!("a batch is not parsed")
    };
    assert_eq!(messages.len(), 3, "a message is lost or duplicated");
    let Some(first) = messages.into_iter().next() else {
        return;
    };
    assert_eq!(first.id.as_deref(), Some("m"));
    let carrier = Carrier::invocation("m");
    match first
        .body
        .and_then(|envelope| envelope.open(&carrier, Ordering::Arrival))
    {
        Ok(update) => assert!(is_set(update), "another value in a message"),
        // The update adds a level.
        Err(_) => assert!(levels(placed) >= json::MAX_LEVELS, "rejected in a message"),
    }
}

/// A stream record must contain the value, with the name in its keys and its image, and in its other members.
fn check_record(name: &str, placed: &Value) {
    let Ok(value) = attributes::from_json(placed.clone()) else {
        return;
    };
    if size::check_attribute("A", &value).is_err() || size::of_value(&value) > MAX_BYTES {
        return;
    }
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let latest = [
        ("PK", text("E")),
        ("SK", text("v0")),
        ("Latest", AttributeValue::N("1".to_owned())),
        ("A", value.clone()),
        (name, value.clone()),
        ("Set", AttributeValue::Ss(vec![name.to_owned()])),
    ];
    let latest: HashMap<_, _> = latest
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    let image = serde_json::to_value(Item::from(latest)).unwrap_or_default();
    let keys = json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, name: {"S": "[1"}});
    let mut change = Map::new();
    change.insert(name.to_owned(), placed.clone());
    for (member, value) in [("Keys", keys), ("NewImage", image), ("SequenceNumber", json!("1"))] {
        change.insert(member.to_owned(), value);
    }
    let record = json!({"eventName": "MODIFY", name: placed, "dynamodb": change});
    let event = json!({"Records": [record, placed]}).to_string();
    let Ok(records) = record::split(&event) else {
        panic!("a batch is not split")
    };
    assert_eq!(records.len(), 2, "a record is lost or duplicated");
    let Ok(Content::Version(version)) = record::parse(records[0], VersionDigits::default()).content else {
        panic!("the record contains no version")
    };
    assert!(version.item().get("A") == Some(&value) && version.item().get(name) == Some(&value));
    assert!(plain::attributes(version.item()).contains_key(name));
    let document = json!({"payload": event, "requestContext": placed, name: placed}).to_string();
    let kept = document::parse(&document).ok().and_then(|document| document.records);
    assert!(
        kept.is_some_and(|kept| kept == records),
        "other records in a failure document"
    );
    if let Ok(record) = json::parse(records[0]) {
        let filter = json!({"dynamodb": {"NewImage": {name: [{"exists": false}], "PK": {"S": ["E"]}}}});
        let Ok(filters) = Filters::parse([filter.to_string().as_str()]) else {
            panic!("a filter is rejected")
        };
        // An object has no value, so that it does not exist.
        assert!(filters.matches(&record), "a filter does not match");
    }
}
