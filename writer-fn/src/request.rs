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
mod tests;
