//! Messages of the dead-letter queues: S3 event notifications, failure documents, or updates.

use percent_encoding::percent_decode_str;
use serde_json::Value;
use shared::json;
use thiserror::Error;

use super::{
    document::{self, Document},
    update::UpdateMessage,
};

#[derive(Debug)]
pub enum Message {
    /// Test event that S3 sends when the notification is configured.
    TestEvent,
    /// Created objects, each expected to be a document.
    Objects(Vec<Object>),
    Document(Box<Document>),
    /// Update that writer-fn did not apply.
    Update(UpdateMessage),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    pub bucket: String,
    pub key: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("it is neither an S3 event notification, nor a failure document, nor an update")]
pub struct NotAMessage;

/// Parses a message. Unwraps the envelope of an SNS topic. Only updates have a member `ID`.
pub fn parse(body: &str) -> Result<Message, NotAMessage> {
    let message = json::parse(body).map_err(|_| NotAMessage)?;
    if let Some(update) = UpdateMessage::find(&message) {
        return Ok(Message::Update(update));
    }
    match &message["Message"] {
        Value::String(inner) if message["Type"] == "Notification" => read(inner),
        _ => read(body),
    }
}

fn read(body: &str) -> Result<Message, NotAMessage> {
    let message = json::parse(body).map_err(|_| NotAMessage)?;
    if message["Event"] == "s3:TestEvent" {
        return Ok(Message::TestEvent);
    }
    if let Value::Array(records) = &message["Records"] {
        let objects: Option<Vec<_>> = records.iter().map(object).collect();
        let objects = objects.filter(|objects| !objects.is_empty());
        return objects.map(Message::Objects).ok_or(NotAMessage);
    }
    document::parse(body)
        .map(|document| Message::Document(Box::new(document)))
        .map_err(|_| NotAMessage)
}

fn object(record: &Value) -> Option<Object> {
    let bucket = record["s3"]["bucket"]["name"].as_str()?;
    let key = record["s3"]["object"]["key"].as_str()?;
    // Keys are encoded as in forms: a space is a plus.
    let key = key.replace('+', " ");
    let key = percent_decode_str(&key).decode_utf8().ok()?;
    (!bucket.is_empty() && !key.is_empty()).then(|| Object {
        bucket: bucket.to_owned(),
        key: key.into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn notification(keys: &[&str]) -> Value {
        let record = |key: &&str| json!({"eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": "b"}, "object": {"key": key}}});
        json!({"Records": keys.iter().map(record).collect::<Vec<_>>()})
    }

    fn keys(body: &Value) -> Vec<String> {
        match parse(&body.to_string()) {
            Ok(Message::Objects(objects)) => objects.into_iter().map(|object| object.key).collect(),
            other => panic!("{body}: {other:?}"),
        }
    }

    #[test]
    fn keys_are_decoded_as_forms_are() {
        let encoded = ["a/b-c_d.e", "a+b%2Bc", "%C3%A9%20x", "100%25", "a%2Fb"];
        assert_eq!(
            keys(&notification(&encoded)),
            ["a/b-c_d.e", "a b+c", "é x", "100%", "a/b"]
        );
        let envelope = json!({"Type": "Notification", "Message": notification(&["k"]).to_string()});
        assert_eq!(keys(&envelope), ["k"]);
    }

    #[test]
    fn all_kinds_are_distinguished() {
        let test_event = json!({"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "b"});
        assert!(matches!(parse(&test_event.to_string()), Ok(Message::TestEvent)));
        let document = json!({"payload": {"Records": []}});
        assert!(matches!(parse(&document.to_string()), Ok(Message::Document(_))));
        for update in [
            json!({"ID": "E"}),
            json!({"ID": "E", "payload": {"Records": []}, "Records": [], "Event": "s3:TestEvent"}),
            json!({"Type": "Notification", "Message": "{\"ID\": \"E\"}"}),
            json!({"detail-type": "t", "detail": {"ID": "E"}}),
        ] {
            assert!(matches!(parse(&update.to_string()), Ok(Message::Update(_))), "{update}");
        }
        let with_detail = json!({"payload": {"Records": [{"ID": "E"}]}, "detail": {"ID": "E"}});
        assert!(matches!(parse(&with_detail.to_string()), Ok(Message::Document(_))));
        for odd in [
            json!({}),
            json!([]),
            json!(7),
            json!({"Records": []}),
            json!({"Records": [{}]}),
            json!({"Records": [{"dynamodb": {}}]}),
            notification(&["good", ""]),
            notification(&["%FF"]),
            json!({"Type": "Notification", "Message": "text"}),
            json!({"Type": "Notification", "Message": test_event}),
        ] {
            assert_eq!(parse(&odd.to_string()).unwrap_err(), NotAMessage, "{odd}");
        }
        assert_eq!(parse("").unwrap_err(), NotAMessage);
    }

    proptest! {
        #[test]
        fn every_key_is_decoded(key in "\\PC{1,40}") {
            use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
            let encoded = utf8_percent_encode(&key, NON_ALPHANUMERIC).to_string();
            prop_assert_eq!(keys(&notification(&[&encoded])), std::slice::from_ref(&key));
            let with_plus = encoded.replace("%20", "+");
            prop_assert_eq!(keys(&notification(&[&with_plus])), [key]);
        }

        #[test]
        fn any_text_is_parsed_without_a_panic(text in "\\PC{0,64}") {
            let _ = parse(&text);
            let _ = parse(&notification(&[&text]).to_string());
            let _ = parse(&json!({"Type": "Notification", "Message": text}).to_string());
        }
    }
}
