//! Envelopes around updates: `EventBridge` events, SNS notifications, and the records with which SNS invokes the function.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};
use shared::{
    config::Ordering,
    domain::{names, size, time::EpochMillis},
    json::{self, Reason},
};

use crate::{
    error::InvalidEvent,
    update::{
        self, Update,
        sent_at::SentAt,
        set::{self, is_set},
    },
};

/// The outermost carrier of an update: an invocation, a queue message or a record of a stream.
#[derive(Debug, Clone, Default)]
pub struct Carrier {
    /// Id of the invocation, message or record.
    pub id: String,
    /// Time of the first attempt of an invocation, if this is a later one.
    pub first_delivered: Option<EpochMillis>,
    /// Time when a queue message was sent, or a record arrived in its stream, which is the same in each delivery.
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
pub(super) const MAX_PARTS: usize = size::MAX_ITEM_BYTES;

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
    /// | id of a record of a stream | `approximateArrivalTimestamp` of the record |
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
            source = via(envelope.source, source);
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
        let sender = via(source, carrier.sender.clone());
        let sent_at = claimed.or(if has_own_id { of_all } else { sent_at });
        for update in &mut updates {
            (update.sent_at, update.sender) = (sent_at, sender.clone());
        }
        Ok(updates)
    }
}

/// Returns both senders. The inner one is a claim of the outer one, which it does not replace.
fn via(inner: Option<String>, outer: Option<String>) -> Option<String> {
    match (inner, outer) {
        (Some(inner), Some(outer)) => Some(format!("{inner} via {outer}")),
        (inner, outer) => inner.or(outer),
    }
}

pub(super) fn tree(text: &str) -> Result<Value, InvalidEvent> {
    json::parse_limited(text, MAX_PARTS).map_err(|error| match error.reason {
        Reason::Parts => InvalidEvent::TooManyParts,
        _ => InvalidEvent::NotJson,
    })
}

/// Returns the text in base64.
pub(super) fn base64_text(base64: &str) -> Result<String, InvalidEvent> {
    let bytes = STANDARD.decode(base64).map_err(|_| InvalidEvent::Base64)?;
    String::from_utf8(bytes).map_err(|_| InvalidEvent::NotJson)
}

/// Kind of an envelope.
#[derive(Clone, Copy)]
enum Kind {
    /// Event with which SNS invokes the function, with one notification in `Records[0].Sns`.
    Invocation,
    /// Records of another service, or a test event. They contain no updates.
    Foreign(&'static str),
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
            () if text("Event") == "s3:TestEvent" => Some(Self::Foreign("S3")),
            () => match records_source(members) {
                Some("aws:sns") => Some(Self::Invocation),
                Some("aws:s3") => Some(Self::Foreign("S3")),
                Some("aws:dynamodb") => Some(Self::Foreign("a DynamoDB stream")),
                _ => None,
            },
        }
    }
}

/// Returns the service that sent records.
fn records_source(members: &Map<String, Value>) -> Option<&str> {
    let mut records = members.get("Records")?.as_array()?.iter();
    records.find_map(|record| record.get("EventSource").or(record.get("eventSource"))?.as_str())
}

/// Takes the notification out of the event with which SNS invokes the function.
fn take_notification(members: &mut Map<String, Value>) -> Option<Value> {
    match members.get_mut("Records")?.as_array_mut()?.as_mut_slice() {
        // Lambda gets each notification in an event of its own.
        [record] => Some(record.get_mut("Sns")?.take()),
        _ => None,
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
        Kind::Foreign(service) => return Err(InvalidEvent::Foreign(service)),
        Kind::Invocation => {
            let content = take_notification(members).ok_or(InvalidEvent::Notification)?;
            let notification = content
                .as_object()
                .filter(|sns| matches!(Kind::of(sns), Some(Kind::Notification)));
            let topic = notification.ok_or(InvalidEvent::Notification)?.get("TopicArn");
            return Ok(Some(Inner {
                source: text(topic.cloned()),
                content,
                id: None,
                sent: None,
            }));
        }
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
    loop {
        let inner = match Kind::of(members) {
            Some(Kind::Event) => members.get_mut("detail"),
            Some(Kind::Invocation) => members
                .get_mut("Records")
                .and_then(|records| records.get_mut(0)?.get_mut("Sns")),
            _ => break,
        };
        members = inner?.as_object_mut()?;
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
