//! writer-fn on a DynamoDB without a server: its responses are prepared, follow from the request, or never come.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

mod change_sets;
mod checked;
mod deadline;
mod failures;
mod hostile;
mod layout;
mod order;
mod retries;
mod sources;

use std::time::Duration;

use aws_sdk_dynamodb::config::HttpClient;
use lambda_runtime::Diagnostic;
use serde_json::{Value, json};
use shared::{clock::Deadline, dynamodb::client::ClientSettings};
use testkit::{replay, scripted::Scripted};
use writer_fn::{Writer, event::request::Carrier};

/// Timeout of the function in `template.yaml`.
const TIMEOUT: Duration = Duration::from_secs(30);

fn writer(http: impl HttpClient + 'static) -> Writer {
    writer_with(&ClientSettings::default(), http)
}

fn writer_with(settings: &ClientSettings, http: impl HttpClient + 'static) -> Writer {
    Writer::new(replay::client_with(settings, http), &replay::settings()).with_checked_layout()
}

/// Returns the response, or the error as Lambda reports it. No error contains the text `secret`.
async fn handle(writer: &Writer, event: &Value) -> Value {
    let (invocation, deadline) = (Carrier::invocation("request-1"), Deadline::after(TIMEOUT));
    match writer.handle(&invocation, Some(&event.to_string()), deadline).await {
        Ok(response) => serde_json::to_value(response).unwrap(),
        Err(error) => {
            assert!(!format!("{error:?}").contains("secret"), "{error:?}");
            serde_json::to_value(Diagnostic::from(error)).unwrap()
        }
    }
}

fn batch(messages: &[Value]) -> Value {
    json!({"Records": messages})
}

/// Returns a message with this body and these attributes.
fn message(id: &str, body: &str, attributes: &Value) -> Value {
    json!({"messageId": id, "body": body, "attributes": attributes})
}

/// Returns the request ids and the values of the updates that were sent, sorted by request id.
fn sent(http: &Scripted) -> Vec<(String, Value)> {
    let sent = http.answered().into_iter().map(|(_, body)| {
        let values = &body["ExpressionAttributeValues"];
        (values[":request"]["S"].as_str().unwrap().to_owned(), values.clone())
    });
    let mut sent: Vec<_> = sent.collect();
    sent.sort_by(|(a, _), (b, _)| a.cmp(b));
    sent
}
