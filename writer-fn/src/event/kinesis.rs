//! Records of a Kinesis stream, with an envelope in `data`.
//!
//! A record is identified by its `eventID`, `<shard>:<sequence number>`, and was sent at its arrival in the stream; both are the same
//! in each delivery. The response names failed records by their sequence numbers. Lambda delivers the lowest one and all later
//! ones of the shard again, so that updates which were applied come again, as duplicates.

use shared::{
    domain::{number::Decimal, time::EpochMillis},
    json::{self, Members},
};

use crate::{
    error::InvalidEvent,
    event::{
        envelope::{Carrier, Envelope, base64_text},
        message::Message,
    },
};

pub(super) fn message(record: &str) -> Message {
    Message::caught(record, |members| kinesis(members)?.string("sequenceNumber"), parse)
}

fn kinesis<'a>(members: &Members<'a>) -> Option<Members<'a>> {
    json::members(members.get("kinesis")?).ok()
}

fn parse(members: &Members<'_>, id: Option<String>) -> Message {
    let kinesis = kinesis(members).unwrap_or_default();
    let data = kinesis.string("data").ok_or(InvalidEvent::Record);
    let text = |name: &str| members.string(name).filter(|text| !text.is_empty());
    Message {
        id,
        group: None,
        carrier: Carrier {
            // Without it, the update needs the id of an envelope or a `RequestId` of its own.
            id: text("eventID").unwrap_or_default(),
            first_delivered: None,
            sent: kinesis.get("approximateArrivalTimestamp").and_then(millis),
            sender: text("eventSourceARN"),
        },
        body: data.and_then(|data| Envelope::parse(&base64_text(&data)?)),
    }
}

/// Returns the milliseconds of a number of seconds.
fn millis(seconds: &str) -> Option<EpochMillis> {
    // More digits are truncated.
    const MORE: u32 = 6;
    let seconds = Decimal::parse(json::number(seconds)?).ok()?;
    let millis = seconds.scaled(3 + MORE)? / 10u128.pow(MORE);
    Some(EpochMillis::new(i64::try_from(millis).ok()?))
}
