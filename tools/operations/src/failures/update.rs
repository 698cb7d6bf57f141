//! Updates that writer-fn could not apply, as messages of a dead-letter queue.
//!
//! An update without a `RequestId` is identified by the innermost of its envelopes that has an id, or by the message that
//! carries it. A message that is sent again gets a new id and a new time, so both are written into the update first. The
//! rules for envelopes are those of [`writer_fn::request`], which a test compares.

use serde_json::{Map, Value, json};
use shared::domain::{
    names,
    time::EpochMillis,
    update::{ID, Ordering, REQUEST_SENT_AT},
};
use writer_fn::{
    error::InvalidEvent,
    request::{Carrier, Envelope},
};

/// The body of a message: an update, or envelopes around one.
#[derive(Debug)]
pub struct UpdateMessage(Value);

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
        let mut body = body.clone();
        identify(&mut body, Named::default(), None)?;
        Some(Self(body))
    }

    /// Returns the body of a message with another id that writer-fn recognizes as the same request, or `None` if it
    /// recognizes the body as it is.
    pub fn identified(mut self, origin: Origin) -> Option<String> {
        let is_changed = identify(&mut self.0, Named::default(), Some(origin))?;
        is_changed.then(|| self.0.to_string())
    }
}

/// Checks the rules of an update that do not depend on the table.
///
/// # Errors
///
/// Returns the reason why writer-fn can never apply the update, however the table orders updates.
pub fn check(body: &str, message_id: &str) -> Result<(), InvalidEvent> {
    let open = |ordering| Envelope::parse(body)?.open(&Carrier::invocation(message_id), ordering);
    open(Ordering::Arrival)
        .or_else(|error| open(Ordering::Time).map_err(|_| error))
        .map(drop)
}

/// Members that the envelopes around an update have.
#[derive(Debug, Clone, Copy, Default)]
struct Named {
    id: bool,
    /// The time of the envelope that has the id.
    time: bool,
}

impl Named {
    /// Adds an envelope inside the others. One without an id names nothing.
    fn inside(self, envelope: &Map<String, Value>, id: &str, time: &str) -> Self {
        let time = envelope.get(time).and_then(Value::as_str);
        match text(envelope, id) {
            Some(_) => Self {
                id: true,
                time: time.is_some_and(|time| EpochMillis::parse_iso(time).is_ok()),
            },
            None => self,
        }
    }
}

/// Finds the innermost update, and adds what neither the update nor its envelopes name. Returns `true` if that changed the
/// update, or `None` if there is none.
fn identify(value: &mut Value, named: Named, origin: Option<Origin>) -> Option<bool> {
    let members = value.as_object_mut()?;
    if members.contains_key(ID) {
        return Some(origin.is_some_and(|origin| insert(members, named, origin)));
    }
    if members.contains_key("detail-type") && members.contains_key("detail") {
        let named = named.inside(members, "id", "time");
        return identify(members.get_mut("detail")?, named, origin);
    }
    if members.get("Type").and_then(Value::as_str) == Some("Notification")
        && let Some(message) = text(members, "Message")
    {
        let mut inner: Value = serde_json::from_str(message).ok()?;
        let is_changed = identify(&mut inner, named.inside(members, "MessageId", "Timestamp"), origin)?;
        if is_changed {
            members.insert("Message".to_owned(), json!(inner.to_string()));
        }
        return Some(is_changed);
    }
    None
}

fn insert(update: &mut Map<String, Value>, named: Named, origin: Origin) -> bool {
    let id = (!named.id).then_some(origin.message_id);
    let time = origin.sent_at.filter(|_| !named.time);
    let mut is_changed = false;
    for (name, value) in [(names::REQUEST_ID, id), (REQUEST_SENT_AT, time)] {
        let is_missing = update.get(name).is_none_or(Value::is_null);
        if let Some(value) = value.filter(|_| is_missing) {
            update.insert(name.to_owned(), json!(value));
            is_changed = true;
        }
    }
    is_changed
}

fn text<'a>(members: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    members.get(name)?.as_str().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TIME: &str = "2026-01-02T03:04:05.678Z";
    const ORIGIN: Origin = Origin {
        message_id: "message",
        sent_at: Some(TIME),
    };

    /// Body to send, or the same body if it is not changed.
    fn sent(body: &Value) -> Value {
        let message = UpdateMessage::find(body).unwrap_or_else(|| panic!("no update: {body}"));
        match message.identified(ORIGIN) {
            Some(text) => serde_json::from_str(&text).unwrap(),
            None => body.clone(),
        }
    }

    fn request_id(body: &Value, message_id: &str) -> Option<String> {
        let update = Envelope::parse(&body.to_string())
            .unwrap()
            .open(&Carrier::invocation(message_id), Ordering::Arrival);
        update.ok().map(|update| update.request_id.as_str().to_owned())
    }

    fn bridge(detail: &Value) -> Value {
        json!({"id": "bridge", "time": "2026-01-01T00:00:00Z", "detail-type": "t", "source": "s", "detail": detail})
    }

    fn sns(message: &Value) -> Value {
        json!({"Type": "Notification", "MessageId": "sns", "Timestamp": "2026-01-01T00:00:00.000Z", "Message": message.to_string()})
    }

    fn without(mut body: Value, name: &str) -> Value {
        body.as_object_mut().unwrap().remove(name);
        body
    }

    #[test]
    fn an_update_is_sent_with_what_identifies_it() {
        let plain = json!({"ID": "E", "A": 1});
        let both = json!({"ID": "E", "A": 1, "RequestId": "message", "RequestSentAt": TIME});
        let timed = json!({"ID": "E", "A": 1, "RequestSentAt": TIME});
        let own = json!({"ID": "E", "RequestId": "own", "RequestSentAt": "2020-01-01T00:00:00Z"});
        for (body, expected) in [
            (plain.clone(), both.clone()),
            (own.clone(), own.clone()),
            (
                json!({"ID": "E", "RequestId": "own"}),
                json!({"ID": "E", "RequestId": "own", "RequestSentAt": TIME}),
            ),
            (
                json!({"RequestId": null, "ID": "E", "RequestSentAt": null, "A": null}),
                json!({"RequestId": "message", "ID": "E", "RequestSentAt": TIME, "A": null}),
            ),
            // The envelope has an id and a time.
            (bridge(&plain), bridge(&plain)),
            (sns(&plain), sns(&plain)),
            (sns(&bridge(&plain)), sns(&bridge(&plain))),
            (sns(&without(bridge(&plain), "id")), sns(&without(bridge(&plain), "id"))),
            // It has no id: its time is that of another request.
            (without(bridge(&plain), "id"), without(bridge(&both), "id")),
            (without(sns(&plain), "MessageId"), without(sns(&both), "MessageId")),
            (
                without(sns(&without(bridge(&plain), "id")), "MessageId"),
                without(sns(&without(bridge(&both), "id")), "MessageId"),
            ),
            // It has an id and no time.
            (without(bridge(&plain), "time"), without(bridge(&timed), "time")),
            (without(sns(&plain), "Timestamp"), without(sns(&timed), "Timestamp")),
            // An update with attributes that look like an envelope, or like a failure document.
            (
                json!({"ID": "E", "detail-type": "t", "detail": {"ID": "F"}, "id": "x"}),
                json!({"ID": "E", "detail-type": "t", "detail": {"ID": "F"}, "id": "x", "RequestId": "message", "RequestSentAt": TIME}),
            ),
        ] {
            assert_eq!(sent(&body), expected, "{body}");
        }
        let unchanged = UpdateMessage::find(&own).unwrap().identified(ORIGIN);
        assert_eq!(unchanged, None);
    }

    #[test]
    fn writer_fn_recognizes_every_update_again() {
        let plain = json!({"ID": "E"});
        let empty = |mut body: Value, name: &str| {
            body[name] = json!("");
            body
        };
        let odd = |mut body: Value, name: &str| {
            body[name] = json!(7);
            body
        };
        for body in [
            plain.clone(),
            json!({"ID": "E", "RequestId": "own"}),
            bridge(&plain),
            without(bridge(&plain), "id"),
            empty(bridge(&plain), "id"),
            odd(bridge(&plain), "id"),
            bridge(&bridge(&plain)),
            sns(&plain),
            without(sns(&plain), "MessageId"),
            empty(sns(&plain), "MessageId"),
            odd(sns(&plain), "MessageId"),
            sns(&bridge(&plain)),
            sns(&without(bridge(&plain), "id")),
            without(sns(&bridge(&plain)), "MessageId"),
            bridge(&sns(&plain)),
            without(bridge(&without(sns(&plain), "MessageId")), "id"),
            json!({"ID": "E", "Records": [], "Type": "Notification", "Message": "{\"ID\": \"F\"}", "MessageId": "x"}),
        ] {
            let before = request_id(&body, "message");
            assert!(before.is_some(), "{body}");
            assert_eq!(request_id(&sent(&body), "another message"), before, "{body}");
        }
    }

    #[test]
    fn other_bodies_contain_no_update() {
        for body in [
            json!({}),
            json!([]),
            json!(7),
            json!(null),
            json!("text"),
            json!([{"ID": "E"}]),
            bridge(&json!(null)),
            bridge(&json!({"bucket": {}})),
            json!({"Type": "Notification", "Message": "text"}),
            json!({"Type": "Notification", "Message": ""}),
            json!({"Type": "Notification", "Message": {"ID": "E"}}),
            json!({"Type": "SubscriptionConfirmation", "Message": "{\"ID\": \"E\"}"}),
            json!({"detail": {"ID": "E"}}),
            json!({"Records": [{"body": "{\"ID\": \"E\"}"}]}),
        ] {
            assert!(UpdateMessage::find(&body).is_none(), "{body}");
            assert_eq!(request_id(&body, "message"), None, "{body}");
        }
    }

    #[test]
    fn numbers_keep_all_digits_and_members_their_order() {
        let members = r#""Z":12345678901234567890.123456789012345678,"A":0.10,"B":[1e100,-0],"C":{"b":1,"a":2}"#;
        let body = serde_json::from_str(&format!(r#"{{"ID":"E",{members}}}"#)).unwrap();
        let text = UpdateMessage::find(&body).unwrap().identified(ORIGIN).unwrap();
        let body = body.to_string();
        let unchanged = body.trim_end_matches('}');
        assert_eq!(
            text,
            format!(r#"{unchanged}}},"RequestId":"message","RequestSentAt":"{TIME}"}}"#)
        );
        assert!(
            text.contains("12345678901234567890.123456789012345678,\"A\":0.10"),
            "{text}"
        );
        // In the text inside a notification, too.
        let envelope = without(sns(&serde_json::from_str(&body).unwrap()), "MessageId");
        let inner = sent(&envelope)["Message"].as_str().unwrap().to_owned();
        assert_eq!(inner, text);
    }

    #[test]
    fn updates_that_can_never_be_applied() {
        let check = |body: Value| check(&body.to_string(), "message").map_err(|error| error.to_string());
        for body in [
            json!({"ID": "E"}),
            json!({"ID": "E", "Timestamp": 1, "A": null}),
            bridge(&json!({"ID": "E"})),
        ] {
            assert_eq!(check(body), Ok(()));
        }
        for (body, reason) in [
            (json!({"ID": 7}), "ID is not a string"),
            (json!({"ID": "E", "Latest": 7}), "Latest is reserved"),
            (sns(&json!({"ID": "E", "RequestId": 7})), "RequestId is not a string"),
        ] {
            assert_eq!(check(body).unwrap_err(), reason);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_accepted_without_a_panic(text in "\\PC{0,64}", name in "(ID|detail|Message|Type|\\PC{0,9})") {
            for body in [json!(text), json!({&name: text}), sns(&json!({&name: text})), bridge(&json!({&name: text}))] {
                if let Some(message) = UpdateMessage::find(&body) {
                    message.identified(ORIGIN);
                }
            }
            let _ = check(&text, "message");
        }
    }
}
