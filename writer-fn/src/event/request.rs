//! Parses events: direct invocations, SQS batches, `EventBridge` events, and `EventBridge` events or SNS notifications inside
//! the body of an SQS message.

use std::time::Duration;

use serde_json::{Map, Value};
use shared::{
    config::Ordering,
    domain::{names, size, time::EpochMillis},
    json::{self, Reason},
    panics,
};

use crate::{
    error::InvalidEvent,
    update::{
        self, Update,
        sent_at::SentAt,
        set::{self, is_set},
    },
};

/// The content of an event.
pub enum Request {
    /// One update, or a change set. The response is its outcome.
    Update(Envelope),
    /// Messages of a queue. The response names those that failed.
    Batch(Vec<Message>),
}

/// Distinguishes a batch from a single update.
pub fn parse(event: &str) -> Result<Request, InvalidEvent> {
    if let Ok(members) = json::members(event)
        && let Some(records) = members.get("Records")
        // An update can have an attribute with this name.
        && !members.contains(update::ID)
    {
        let records = json::elements(records).map_err(|_| InvalidEvent::Records)?;
        if records.len() > MAX_MESSAGES {
            return Err(InvalidEvent::TooManyMessages);
        }
        let messages = records
            .into_iter()
            .map(|record| Message::caught(record, Message::parse));
        return Ok(Request::Batch(messages.collect()));
    }
    Ok(Request::Update(Envelope::parse(event)?))
}

/// The outermost carrier of an update: an invocation or a queue message.
#[derive(Debug, Clone, Default)]
pub struct Carrier {
    /// Id of the invocation or message.
    pub id: String,
    /// Time of the first attempt of an invocation, if this is a later one.
    pub first_delivered: Option<EpochMillis>,
    /// Time when a queue message was sent, which is the same in each delivery.
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

/// Maximum number of elements and members in an event or a message body. Each has at least one byte in an item of 400 KB.
const MAX_PARTS: usize = size::MAX_ITEM_BYTES;
/// Maximum number of messages in a batch, see
/// [batch size](https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html).
const MAX_MESSAGES: usize = 10_000;

/// An update inside its envelopes. It is text until it is opened: the trees of all messages of a batch would not fit into memory.
pub struct Envelope(String);

impl Envelope {
    /// Checks that the outermost envelope is JSON.
    pub fn parse(text: &str) -> Result<Self, InvalidEvent> {
        let text = json::check(text).map_err(|_| InvalidEvent::NotJson)?;
        Ok(Self(text.to_owned()))
    }

    /// Removes all envelopes and parses the update, or the change set, in the innermost one.
    ///
    /// An update without a `RequestId` gets the id of its innermost envelope that has one. So a message that is delivered
    /// twice, by one queue or by two, is one update. The time at which an update was [sent](SentAt) belongs to the source of its id:
    ///
    /// | id | sent |
    /// |---|---|
    /// | `RequestId` of the update | its `RequestSentAt`, or the times of its envelopes and its message |
    /// | `id` of an `EventBridge` event | `time` of the event, otherwise up to 30 h before the message: several queues can deliver it |
    /// | `MessageId` of an SNS notification | `Timestamp` of the notification, otherwise likewise |
    /// | id of a queue message | `SentTimestamp` of the message |
    /// | id of an invocation | since the start of its trace, if this is a later attempt |
    ///
    /// A time that is claimed to be after the `SentTimestamp` of the message is wrong, see [`SentAt::carried_at`].
    pub fn open(self, carrier: &Carrier, ordering: Ordering) -> Result<Vec<Update>, InvalidEvent> {
        let mut value = tree(&self.0)?;
        drop(self);
        let carried_at = |sent: SentAt| carrier.sent.map_or(sent, |carrier| sent.carried_at(carrier));
        let of_carrier = carrier.sent.map(SentAt::exactly);
        let of_carrier = of_carrier.or(carrier.first_delivered.map(SentAt::since));
        let (mut id, mut sent_at) = (carrier.id.clone(), of_carrier);
        let mut of_all = of_carrier;
        let mut source = None;
        while let Some(envelope) = remove_envelope(&mut value)? {
            value = envelope.content;
            let sent = envelope.sent.map(SentAt::claimed).map(carried_at);
            of_all = of_all.into_iter().chain(sent).reduce(SentAt::or);
            source = envelope.source.or(source);
            if let Some(inner_id) = envelope.id {
                let of_any = carrier.sent.map(SentAt::by_any_carrier);
                (id, sent_at) = (inner_id, sent.or(of_any).or(sent_at));
            }
        }
        let has_own_id = value.get(names::REQUEST_ID).is_some_and(|id| !id.is_null());
        let mut updates = set::parse(value, &id, ordering)?;
        let claimed = updates.first().and_then(|update| update.sent_at);
        let claimed = claimed.map(carried_at).map(|claimed| SentAt {
            latest: claimed.latest.max(carrier.sent),
            ..claimed
        });
        let sender = match (source, &carrier.sender) {
            (Some(source), Some(sender)) => Some(format!("{source} via {sender}")),
            (source, sender) => source.or_else(|| sender.clone()),
        };
        let sent_at = claimed.or(if has_own_id { of_all } else { sent_at });
        for update in &mut updates {
            (update.sent_at, update.sender) = (sent_at, sender.clone());
        }
        Ok(updates)
    }
}

fn tree(text: &str) -> Result<Value, InvalidEvent> {
    json::parse_limited(text, MAX_PARTS).map_err(|error| match error.reason {
        Reason::Parts => InvalidEvent::TooManyParts,
        _ => InvalidEvent::NotJson,
    })
}

/// Kind of an envelope.
#[derive(Clone, Copy)]
enum Kind {
    /// `EventBridge` event, with its content as JSON in `detail`.
    Event,
    /// SNS notification, with its content as text in `Message`.
    Notification,
}

impl Kind {
    /// Returns `None` for the members of the update.
    fn of(members: &Map<String, Value>) -> Option<Self> {
        let text = |name: &str| members.get(name).and_then(Value::as_str).unwrap_or_default();
        match () {
            () if is_update(members) => None,
            () if members.contains_key("detail-type") && members.contains_key("detail") => Some(Self::Event),
            () if text("Type") == "Notification" && !text("Message").is_empty() => Some(Self::Notification),
            () => None,
        }
    }
}

/// Returns `true` for the members of an update or of a change set.
fn is_update(members: &Map<String, Value>) -> bool {
    members.contains_key(update::ID) || is_set(members)
}

/// Content and members of an envelope.
struct Inner {
    content: Value,
    id: Option<String>,
    sent: Option<EpochMillis>,
    source: Option<String>,
}

/// Removes an envelope. `None` if the value is the update.
fn remove_envelope(value: &mut Value) -> Result<Option<Inner>, InvalidEvent> {
    let Some((members, kind)) = value.as_object_mut().and_then(|members| {
        let kind = Kind::of(members)?;
        Some((members, kind))
    }) else {
        return Ok(None);
    };
    let (content, id, time, source) = match kind {
        Kind::Event => ("detail", "id", "time", Some("source")),
        Kind::Notification => ("Message", "MessageId", "Timestamp", None),
    };
    let content = match (kind, members.remove(content).unwrap_or_default()) {
        (Kind::Notification, Value::String(message)) => tree(&message)?,
        (_, content) => content,
    };
    let mut take = |name: &str| text(members.remove(name));
    Ok(Some(Inner {
        content,
        sent: take(time).and_then(|time| EpochMillis::parse_iso(&time).ok()),
        id: take(id),
        source: source.and_then(take),
    }))
}

/// Edits the update, or the change set, inside the envelopes of an event. Returns the result of `edit`, which is `true` if it changed the
/// update; `None` if the event contains neither: no value with the member `ID` or `Updates`.
pub fn edit_update(event: &mut Value, edit: impl FnOnce(&mut Map<String, Value>) -> bool) -> Option<bool> {
    let mut members = event.as_object_mut()?;
    while let Some(Kind::Event) = Kind::of(members) {
        members = members.get_mut("detail")?.as_object_mut()?;
    }
    let Some(Kind::Notification) = Kind::of(members) else {
        return is_update(members).then(|| edit(members));
    };
    let message = members.get_mut("Message")?;
    let mut content = tree(message.as_str()?).ok()?;
    let is_changed = edit_update(&mut content, edit)?;
    if is_changed {
        *message = Value::String(content.to_string());
    }
    Some(is_changed)
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
    /// Parses a message. After a panic, it has only its id.
    fn caught(record: &str, parse: impl FnOnce(&str) -> Self) -> Self {
        panics::caught(|| parse(record)).unwrap_or_else(|panicked| {
            let id = json::members(record)
                .ok()
                .and_then(|members| members.string("messageId"));
            Self::failed(id, panicked.into())
        })
    }

    fn failed(id: Option<String>, error: InvalidEvent) -> Self {
        Self {
            id,
            group: None,
            carrier: Carrier::default(),
            body: Err(error),
        }
    }

    fn parse(record: &str) -> Self {
        // The types of the members are checked separately, so that the response can name an invalid message by its id.
        let Ok(members) = json::members(record) else {
            return Self::failed(None, InvalidEvent::Message);
        };
        let attributes = members
            .get("attributes")
            .and_then(|attributes| json::members(attributes).ok());
        let attribute = |name: &str| {
            let text = attributes.as_ref()?.string(name);
            text.filter(|text| !text.is_empty())
        };
        let millis = |name: &str| attribute(name)?.parse().ok().map(EpochMillis::new);
        let id = members.string("messageId").filter(|id| !id.is_empty());
        let body = members.string("body").ok_or(InvalidEvent::Message);
        Self {
            group: attribute("MessageGroupId"),
            carrier: Carrier {
                // Without the id of an envelope, the update needs a `RequestId` of its own.
                id: id.clone().unwrap_or_default(),
                first_delivered: None,
                sent: millis("SentTimestamp").or_else(|| millis("ApproximateFirstReceiveTimestamp")),
                sender: attribute("SenderId"),
            },
            id,
            body: body.and_then(|body| Envelope::parse(&body)),
        }
    }
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
