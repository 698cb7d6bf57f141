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
use serde_json::{Value, json};
use shared::{
    config::Ordering,
    domain::{names, time::EpochMillis},
};
use writer_fn::{
    error::InvalidEvent,
    event::request::{Carrier, Envelope, edit_update},
    update::{ID, REQUEST_SENT_AT, set::UPDATES},
};

/// The body of a message, an update or envelopes around one, or the event of an invocation with such a body.
#[derive(Debug)]
pub struct UpdateMessage {
    body: Value,
    /// Id of the asynchronous invocation with this event, and the time of its record.
    invocation: Option<(String, Option<Timestamp>)>,
}

/// Maximum time between the first attempt of an asynchronous invocation and its record: Lambda keeps an event for [up to six
/// hours](https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html), and an attempt lasts up to 15
/// minutes.
const MAX_INVOCATION_AGE: SignedDuration = SignedDuration::from_hours(7);

impl UpdateMessage {
    /// Returns `None` if the body contains neither an update nor a change set.
    pub fn find(body: &Value) -> Option<Self> {
        let (event, invocation) = failed_invocation(body).unzip();
        let mut body = event.unwrap_or(body).clone();
        edit_update(&mut body, |_| false)?;
        Some(Self { body, invocation })
    }

    /// Returns the body of a message with another id that writer-fn recognizes as the same request, or `None` if it
    /// recognizes the body as it is. The id and the time are those of the message in the queue that it was sent to first.
    ///
    /// # Errors
    ///
    /// Returns the reason why writer-fn can never apply the update, however the table orders updates.
    pub fn identified(self, message_id: &str, sent_at: Option<Timestamp>) -> Result<Option<String>, InvalidEvent> {
        let (id, sent_at) = match &self.invocation {
            None => (message_id, sent_at),
            Some((id, recorded_at)) => {
                // A time before the first attempt.
                let sent_at = recorded_at.or(sent_at);
                (
                    &**id,
                    sent_at.and_then(|latest| latest.checked_sub(MAX_INVOCATION_AGE).ok()),
                )
            }
        };
        let carrier = Carrier {
            sent: sent_at.map(|sent| EpochMillis::new(sent.as_millisecond())),
            ..Carrier::invocation(id)
        };
        let text = self.body.to_string();
        let open = |ordering| Envelope::parse(&text)?.open(&carrier, ordering);
        let updates = open(Ordering::Arrival).or_else(|error| open(Ordering::Time).map_err(|_| error))?;
        // All updates of a change set have the same id and time.
        let update = updates.first();
        let id = Some(id.to_owned()).filter(|id| update.is_some_and(|update| update.request_id.as_str() == id));
        // A time after that of the first message is wrong, and the next message cannot see it.
        let has_time = update
            .and_then(|update| update.sent_at)
            .is_some_and(|sent| sent.is_claimed && !sent.is_ahead);
        let time = sent_at.filter(|_| !has_time).map(|time| format!("{time:.3}"));
        let mut body = self.body;
        let is_changed = edit_update(&mut body, |update| {
            let members = [(names::REQUEST_ID, id), (REQUEST_SENT_AT, time)].into_iter();
            let missing = members.filter_map(|(name, value)| Some((name.to_owned(), json!(value?))));
            let missing: Vec<_> = missing
                .filter(|(name, _)| update.get(name).is_none_or(Value::is_null))
                .collect();
            let is_changed = !missing.is_empty();
            update.extend(missing);
            is_changed
        });
        let is_changed = is_changed == Some(true) || self.invocation.is_some();
        Ok(is_changed.then(|| body.to_string()))
    }
}

/// Returns the event in the record of an asynchronous invocation, and what identifies the invocation.
fn failed_invocation(body: &Value) -> Option<(&Value, (String, Option<Timestamp>))> {
    let id = text(body.get("requestContext")?.get("requestId"))?.to_owned();
    let recorded_at = text(body.get("timestamp")).and_then(|time| time.parse().ok());
    let event = body
        .get("requestPayload")
        .filter(|_| body.get(ID).or(body.get(UPDATES)).is_none())?;
    Some((event, (id, recorded_at)))
}

fn text(value: Option<&Value>) -> Option<&str> {
    value?.as_str().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
