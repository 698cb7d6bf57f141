//! Updates in messages, with and without envelopes, and in records of asynchronous invocations.

use proptest::prelude::*;
use writer_fn::update::Update;

use super::*;

const TIME: &str = "2026-01-02T03:04:05.678Z";
const SENT_AT: Option<Timestamp> = Some(Timestamp::constant(1_767_323_045, 678_000_000));

/// Returns the body to send, the same if it is not changed. `None` if it contains no update.
fn sent(body: &Value) -> Option<Value> {
    let text = UpdateMessage::find(body)?.identified("message", SENT_AT).ok()?;
    Some(text.map_or_else(|| body.clone(), |text| serde_json::from_str(&text).unwrap()))
}

/// Returns the id by which writer-fn recognizes the request in a message.
fn request_id(body: &Value, message_id: &str) -> Option<String> {
    let update = Envelope::parse(&body.to_string()).unwrap();
    let updates = update.open(&Carrier::invocation(message_id), Ordering::Arrival);
    let id = |updates: Vec<Update>| updates[0].request_id.as_str().to_owned();
    updates.ok().map(id)
}

/// Puts a value into envelopes, the outermost first: `sns-MessageId` is a notification without this member, `bridge-id=7` an event
/// with another value of it.
fn wrapped(envelopes: &str, value: &Value) -> Value {
    let wrap = |inner: Value, envelope: &str| {
        let (kind, edit) = envelope.split_once('-').unwrap_or((envelope, ""));
        let mut envelope = match kind {
            "topic" => json!({"Records": [{"EventSource": "aws:sns", "Sns": inner}]}),
            "bridge" => {
                json!({"id": "bridge", "time": "2026-01-01T00:00:00Z", "detail-type": "t", "source": "s", "detail": inner})
            }
            _ => {
                json!({"Type": "Notification", "MessageId": "sns", "Timestamp": "2026-01-01T00:00:00Z", "Message": inner.to_string()})
            }
        };
        match edit.split_once('=') {
            Some((name, value)) => envelope[name] = serde_json::from_str(value).unwrap(),
            None => _ = envelope.as_object_mut().unwrap().remove(edit),
        }
        envelope
    };
    envelopes.split_whitespace().rev().fold(value.clone(), wrap)
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

/// Envelopes, and what their update gets: the id of the message, the time of the message.
const ENVELOPES: &str = r#"
                              | RequestId RequestSentAt
    bridge                    |
    bridge bridge             |
    sns                       |
    sns bridge                |
    bridge sns                |
    topic sns                 |
    topic sns bridge          |
    topic sns-MessageId       | RequestId RequestSentAt
    sns bridge-id             |
    sns-MessageId bridge      |
    // Without an id, its time is that of another request.
    bridge-id                 | RequestId RequestSentAt
    bridge-id=""              | RequestId RequestSentAt
    bridge-id=7               | RequestId RequestSentAt
    sns-MessageId             | RequestId RequestSentAt
    sns-MessageId=""          | RequestId RequestSentAt
    sns-MessageId=7           | RequestId RequestSentAt
    sns-MessageId bridge-id   | RequestId RequestSentAt
    bridge-id sns-MessageId   | RequestId RequestSentAt
    // It has an id and no time, or one after that of the message, which the next message cannot see.
    bridge-time               |           RequestSentAt
    bridge-time="2026-01-04T00:00:00Z" |  RequestSentAt
    sns-Timestamp             |           RequestSentAt"#;

/// Whatever is sent, writer-fn recognizes the request in another message as the one in this message.
#[test]
fn an_update_is_sent_with_what_identifies_it() {
    let plain = json!({"ID": "E", "A": 1, "RequestId": null});
    for case in ENVELOPES.lines() {
        let Some((envelopes, added)) = case.split_once('|') else {
            continue;
        };
        let body = wrapped(envelopes, &plain);
        // The time of an invocation is seven hours before that of its record.
        for (message, id) in [(body.clone(), "message"), (failed_invocation(&body), "invocation")] {
            let mut update = plain.clone();
            for name in added.split_whitespace() {
                update[name] = json!(if name == "RequestId" { id } else { TIME });
            }
            let sent = sent(&message).unwrap();
            assert_eq!(sent, wrapped(envelopes, &update), "{case}");
            let before = request_id(&body, id);
            assert!(
                before.is_some() && before == request_id(&sent, "another message"),
                "{case}"
            );
        }
    }
    // Without a time of the record, that of its message.
    let mut untimed = failed_invocation(&plain);
    untimed["timestamp"] = json!(null);
    assert_eq!(sent(&untimed).unwrap()["RequestSentAt"], "2026-01-01T20:04:05.678Z");
    let own = json!({"ID": "E", "RequestId": "own", "RequestSentAt": TIME});
    assert_eq!(
        UpdateMessage::find(&own)
            .unwrap()
            .identified("message", SENT_AT)
            .unwrap(),
        None
    );
    // Updates with attributes that look like envelopes, or like the record of an invocation.
    let mut invocation = failed_invocation(&json!({"ID": "F"}));
    invocation["ID"] = json!("E");
    let bridge = json!({"ID": "E", "detail-type": "t", "detail": {"ID": "F"}, "id": "x", "RequestSentAt": null});
    let sns = json!({"ID": "E", "Records": [], "Type": "Notification", "Message": "{\"ID\": \"F\"}", "MessageId": "x"});
    for mut update in [json!({"ID": "E", "RequestId": "own"}), bridge, sns, invocation] {
        let sent = sent(&update).unwrap();
        if update.get("RequestId").is_none() {
            update["RequestId"] = json!("message");
        }
        update["RequestSentAt"] = json!(TIME);
        assert_eq!(sent, update);
    }
}

#[test]
fn other_bodies_contain_no_update() {
    let update = json!({"ID": "E"});
    let mut no_id = failed_invocation(&update);
    no_id["requestContext"]["requestId"] = json!(null);
    for body in [
        json!({}),
        json!([]),
        json!(7),
        json!(null),
        json!("text"),
        json!([update]),
        json!({"detail": update}),
        json!({"Records": [{"body": "{\"ID\": \"E\"}"}]}),
        wrapped("bridge", &json!(null)),
        wrapped("bridge", &json!({"bucket": {}})),
        wrapped("sns-Message=\"\"", &update),
        wrapped("sns-Message=\"text\"", &update),
        wrapped("sns-Message={\"ID\":\"E\"}", &update),
        wrapped("sns-Type=\"SubscriptionConfirmation\"", &update),
        no_id,
        failed_invocation(&json!(null)),
        failed_invocation(&json!({"Records": []})),
        failed_invocation(&json!("{\"ID\": \"E\"}")),
        failed_invocation(&failed_invocation(&update)),
    ] {
        assert_eq!(sent(&body), None, "{body}");
        assert_eq!(request_id(&body, "message"), None, "{body}");
    }
}

#[test]
fn numbers_keep_all_digits_and_members_their_order() {
    let digits = "12345678901234567890.123456789012345678";
    let update = format!(r#"{{"ID":"E","Z":{digits},"A":0.10,"B":[1e100,-0],"C":{{"b":1,"a":2}}}}"#);
    let body: Value = serde_json::from_str(&update).unwrap();
    let text = UpdateMessage::find(&body)
        .unwrap()
        .identified("message", SENT_AT)
        .unwrap()
        .unwrap();
    let unchanged = body.to_string();
    assert!(unchanged.contains(&format!("\"Z\":{digits},\"A\":0.10")), "{unchanged}");
    let unchanged = unchanged.strip_suffix('}').unwrap();
    assert_eq!(
        text,
        format!(r#"{unchanged},"RequestId":"message","RequestSentAt":"{TIME}"}}"#)
    );
    // In the text inside a notification, too.
    assert_eq!(sent(&wrapped("sns-MessageId", &body)).unwrap()["Message"], text);
}

#[test]
fn updates_that_can_never_be_applied() {
    for (body, reason) in [
        (r#"{"ID": "E"}"#, None),
        (r#"{"ID": "E", "Timestamp": 1, "A": null}"#, None),
        (r#"{"detail-type": "t", "detail": {"ID": "E"}}"#, None),
        (r#"{"ID": 7}"#, Some("ID is not a string")),
        (r#"{"ID": "E", "Latest": 7}"#, Some("Latest is reserved")),
        (r#"{"ID": "E", "RequestId": 7}"#, Some("RequestId is not a string")),
    ] {
        let update = UpdateMessage::find(&serde_json::from_str(body).unwrap()).unwrap();
        let error = update
            .identified("message", SENT_AT)
            .err()
            .map(|error| error.to_string());
        assert_eq!(error.as_deref(), reason, "{body}");
    }
}

proptest! {
    #[test]
    fn any_text_is_accepted_without_a_panic(text in "\\PC{0,64}", name in "(ID|detail|Message|Type|\\PC{0,9})") {
        for envelopes in ["", "sns", "bridge"] {
            sent(&wrapped(envelopes, &json!(text)));
            sent(&wrapped(envelopes, &json!({&name: text})));
        }
    }
}
