//! Messages of a queue and records of a stream, each of which contains one envelope.

use shared::{
    json::{self, Members},
    panics,
};

use crate::{
    error::InvalidEvent,
    event::envelope::{Carrier, Envelope},
};

/// A message of a batch. An invalid one does not affect the others.
pub struct Message {
    /// Id of the message, without which the response cannot name it: `messageId`, or the sequence number of a record.
    pub id: Option<String>,
    /// Message group, in a FIFO queue.
    pub group: Option<String>,
    /// The message as a carrier.
    pub carrier: Carrier,
    /// Envelope in the message.
    pub body: Result<Envelope, InvalidEvent>,
}

impl Message {
    /// Parses a message with its id. After a panic, it has only its id.
    ///
    /// The types of its members are checked separately, so that the response can name an invalid message by its id.
    pub(super) fn caught(
        record: &str,
        id: impl FnOnce(&Members<'_>) -> Option<String>,
        parse: impl FnOnce(&Members<'_>, Option<String>) -> Self,
    ) -> Self {
        let Ok(members) = json::members(record) else {
            return Self::failed(None, InvalidEvent::Message);
        };
        let id = id(&members).filter(|id| !id.is_empty());
        panics::caught(|| parse(&members, id.clone())).unwrap_or_else(|panicked| Self::failed(id, panicked.into()))
    }

    fn failed(id: Option<String>, error: InvalidEvent) -> Self {
        Self {
            id,
            group: None,
            carrier: Carrier::default(),
            body: Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_whose_parsing_panics_has_its_id() {
        let id = |members: &Members<'_>| members.string("messageId");
        let message = Message::caught(r#"{"messageId": "m", "body": "{}"}"#, id, |_, _| panic!("a defect"));
        assert_eq!(message.id.as_deref(), Some("m"));
        assert!(matches!(message.body, Err(InvalidEvent::Panicked(_))));
    }
}
