//! The event parser of writer-fn.

use serde_json::{Value, json};
use shared::{config::Ordering, json};
use writer_fn::{
    error::Error,
    event::request::{Carrier, Envelope, Request, parse},
    update::Update,
};

use crate::{errors, update};

/// Parses the input as an event. Every message of a batch must be parsed or rejected separately, exactly once. An update must be
/// the same inside every envelope.
pub fn envelopes(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let json = json::parse(text).ok();
    let names = json.as_ref().map(errors::names).unwrap_or_default();
    match parse(text) {
        Err(error) => check_error(Error::from(error), &names),
        Ok(Request::Batch(messages)) => {
            if let Some(Value::Array(records)) = json.as_ref().and_then(|json| json.get("Records")) {
                assert_eq!(messages.len(), records.len(), "a message is lost or duplicated");
            }
            for message in messages {
                let body = message.body.map_err(Error::from);
                match body.and_then(|envelope| open(envelope, &message.carrier)) {
                    Ok(updates) => check(&updates),
                    // Names inside a body are part of a string of the event, so any name is allowed.
                    Err(error) => check_error(error, "secret"),
                }
            }
        }
        Ok(Request::Http(request)) => match request.open("carrier", Ordering::Arrival) {
            Ok(update) => {
                assert!(update.sender.is_some(), "a request without a caller");
                check(&[update]);
            }
            Err(error) => check_error(Error::from(error), "secret"),
        },
        Ok(Request::Update(envelope)) => match open(envelope, &Carrier::invocation("carrier")) {
            Err(error) => check_error(error, &names),
            Ok(updates) => {
                check(&updates);
                if let Some(json) = json {
                    check_envelopes(&json, text, &updates);
                }
            }
        },
    }
}

fn check(updates: &[Update]) {
    for update in updates {
        update::check(update, Ordering::Arrival);
    }
}

fn open(envelope: Envelope, carrier: &Carrier) -> Result<Vec<Update>, Error> {
    Ok(envelope.open(carrier, Ordering::Arrival)?)
}

/// An envelope adds one or two levels, which can exceed the nesting limit. Otherwise the update must be the same.
fn check_envelopes(json: &Value, text: &str, updates: &[Update]) {
    let carrier = Carrier::invocation("carrier");
    let bridge = json!({"detail-type": "t", "source": "s", "detail": json});
    let sns = |message: &str| json!({"Type": "Notification", "Message": message});
    for event in [&bridge, &sns(text), &sns(&bridge.to_string())] {
        let Ok(Request::Update(envelope)) = parse(&event.to_string()) else {
            continue;
        };
        if let Ok(opened) = open(envelope, &carrier) {
            for (opened, update) in opened.iter().zip(updates) {
                // The envelope names its source.
                let sender = update.sender.clone();
                let opened = Update {
                    sender,
                    ..opened.clone()
                };
                assert!(opened == *update, "a different update inside an envelope");
            }
            assert_eq!(opened.len(), updates.len());
        }
    }
    let batch = json!({"Records": [{"messageId": "carrier", "body": text}]});
    let Ok(Request::Batch(messages)) = parse(&batch.to_string()) else {
        panic!("a batch is not parsed as a batch")
    };
    for message in messages {
        let opened = message.body.map_err(Error::from);
        let opened = opened.and_then(|envelope| open(envelope, &carrier));
        assert!(
            opened.is_ok_and(|opened| opened == *updates),
            "a different update inside a message"
        );
    }
}

fn check_error(error: Error, names: &str) {
    assert_eq!(error.error_type(), "InvalidEvent");
    errors::check(&error, names);
}
