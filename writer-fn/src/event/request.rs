//! Parses events: one update, in the envelopes of its sender, an HTTP request, or a batch of messages.
//!
//! | source | event | decoder |
//! |---|---|---|
//! | direct, `EventBridge`, SNS | one update, in [envelopes](Envelope) | `envelope` |
//! | SQS, also with such envelopes in a message | batch | `queue` |
//! | Kinesis, also with such envelopes in a record | batch | `kinesis` |
//! | function URL, API Gateway HTTP API | one update without envelopes | `http` |

use std::time::Duration;

use shared::{
    domain::time::EpochMillis,
    json::{self, Members},
};

use crate::{
    error::InvalidEvent,
    event::{http::HttpRequest, kinesis, message::Message, queue},
    update,
};

pub use crate::event::envelope::{Carrier, Envelope, edit_update};

/// The content of an event.
pub enum Request {
    /// One update, or a change set. The response is its outcome.
    Update(Envelope),
    /// One update in an HTTP request. The response has a status code, also for an error.
    Http(HttpRequest),
    /// Messages of a queue, or records of a stream. The response names those that failed.
    Batch(Vec<Message>),
}

/// Maximum number of messages in a batch, see
/// [batch size](https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html). Kinesis has the same.
const MAX_MESSAGES: usize = 10_000;

/// Distinguishes the sources of an event.
pub fn parse(event: &str) -> Result<Request, InvalidEvent> {
    let Ok(members) = json::members(event) else {
        return Ok(Request::Update(Envelope::parse(event)?));
    };
    if let Some(records) = members.get("Records")
        // An update can have an attribute with this name.
        && !members.contains(update::ID)
    {
        let records = json::elements(records).map_err(|_| InvalidEvent::Records)?;
        let decode = match records.iter().find_map(|record| source(record)).as_deref() {
            Some("aws:sns" | "aws:s3" | "aws:dynamodb") => return Ok(Request::Update(Envelope::parse(event)?)),
            Some("aws:kinesis") => kinesis::message,
            _ => queue::message,
        };
        if records.len() > MAX_MESSAGES {
            return Err(InvalidEvent::TooManyMessages);
        }
        return Ok(Request::Batch(records.into_iter().map(decode).collect()));
    }
    Ok(match HttpRequest::find(event, &members)? {
        Some(request) => Request::Http(request),
        None => Request::Update(Envelope::parse(event)?),
    })
}

/// Returns the service that sent a record.
fn source(record: &str) -> Option<String> {
    let members: Members<'_> = json::members(record).ok()?;
    members.string("EventSource").or_else(|| members.string("eventSource"))
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
