//! Mutations of the events and responses of invocations.

use aws_lambda_events::event::dynamodb;
use serde_json::{Value, json};

use super::Mutation;

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
                let body = message["body"]
                    .as_str()
                    .and_then(|body| serde_json::from_str(body).ok());
                message["body"] = json!(untimed(body.unwrap_or_default()).to_string());
            }
        }
        None => *event = untimed(event.take()),
    }
}

/// Removes the times of an event or update.
fn untimed(mut event: Value) -> Value {
    if let Some(members) = event.as_object_mut() {
        members.remove("RequestSentAt");
        members.remove("time");
    }
    event
}

/// Returns `true` if the typed event of the runtime accepts a batch: it parses all records at once.
pub(super) fn is_typed(payload: &Value) -> bool {
    serde_json::from_str::<dynamodb::Event>(&payload.to_string()).is_ok()
}

/// Removes the batch item failures of a response.
pub(super) fn remove_failures(response: &mut Value) {
    if let Some(failures) = response.get_mut("batchItemFailures") {
        *failures = json!([]);
    }
}
