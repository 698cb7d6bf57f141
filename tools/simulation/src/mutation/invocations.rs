//! Mutations of the events of invocations, and of stream records.

use aws_lambda_events::event::dynamodb;
use serde_json::{Value, json};
use shared::domain::{keys::LATEST_KEY, quarantine::PREFIX};

use crate::{
    mutation::{Mutation, expressions::remove},
    requests::text,
};

pub(super) fn change_event(mutation: Mutation, event: &mut Value) {
    if mutation != Mutation::Redelivery {
        return;
    }
    match event.get_mut("Records").and_then(Value::as_array_mut) {
        Some(messages) => {
            for message in messages {
                if let Some(attributes) = message["attributes"].as_object_mut() {
                    attributes.retain(|name, _| name == "SenderId");
                }
                let mut body = serde_json::from_str(text(message, "/body")).unwrap_or_default();
                remove_times(&mut body);
                message["body"] = json!(body.to_string());
            }
        }
        None => remove_times(event),
    }
}

/// Removes the times of an event or update.
fn remove_times(event: &mut Value) {
    for name in ["RequestSentAt", "time"] {
        remove(event, name);
    }
}

/// Returns `true` if the typed event of the runtime accepts a batch: it parses all records at once.
pub(super) fn is_typed(payload: &Value) -> bool {
    serde_json::from_str::<dynamodb::Event>(&payload.to_string()).is_ok()
}

pub(super) fn change_record(mutation: Mutation, record: &mut Value) {
    match mutation {
        // Without an end, if the record of an item in quarantine were quarantined, too.
        Mutation::Filter => {
            if let Some(key) = record.pointer_mut("/dynamodb/Keys/SK")
                && !text(key, "/S").starts_with(PREFIX)
            {
                *key = json!({"S": LATEST_KEY});
            }
        }
        Mutation::AttachedOldImage if record.pointer("/dynamodb/Keys/PK").is_none() => {
            remove(&mut record["dynamodb"], "OldImage");
        }
        Mutation::StreamTime => {
            let image = &record["dynamodb"]["NewImage"];
            if image["RecordedVersion"] != image["Latest"] {
                remove(&mut record["dynamodb"], "ApproximateCreationDateTime");
            }
        }
        Mutation::OwnVersion => {
            if let Some(image) = record.pointer_mut("/dynamodb/NewImage")
                && image.get("RecordedVersion").is_some()
                && let Some(latest) = image.get("Latest").cloned()
            {
                image["RecordedVersion"] = latest;
            }
        }
        _ => {}
    }
}
