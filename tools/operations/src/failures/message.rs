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
    let inner = message["Message"]
        .as_str()
        .filter(|_| message["Type"] == "Notification");
    let body = inner.unwrap_or(body);
    let message = json::parse(body).map_err(|_| NotAMessage)?;
    if message["Event"] == "s3:TestEvent" {
        return Ok(Message::TestEvent);
    }
    if let Value::Array(records) = &message["Records"] {
        let objects: Option<Vec<_>> = records.iter().map(object).collect();
        let objects = objects.filter(|objects| !objects.is_empty());
        return objects.map(Message::Objects).ok_or(NotAMessage);
    }
    let document = document::parse(body).map_err(|_| NotAMessage)?;
    Ok(Message::Document(Box::new(document)))
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
    use serde_json::json;

    use super::*;

    fn notification(keys: &[&str]) -> Value {
        let record = |key: &&str| json!({"eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": "b"}, "object": {"key": key}}});
        json!({"Records": keys.iter().map(record).collect::<Vec<_>>()})
    }

    /// Returns the kind of a message, with the keys of its objects.
    fn kind(body: &str) -> String {
        match parse(body) {
            Ok(Message::TestEvent) => "test event".to_owned(),
            Ok(Message::Document(_)) => "document".to_owned(),
            Ok(Message::Update(_)) => "update".to_owned(),
            Ok(Message::Objects(objects)) => {
                assert!(objects.iter().all(|object| object.bucket == "b"));
                objects
                    .into_iter()
                    .map(|object| object.key)
                    .collect::<Vec<_>>()
                    .join(", ")
            }
            Err(NotAMessage) => "none".to_owned(),
        }
    }

    #[test]
    fn all_kinds_are_distinguished() {
        // Keys are encoded as forms are.
        let objects = notification(&["a/b-c_d.e", "a+b%2Bc", "%C3%A9%20x", "100%25", "a%2Fb"]).to_string();
        let envelope = |message: &str| json!({"Type": "Notification", "Message": message}).to_string();
        let test_event = r#"{"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "b"}"#;
        for (body, expected) in [
            (&*objects, "a/b-c_d.e, a b+c, é x, 100%, a/b"),
            (&envelope(&objects), "a/b-c_d.e, a b+c, é x, 100%, a/b"),
            (test_event, "test event"),
            (r#"{"payload": {"Records": []}}"#, "document"),
            (
                r#"{"payload": {"Records": [{"ID": "E"}]}, "detail": {"ID": "E"}}"#,
                "document",
            ),
            (r#"{"ID": "E"}"#, "update"),
            (
                r#"{"ID": "E", "payload": {"Records": []}, "Records": [], "Event": "s3:TestEvent"}"#,
                "update",
            ),
            (&envelope(r#"{"ID": "E"}"#), "update"),
            (r#"{"detail-type": "t", "detail": {"ID": "E"}}"#, "update"),
            ("", "none"),
            ("{}", "none"),
            ("[]", "none"),
            ("7", "none"),
            (r#"{"Records": []}"#, "none"),
            (r#"{"Records": [{}]}"#, "none"),
            (r#"{"Records": [{"dynamodb": {}}]}"#, "none"),
            (&notification(&["good", ""]).to_string(), "none"),
            (&notification(&["%FF"]).to_string(), "none"),
            (&envelope("text"), "none"),
            (
                &format!(r#"{{"Type": "Notification", "Message": {test_event}}}"#),
                "none",
            ),
        ] {
            assert_eq!(kind(body), expected, "{body}");
        }
    }
}
