//! Parses events: direct invocations, SQS batches, `EventBridge` events, and `EventBridge` events or SNS notifications inside
//! the body of an SQS message.

use std::{collections::HashMap, time::Duration};

use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use shared::domain::{
    names,
    time::EpochMillis,
    update::{self, Ordering, Update},
};

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

/// The outermost carrier of an update: an invocation or a queue message.
#[derive(Debug, Clone, Default)]
pub struct Carrier {
    /// Id of the invocation or message.
    pub id: String,
    /// Time when it was delivered first, if this is not the first delivery.
    pub first_delivered: Option<EpochMillis>,
    /// Time when it was sent.
    pub sent: Option<EpochMillis>,
    /// Sender that the platform reports.
    pub sender: Option<String>,
}

impl Carrier {
    /// Creates the carrier of an invocation with this id.
    pub fn invocation(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            ..Self::default()
        }
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
    /// twice, by one queue or by two, is one update. The earliest time at which an update can have been applied belongs to
    /// the source of its id:
    ///
    /// | id | earliest time |
    /// |---|---|
    /// | `RequestId` of the update | its `RequestSentAt`, or the earliest time of its envelopes and its message |
    /// | `id` of an `EventBridge` event | `time` of the event |
    /// | `MessageId` of an SNS notification | `Timestamp` of the notification |
    /// | id of a queue message | first receive time, if the message was received before |
    /// | id of an invocation | start of its trace, if this is a later attempt |
    pub fn open(self, carrier: &Carrier, ordering: Ordering) -> Result<Update, InvalidEvent> {
        let mut value = self.0;
        let (mut id, mut sent_at) = (carrier.id.clone(), carrier.first_delivered);
        let mut earliest = carrier.first_delivered.into_iter().chain(carrier.sent).min();
        let mut source = None;
        loop {
            match remove_envelope(value)? {
                Opened::Inner(envelope) => {
                    value = envelope.content;
                    earliest = earliest.into_iter().chain(envelope.sent).min();
                    source = envelope.source.or(source);
                    if let Some(inner_id) = envelope.id {
                        (id, sent_at) = (inner_id, envelope.sent.or(sent_at));
                    }
                }
                Opened::Update(json) => {
                    let has_own_id = json.get(names::REQUEST_ID).is_some_and(|id| !id.is_null());
                    let mut update = Update::parse(json, &id, ordering)?;
                    let inherited = if has_own_id { earliest } else { sent_at };
                    update.sent_at = update.sent_at.or(inherited);
                    update.sender = match (source, &carrier.sender) {
                        (Some(source), Some(sender)) => Some(format!("{source} via {sender}")),
                        (source, sender) => source.or_else(|| sender.clone()),
                    };
                    return Ok(update);
                }
            }
        }
    }
}

enum Opened {
    Inner(Inner),
    Update(Value),
}

/// Content and members of an envelope.
struct Inner {
    content: Value,
    id: Option<String>,
    sent: Option<EpochMillis>,
    source: Option<String>,
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
        return Ok(Opened::Inner(Inner {
            content: detail,
            id: text(members.remove("id")),
            sent: text(members.remove("time")).and_then(|time| EpochMillis::parse_iso(&time).ok()),
            source: text(members.remove("source")),
        }));
    }
    if members.get("Type").and_then(Value::as_str) == Some("Notification")
        && let Some(message) = text(members.remove("Message"))
    {
        return Ok(Opened::Inner(Inner {
            content: Envelope::parse(&message)?.0,
            id: text(members.remove("MessageId")),
            sent: text(members.remove("Timestamp")).and_then(|time| EpochMillis::parse_iso(&time).ok()),
            source: None,
        }));
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
    /// The message as a carrier.
    pub carrier: Carrier,
    /// Envelope in the body.
    pub body: Result<Envelope, InvalidEvent>,
}

impl Message {
    fn parse(record: &RawValue) -> Self {
        let Ok(raw) = serde_json::from_str::<RawMessage>(record.get()) else {
            return Self {
                id: None,
                group: None,
                carrier: Carrier::default(),
                body: Err(InvalidEvent::Message),
            };
        };
        let body = match raw.body {
            Some(Value::String(body)) => Envelope::parse(&body),
            _ => Err(InvalidEvent::Message),
        };
        let attribute = |name: &str| {
            raw.attributes
                .as_ref()
                .and_then(|attributes| attributes.get(name))
                .cloned()
        };
        let millis = |name: &str| text(attribute(name))?.parse().ok().map(EpochMillis::new);
        let id = text(raw.message_id);
        // A message without a receive count may have been received before.
        let is_first = text(attribute("ApproximateReceiveCount")).as_deref() == Some("1");
        let first_received = millis("ApproximateFirstReceiveTimestamp");
        Self {
            group: text(attribute("MessageGroupId")),
            carrier: Carrier {
                // Without the id of an envelope, the update needs a `RequestId` of its own.
                id: id.clone().unwrap_or_default(),
                first_delivered: first_received.filter(|_| !is_first),
                sent: millis("SentTimestamp"),
                sender: text(attribute("SenderId")),
            },
            id,
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

/// Minimum age of a trace that shows a later attempt of an asynchronous invocation. Lambda waits one minute before the
/// second attempt, see
/// [Error handling](https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html).
const MIN_TRACE_AGE: Duration = Duration::from_secs(30);

/// Returns the start of a trace, `Root=1-5759e988-bd862e3fe1be46a994272793;…`, if it is older than the current attempt.
pub fn first_attempt(trace_id: Option<&str>, now: Duration) -> Option<EpochMillis> {
    let root = trace_id?
        .split(';')
        .find_map(|part| part.trim().strip_prefix("Root="))?;
    let start = Duration::from_secs(u64::from_str_radix(root.split('-').nth(1)?, 16).ok()?);
    let is_old = now.checked_sub(start).is_some_and(|age| age >= MIN_TRACE_AGE);
    let millis = i64::try_from(start.as_millis()).ok().filter(|_| is_old)?;
    Some(EpochMillis::new(millis))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn opened(event: &Value) -> (String, String) {
        let Request::Update(envelope) = parse(&raw(event)).unwrap() else {
            panic!("a batch: {event}");
        };
        let update = envelope
            .open(&Carrier::invocation("lambda"), Ordering::Arrival)
            .unwrap();
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
    fn the_earliest_time_belongs_to_the_source_of_the_id() {
        let update = json!({"ID": "E"});
        let own = json!({"ID": "E", "RequestId": "own"});
        let named = json!({"ID": "E", "RequestId": "own", "RequestSentAt": "2026-11-22T00:00:00.5Z"});
        let in_millis = json!({"ID": "E", "RequestSentAt": 7});
        let bridge = |detail: &Value| json!({"id": "b", "detail-type": "t", "source": "app", "time": "1970-01-01T00:00:02Z", "detail": detail});
        let sns = |message: &Value| {
            let time = "1970-01-01T00:00:01.500Z";
            json!({"Type": "Notification", "MessageId": "s", "Timestamp": time, "Message": message.to_string()})
        };
        // Sent at 1000, first received at 3000.
        for (body, count, expected) in [
            (update.clone(), "1", None),
            (update.clone(), "2", Some(3000)),
            (own.clone(), "1", Some(1000)),
            (own.clone(), "2", Some(1000)),
            (named.clone(), "1", Some(1_795_305_600_500)),
            (in_millis, "2", Some(7)),
            (bridge(&update), "1", Some(2000)),
            (bridge(&own), "2", Some(1000)),
            (sns(&update), "1", Some(1500)),
            (sns(&bridge(&update)), "3", Some(2000)),
        ] {
            let attributes = json!({
                "ApproximateReceiveCount": count, "SentTimestamp": "1000", "ApproximateFirstReceiveTimestamp": "3000",
                "SenderId": "AIDA",
            });
            let record = json!({"messageId": "m", "body": body.to_string(), "attributes": attributes});
            let message = messages(&json!({"Records": [record]})).remove(0);
            let update = message.body.unwrap().open(&message.carrier, Ordering::Arrival).unwrap();
            assert_eq!(update.sent_at.map(EpochMillis::get), expected, "{body} {count}");
            let via_bridge = body.to_string().contains("detail-type");
            assert_eq!(
                update.sender.as_deref(),
                Some(if via_bridge { "app via AIDA" } else { "AIDA" })
            );
        }
        let Request::Update(envelope) = parse(&raw(&bridge(&own))).unwrap() else {
            panic!()
        };
        let update = envelope.open(&Carrier::invocation("l"), Ordering::Arrival).unwrap();
        assert_eq!(
            (update.sender.as_deref(), update.sent_at.map(EpochMillis::get)),
            (Some("app"), Some(2000))
        );
    }

    #[test]
    fn an_old_trace_shows_a_later_attempt() {
        let trace = Some("Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1");
        let start = 0x5759_e988;
        let found = |trace, seconds| first_attempt(trace, Duration::from_secs(seconds)).map(EpochMillis::get);
        assert_eq!(found(trace, start + 60), Some(i64::try_from(start).unwrap() * 1000));
        assert_eq!(found(trace, start + 29), None);
        assert_eq!(found(trace, start - 1), None);
        for invalid in [
            None,
            Some(""),
            Some("Root=1"),
            Some("Root=1-x-y"),
            Some("Self=1-5759e988-b"),
        ] {
            assert_eq!(found(invalid, start + 60), None, "{invalid:?}");
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
        let update = message.body.unwrap().open(&message.carrier, Ordering::Arrival).unwrap();
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
                Ok(Request::Update(envelope)) => envelope
                    .open(&Carrier::invocation("lambda"), Ordering::Arrival)
                    .is_err(),
                Ok(Request::Batch(_)) => false,
                Err(_) => true,
            };
            assert!(rejected, "{event}");
        }
        let deep = format!("{{\"ID\":\"E\",\"A\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(parse(&RawValue::from_string(deep).unwrap()).is_err());
    }
}
