//! The envelopes of writer-fn.

use serde_json::{Value, json, value::RawValue};
use shared::domain::update::{Ordering, Update};
use writer_fn::{
    error::Error,
    request::{Request, parse},
};

/// An event of writer-fn. Of a batch, each message is read or refused by itself, none is lost and none comes up twice; an
/// update is the same in whatever envelope it comes.
pub fn envelopes(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(event) = RawValue::from_string(text.to_owned()) else {
        return;
    };
    let json = serde_json::from_str::<Value>(text).ok();
    let names = json.as_ref().map(crate::names).unwrap_or_default();
    match parse(&event) {
        Err(error) => check_error(Error::from(error), &names),
        Ok(Request::Batch(messages)) => {
            if let Some(Value::Array(records)) = json.as_ref().and_then(|json| json.get("Records")) {
                assert_eq!(messages.len(), records.len(), "a message is lost, or comes up twice");
            }
            for message in messages {
                let carrier = message.id.unwrap_or_default();
                match message
                    .body
                    .and_then(|envelope| envelope.open(&carrier, Ordering::Arrival))
                {
                    Ok(update) => crate::update::check(&update, Ordering::Arrival),
                    // What is inside a body is a text to the outer event.
                    Err(error) => check_error(Error::from(error), "secret"),
                }
            }
        }
        Ok(Request::Update(envelope)) => match envelope.open("carrier", Ordering::Arrival) {
            Err(error) => check_error(Error::from(error), &names),
            Ok(update) => {
                crate::update::check(&update, Ordering::Arrival);
                if let Some(json) = json {
                    in_every_envelope(&json, text, &update);
                }
            }
        },
    }
}

/// One level more, or two, may be too deep; a text in a text may be. All else is the same update.
fn in_every_envelope(json: &Value, text: &str, update: &Update) {
    let bridge = json!({"detail-type": "t", "source": "s", "detail": json});
    let sns = json!({"Type": "Notification", "Message": text});
    for event in [
        &bridge,
        &sns,
        &json!({"Type": "Notification", "Message": bridge.to_string()}),
    ] {
        let Ok(event) = RawValue::from_string(event.to_string()) else {
            continue;
        };
        let Ok(Request::Update(envelope)) = parse(&event) else {
            continue;
        };
        let opened = envelope.open("carrier", Ordering::Arrival);
        assert!(
            opened.is_err() || opened.is_ok_and(|opened| opened == *update),
            "another update inside an envelope"
        );
    }
    let batch = json!({"Records": [{"messageId": "carrier", "body": text}]});
    if let Ok(batch) = RawValue::from_string(batch.to_string()) {
        let Ok(Request::Batch(messages)) = parse(&batch) else {
            panic!("a batch is no batch")
        };
        for message in messages {
            let opened = message
                .body
                .and_then(|envelope| envelope.open("carrier", Ordering::Arrival));
            assert!(
                opened.is_ok_and(|opened| opened == *update),
                "another update inside a message"
            );
        }
    }
}

fn check_error(error: Error, names: &str) {
    assert_eq!(error.error_type(), "InvalidEvent");
    crate::check_error(&error, &format!("{error:?}"), names);
}
