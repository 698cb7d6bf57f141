//! Updates that writer-fn could not apply, as messages of a dead-letter queue.
//!
//! An update without a `RequestId` is identified by the innermost of its envelopes that has an id, or by the message that
//! carries it. A message that is sent again gets a new id and a new time, so both are written into the update first, unless
//! [`writer_fn::event::request`] finds others.
//!
//! After an asynchronous invocation that failed for good, Lambda sends [a
//! record](https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-retain-records.html) of it with the event:
//!
//! ```json
//! {"version": "1.0", "timestamp": "…", "requestContext": {"requestId": "…", "condition": "RetriesExhausted", …},
//!  "requestPayload": {"ID": "E", …}, "responseContext": {…}, "responsePayload": {…}}
//! ```
//!
//! The event is sent again instead of the record, with the id of the invocation in place of that of the message.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};
use shared::{
    config::Ordering,
    domain::{names, time::EpochMillis},
    json,
};
use writer_fn::{
    error::InvalidEvent,
    event::request::{Carrier, Envelope},
    update::{ID, REQUEST_SENT_AT},
};

/// The body of a message, an update or envelopes around one, or the event of an invocation with such a body.
#[derive(Debug)]
pub struct UpdateMessage {
    body: Value,
    /// The asynchronous invocation with this event.
    invocation: Option<FailedInvocation>,
}

#[derive(Debug)]
struct FailedInvocation {
    request_id: String,
    /// Time of the record, in ISO 8601.
    recorded_at: Option<String>,
}

/// Maximum time between the first attempt of an asynchronous invocation and its record: Lambda keeps an event for [up to six
/// hours](https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html), and an attempt lasts up to 15
/// minutes.
const MAX_INVOCATION_AGE: SignedDuration = SignedDuration::from_hours(7);

impl FailedInvocation {
    /// Returns the event in the record of an invocation and what identifies it, or `None` if the body is no such record.
    fn find(body: &Value) -> Option<(Value, Self)> {
        let members = body.as_object().filter(|members| !members.contains_key(ID))?;
        let invocation = Self {
            request_id: text(members.get("requestContext")?.as_object()?, "requestId")?.to_owned(),
            recorded_at: text(members, "timestamp").map(str::to_owned),
        };
        Some((members.get("requestPayload")?.clone(), invocation))
    }

    /// Returns a time before the first attempt, in ISO 8601, or `None` if neither the record nor its message has a time.
    fn sent_at(&self, message_sent_at: Option<&str>) -> Option<String> {
        let recorded: Option<Timestamp> = self.recorded_at.as_deref().and_then(|time| time.parse().ok());
        let latest = recorded.or_else(|| message_sent_at?.parse().ok())?;
        let earliest = latest.checked_sub(MAX_INVOCATION_AGE).ok()?;
        Some(format!("{earliest:.3}"))
    }
}

/// Identity of a message in the queue that it was sent to first.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    pub message_id: &'a str,
    /// Time at which the message was sent, in ISO 8601.
    pub sent_at: Option<&'a str>,
}

impl UpdateMessage {
    /// Returns `None` if the body contains no update: a value with the member `ID`.
    pub fn find(body: &Value) -> Option<Self> {
        let (mut body, invocation) = match FailedInvocation::find(body) {
            Some((event, invocation)) => (event, Some(invocation)),
            None => (body.clone(), None),
        };
        edit_update(&mut body, |_| false)?;
        Some(Self { body, invocation })
    }

    /// Returns the body of a message with another id that writer-fn recognizes as the same request, or `None` if it
    /// recognizes the body as it is.
    ///
    /// # Errors
    ///
    /// Returns the reason why writer-fn can never apply the update, however the table orders updates.
    pub fn identified(self, origin: Origin) -> Result<Option<String>, InvalidEvent> {
        let Self { mut body, invocation } = self;
        let (id, sent_at) = match &invocation {
            Some(invocation) => (invocation.request_id.as_str(), invocation.sent_at(origin.sent_at)),
            None => (origin.message_id, origin.sent_at.map(str::to_owned)),
        };
        let sent_at = sent_at.as_deref();
        let carrier = Carrier {
            sent: sent_at.and_then(|sent| EpochMillis::parse_iso(sent).ok()),
            ..Carrier::invocation(id)
        };
        let text = body.to_string();
        let open = |ordering| Envelope::parse(&text)?.open(&carrier, ordering);
        let update = open(Ordering::Arrival).or_else(|error| open(Ordering::Time).map_err(|_| error))?;
        let id = Some(id).filter(|id| update.request_id.as_str() == *id);
        // A time after that of the first message is wrong, and the next message cannot see it.
        let has_time = update.sent_at.is_some_and(|sent| sent.is_claimed && !sent.is_ahead);
        let time = sent_at.filter(|_| !has_time);
        let is_changed = edit_update(&mut body, |update| {
            let mut is_changed = false;
            for (name, value) in [(names::REQUEST_ID, id), (REQUEST_SENT_AT, time)] {
                let is_missing = update.get(name).is_none_or(Value::is_null);
                if let Some(value) = value.filter(|_| is_missing) {
                    update.insert(name.to_owned(), json!(value));
                    is_changed = true;
                }
            }
            is_changed
        });
        let is_changed = is_changed == Some(true) || invocation.is_some();
        Ok(is_changed.then(|| body.to_string()))
    }
}

/// Edits the update inside its envelopes. Returns what `edit` returns, `true` if it changed the update; `None` if there is no update.
fn edit_update(value: &mut Value, edit: impl Fn(&mut Map<String, Value>) -> bool + Copy) -> Option<bool> {
    let mut members = value.as_object_mut()?;
    while !members.contains_key(ID) && members.contains_key("detail-type") && members.contains_key("detail") {
        members = members.get_mut("detail")?.as_object_mut()?;
    }
    if members.contains_key(ID) {
        return Some(edit(members));
    }
    if members.get("Type").and_then(Value::as_str) != Some("Notification") {
        return None;
    }
    let mut inner = json::parse(text(members, "Message")?).ok()?;
    let is_changed = edit_update(&mut inner, edit)?;
    if is_changed {
        members.insert("Message".to_owned(), json!(inner.to_string()));
    }
    Some(is_changed)
}

fn text<'a>(members: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    members.get(name)?.as_str().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
