//! Messages of an SQS queue, with an envelope in `body`. They are identified by `messageId`.

use shared::{
    domain::time::EpochMillis,
    json::{self, Members},
};

use crate::{
    error::InvalidEvent,
    event::{
        envelope::{Carrier, Envelope},
        message::Message,
    },
};

pub(super) fn message(record: &str) -> Message {
    Message::caught(record, |members| members.string("messageId"), parse)
}

fn parse(members: &Members<'_>, id: Option<String>) -> Message {
    let attributes = members
        .get("attributes")
        .and_then(|attributes| json::members(attributes).ok());
    let attribute = |name: &str| {
        let text = attributes.as_ref()?.string(name);
        text.filter(|text| !text.is_empty())
    };
    let millis = |name: &str| attribute(name)?.parse().ok().map(EpochMillis::new);
    let body = members.string("body").ok_or(InvalidEvent::Message);
    Message {
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
