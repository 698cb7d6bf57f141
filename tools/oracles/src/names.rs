//! Names that libraries reserve are data, at each position of a document.

use local::mapping::filter::Filters;
use operations::failures::document;
use serde_json::{Value, json};
use shared::{
    config::Ordering,
    domain::{AttributeValue, attributes, change::Change, keys::VersionDigits, plain, size},
    json,
};
use stream_fn::record::{self, Content};
use writer_fn::{event::request, update::Update};

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
    let Ok(document) = json::parse(text) else {
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
            if let Ok(value) = attributes::from_json(placed.clone()) {
                check_update(&placed, &value);
                check_record(name, &placed, &value);
            }
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
    map(value, str::to_owned, |value| placed(value, name, left))
}

/// Returns the value with other names of its members and with other members or elements.
fn map(value: &Value, name: impl Fn(&str) -> String, mut inner: impl FnMut(&Value) -> Value) -> Value {
    match value {
        Value::Array(values) => values.iter().map(inner).collect(),
        Value::Object(members) => {
            let members = members.iter().map(|(member, value)| (name(member), inner(value)));
            Value::Object(members.collect())
        }
        value => value.clone(),
    }
}

/// Without the reserved names, the reader and `serde_json` must agree.
fn check_reader(document: &Value) {
    fn renamed(value: &Value) -> Value {
        map(value, |name| format!("n{name}"), renamed)
    }
    let text = document.to_string();
    let Ok(again) = json::parse(&text) else {
        // An object adds a level.
        return assert!(levels(document) > json::MAX_LEVELS, "the document is rejected");
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

/// An update must set the value, and be the same inside each envelope. Other members of a message can have any name.
fn check_update(placed: &Value, expected: &AttributeValue) {
    let update = json!({"ID": "E", "A": placed});
    // `null` removes, and `$update` changes members.
    if let Ok(parsed) = Update::parse(update.clone(), "r", Ordering::Arrival)
        && let Some(Change::Set(value)) = parsed.changes.get("A")
    {
        assert!(value == expected, "another value");
    }
    crate::envelopes(update.to_string().as_bytes());
    let message = json!({"messageId": "m", "body": update.to_string(), "attributes": placed});
    let event = json!({"Records": [message, {"messageId": placed, "body": placed}, placed], "other": placed});
    crate::envelopes(event.to_string().as_bytes());
}

/// A stream record must contain the value, with the name in its keys and its image, and in its other members.
fn check_record(name: &str, placed: &Value, value: &AttributeValue) {
    if size::check_attribute("A", value).is_err() || size::of_value(value) > MAX_BYTES {
        return;
    }
    let keys = json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, name: {"S": "[1"}});
    let image = json!({
        "PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": "1"}, "A": value, name: value, "Set": {"SS": [name]},
    });
    let change = json!({name: placed, "Keys": keys, "NewImage": image, "SequenceNumber": "1"});
    let record = json!({"eventName": "MODIFY", name: placed, "dynamodb": change});
    let event = json!({"Records": [record, placed]}).to_string();
    let Ok(records) = record::split(&event) else {
        panic!("a batch is not split")
    };
    assert_eq!(records.len(), 2, "a record is lost or duplicated");
    let Ok(Content::Version(version)) = record::parse(records[0], VersionDigits::default()).content else {
        panic!("the record contains no version")
    };
    assert!(["A", name].iter().all(|name| version.item().get(*name) == Some(value)));
    assert!(plain::attributes(version.item()).contains_key(name));
    let document = json!({"payload": event, "requestContext": placed, name: placed}).to_string();
    let kept = document::parse(&document).ok().and_then(|document| document.records);
    assert!(
        kept.is_some_and(|kept| kept == records),
        "other records in a failure document"
    );
    if let Ok(record) = json::parse(records[0]) {
        // An object has no value, so that it does not exist.
        let filter = json!({"dynamodb": {"NewImage": {name: [{"exists": false}], "PK": {"S": ["E"]}}}});
        let filters = Filters::parse([filter.to_string().as_str()]);
        assert!(
            filters.is_ok_and(|filters| filters.matches(&record)),
            "a filter does not match"
        );
    }
}
