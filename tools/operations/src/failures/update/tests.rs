//! Updates in messages, with and without envelopes, and in records of asynchronous invocations.

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

fn later(mut body: Value) -> Value {
    body["time"] = json!("2026-01-04T00:00:00Z");
    body
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
        // Its time is after that of the message, which the next message cannot see.
        (later(bridge(&plain)), later(bridge(&timed))),
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

fn failed_invocation(event: &Value) -> Value {
    json!({
        "version": "1.0", "timestamp": "2026-01-02T10:04:05.678Z",
        "requestContext": {
            "requestId": "invocation", "functionArn": "arn:aws:lambda:eu-west-1:1:function:writer-fn:$LATEST",
            "condition": "RetriesExhausted", "approximateInvokeCount": 3,
        },
        "requestPayload": event,
        "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
        "responsePayload": {"errorType": "Throttled", "errorMessage": "secret"},
    })
}

/// The time is seven hours before that of the record.
#[test]
fn the_event_of_an_invocation_is_sent_with_the_id_of_the_invocation() {
    let plain = json!({"ID": "E", "N": 1});
    let identified = json!({"ID": "E", "N": 1, "RequestId": "invocation", "RequestSentAt": TIME});
    let own = json!({"ID": "E", "RequestId": "own", "RequestSentAt": 7});
    for (event, expected) in [
        (plain.clone(), identified.clone()),
        (own.clone(), own),
        (bridge(&plain), bridge(&plain)),
        (without(bridge(&plain), "id"), without(bridge(&identified), "id")),
    ] {
        let sent = sent(&failed_invocation(&event));
        assert_eq!(sent, expected, "{event}");
        assert_eq!(request_id(&sent, "another message"), request_id(&event, "invocation"));
    }
    // Without a time of the record, that of its message.
    let untimed = UpdateMessage::find(&without(failed_invocation(&plain), "timestamp")).unwrap();
    let body: Value = serde_json::from_str(&untimed.identified(ORIGIN).unwrap()).unwrap();
    assert_eq!(body["RequestSentAt"], "2026-01-01T20:04:05.678Z");
}

#[test]
fn other_invocations_contain_no_update() {
    let mut no_id = failed_invocation(&json!({"ID": "E"}));
    no_id["requestContext"]["requestId"] = json!(null);
    for body in [
        no_id,
        failed_invocation(&json!({"Records": []})),
        failed_invocation(&json!("{\"ID\": \"E\"}")),
        failed_invocation(&failed_invocation(&json!({"ID": "E"}))),
        without(failed_invocation(&json!({"ID": "E"})), "requestPayload"),
    ] {
        assert!(UpdateMessage::find(&body).is_none(), "{body}");
    }
    // An update with attributes that look like a record of an invocation.
    let mut update = failed_invocation(&json!({"ID": "F"}));
    update["ID"] = json!("E");
    assert_eq!(sent(&update)["RequestId"], "message");
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
