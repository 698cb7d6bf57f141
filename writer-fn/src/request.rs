//! Parses events: direct invocations, SQS batches, `EventBridge` events, and `EventBridge` events or SNS notifications inside
//! the body of an SQS message.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use shared::domain::update::{self, Ordering, Update};

use crate::error::InvalidEvent;

/// The content of an event.
pub enum Request {
    /// One update. The response is its outcome.
    Update(Envelope),
    /// Messages of a queue. The response names those that failed.
    Batch(Vec<Message>),
}

/// Distinguishes a batch from a single update.
pub fn parse(event: &RawValue) -> Result<Request, InvalidEvent> {
    let Ok(members) = serde_json::from_str::<HashMap<String, &RawValue>>(event.get()) else {
        return Ok(Request::Update(Envelope::parse(event.get())?));
    };
    match members.get("Records") {
        // An update can have an attribute with this name.
        Some(records) if !members.contains_key(update::ID) => {
            let records: Vec<&RawValue> = serde_json::from_str(records.get()).map_err(|_| InvalidEvent::Records)?;
            Ok(Request::Batch(records.into_iter().map(Message::parse).collect()))
        }
        _ => Ok(Request::Update(Envelope::parse(event.get())?)),
    }
}

/// An update inside its envelopes.
pub struct Envelope(Value);

impl Envelope {
    /// Parses the outermost envelope.
    pub fn parse(json: &str) -> Result<Self, InvalidEvent> {
        serde_json::from_str(json).map(Self).map_err(|_| InvalidEvent::NotJson)
    }

    /// Removes all envelopes and parses the update in the innermost one.
    ///
    /// An update without a `RequestId` gets the id of its innermost envelope that has one. So a message that is delivered
    /// twice, by one queue or by two, is one update. `carrier_id` is the id of the invocation or message around the envelopes.
    pub fn open(self, carrier_id: &str, ordering: Ordering) -> Result<Update, InvalidEvent> {
        let (mut value, mut id) = (self.0, carrier_id.to_owned());
        loop {
            match remove_envelope(value)? {
                Opened::Inner { inner, inner_id } => {
                    value = inner;
                    id = inner_id.unwrap_or(id);
                }
                Opened::Update(update) => return Ok(Update::parse(update, &id, ordering)?),
            }
        }
    }
}

enum Opened {
    Inner { inner: Value, inner_id: Option<String> },
    Update(Value),
}

fn remove_envelope(value: Value) -> Result<Opened, InvalidEvent> {
    let Value::Object(mut members) = value else {
        return Ok(Opened::Update(value));
    };
    if members.contains_key(update::ID) {
        return Ok(Opened::Update(Value::Object(members)));
    }
    if members.contains_key("detail-type")
        && let Some(detail) = members.remove("detail")
    {
        return Ok(Opened::Inner {
            inner: detail,
            inner_id: text(members.remove("id")),
        });
    }
    if members.get("Type").and_then(Value::as_str) == Some("Notification")
        && let Some(message) = text(members.remove("Message"))
    {
        return Ok(Opened::Inner {
            inner: Envelope::parse(&message)?.0,
            inner_id: text(members.remove("MessageId")),
        });
    }
    Ok(Opened::Update(Value::Object(members)))
}

fn text(value: Option<Value>) -> Option<String> {
    match value {
        Some(Value::String(text)) if !text.is_empty() => Some(text),
        _ => None,
    }
}

/// A queue message. An invalid message does not affect the others.
pub struct Message {
    /// Message id, without which the response cannot name the message.
    pub id: Option<String>,
    /// Message group, in a FIFO queue.
    pub group: Option<String>,
    /// Envelope in the body.
    pub body: Result<Envelope, InvalidEvent>,
}

impl Message {
    fn parse(record: &RawValue) -> Self {
        let Ok(raw) = serde_json::from_str::<RawMessage>(record.get()) else {
            return Self {
                id: None,
                group: None,
                body: Err(InvalidEvent::Message),
            };
        };
        let body = match raw.body {
            Some(Value::String(body)) => Envelope::parse(&body),
            _ => Err(InvalidEvent::Message),
        };
        let group = raw
            .attributes
            .as_ref()
            .and_then(|attributes| attributes.get("MessageGroupId"));
        Self {
            id: text(raw.message_id),
            group: text(group.cloned()),
            body,
        }
    }
}

/// The members of a message that are used. Their types are checked separately, so that the response can name an invalid
/// message by its id.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMessage {
    message_id: Option<Value>,
    body: Option<Value>,
    attributes: Option<Value>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn opened(event: &Value) -> (String, String) {
        let Request::Update(envelope) = parse(&raw(event)).unwrap() else {
            panic!("a batch: {event}");
        };
        let update = envelope.open("lambda", Ordering::Arrival).unwrap();
        (update.entity.as_str().to_owned(), update.request_id.as_str().to_owned())
    }

    fn raw(event: &Value) -> Box<RawValue> {
        RawValue::from_string(event.to_string()).unwrap()
    }

    fn messages(event: &Value) -> Vec<Message> {
        match parse(&raw(event)).unwrap() {
            Request::Batch(messages) => messages,
            Request::Update(_) => panic!("not a batch: {event}"),
        }
    }

    #[test]
    fn the_innermost_id_is_the_request_id() {
        let update = json!({"ID": "E"});
        let bridge = json!({"version": "0", "id": "bridge", "detail-type": "t", "source": "s", "detail": update});
        let sns = |message: &Value| json!({"Type": "Notification", "MessageId": "sns", "Message": message.to_string()});
        for (event, id) in [
            (update.clone(), "lambda"),
            (json!({"ID": "E", "RequestId": "own"}), "own"),
            (bridge.clone(), "bridge"),
            (json!({"detail-type": "t", "detail": update}), "lambda"),
            (sns(&update), "sns"),
            (sns(&bridge), "bridge"),
            (sns(&json!({"ID": "E", "RequestId": "own"})), "own"),
            // An update with attributes that look like an envelope is an update.
            (
                json!({"ID": "E", "Records": [], "detail-type": "t", "detail": {}, "id": "x"}),
                "lambda",
            ),
        ] {
            assert_eq!(opened(&event), ("E".to_owned(), id.to_owned()), "{event}");
        }
    }

    #[test]
    fn an_invalid_message_does_not_affect_the_others() {
        let records = json!({"Records": [
            {"messageId": "good", "body": "{\"ID\": \"E\"}", "attributes": {"MessageGroupId": "g"}},
            {"messageId": "not json", "body": "{"},
            {"messageId": "no body"},
            {"messageId": "odd body", "body": 7, "attributes": 7},
            {"messageId": 7, "body": "{\"ID\": \"E\"}"},
            "not a message",
        ]});
        let found: Vec<_> = messages(&records)
            .into_iter()
            .map(|message| (message.id, message.group, message.body.is_ok()))
            .collect();
        let id = |id: &str| Some(id.to_owned());
        assert_eq!(
            found,
            [
                (id("good"), id("g"), true),
                (id("not json"), None, false),
                (id("no body"), None, false),
                (id("odd body"), None, false),
                (None, None, true),
                (None, None, false),
            ]
        );
    }

    #[test]
    fn numbers_keep_all_digits_in_every_envelope() {
        let inner = r#"{"ID": "E", "N": 12345678901234567890.123456789012345678}"#;
        let sns = json!({"Type": "Notification", "MessageId": "sns", "Message": inner});
        let batch = json!({"Records": [{"messageId": "m", "body": sns.to_string()}]});
        let message = messages(&batch).remove(0);
        let update = message.body.unwrap().open("m", Ordering::Arrival).unwrap();
        let number = shared::domain::AttributeValue::N("12345678901234567890.123456789012345678".into());
        assert!(update.changes["N"] == shared::domain::update::Change::Set(number));
    }

    #[test]
    fn invalid_events_are_rejected() {
        for event in [
            "[]",
            "7",
            "null",
            "\"text\"",
            "{}",
            "{\"Records\":7}",
            "{\"ID\":\"\\ud800\"}",
        ] {
            let event = RawValue::from_string(event.to_owned()).unwrap();
            let rejected = match parse(&event) {
                Ok(Request::Update(envelope)) => envelope.open("lambda", Ordering::Arrival).is_err(),
                Ok(Request::Batch(_)) => false,
                Err(_) => true,
            };
            assert!(rejected, "{event}");
        }
        let deep = format!("{{\"ID\":\"E\",\"A\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(parse(&RawValue::from_string(deep).unwrap()).is_err());
    }
}
