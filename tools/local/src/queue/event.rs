//! The event for SQS messages, and the function's response to it.
//! See <https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html>.

use aws_sdk_sqs::types::{Message, MessageAttributeValue};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};
use shared::json;

use crate::{
    mapping::{InvocationOutcome, response},
    template::resolve::REGION,
};

pub fn event(messages: &[Message], arn: &str) -> Value {
    json!({"Records": messages.iter().map(|message| record(message, arn)).collect::<Vec<_>>()})
}

fn record(message: &Message, arn: &str) -> Value {
    let attributes = message.attributes.iter().flatten();
    let attributes: Map<_, _> = attributes
        .map(|(name, value)| (name.as_str().to_owned(), json!(value)))
        .collect();
    let more = message.message_attributes.iter().flatten();
    let more: Map<_, _> = more.map(|(name, value)| (name.clone(), attribute(value))).collect();
    let mut record = json!({
        "messageId": message.message_id,
        "receiptHandle": message.receipt_handle,
        "body": message.body,
        "attributes": attributes,
        "messageAttributes": more,
        "md5OfBody": message.md5_of_body,
        "eventSource": "aws:sqs",
        "eventSourceARN": arn,
        "awsRegion": REGION,
    });
    if let Some(md5) = &message.md5_of_message_attributes {
        record["md5OfMessageAttributes"] = json!(md5);
    }
    record
}

fn attribute(value: &MessageAttributeValue) -> Value {
    let mut attribute = json!({"stringListValues": [], "binaryListValues": [], "dataType": value.data_type});
    if let Some(text) = &value.string_value {
        attribute["stringValue"] = json!(text);
    }
    if let Some(bytes) = &value.binary_value {
        attribute["binaryValue"] = json!(STANDARD.encode(bytes));
    }
    attribute
}

/// Returns the messages to delete: all but the batch item failures.
pub fn done<'a>(messages: &'a [Message], outcome: &InvocationOutcome, reports: bool) -> Vec<&'a Message> {
    let ids: Vec<_> = messages
        .iter()
        .map(|message| message.message_id.as_deref().unwrap_or_default())
        .collect();
    let done = done_indices(&ids, outcome, reports);
    done.into_iter().filter_map(|index| messages.get(index)).collect()
}

/// Returns the indices of the messages to delete, given the ids of all messages of an invocation. `reports` is `true` with
/// `ReportBatchItemFailures`.
///
/// None is deleted if the response is invalid or names a message outside of the batch (recorded). An empty object instead of a
/// batch item failure names no message, so that all are deleted (recorded).
pub fn done_indices(ids: &[&str], outcome: &InvocationOutcome, reports: bool) -> Vec<usize> {
    let InvocationOutcome::Response(response) = outcome else {
        return Vec::new();
    };
    let failed = match reports {
        true => failed_ids(response, ids),
        false => Some(Vec::new()),
    };
    let is_done = |failed: &[String], id: &str| !failed.iter().any(|failed| failed == id);
    match failed {
        Some(failed) => (0..ids.len()).filter(|index| is_done(&failed, ids[*index])).collect(),
        None => Vec::new(),
    }
}

/// Returns the ids of the failed messages. `None` if the response is invalid.
fn failed_ids(response: &[u8], ids: &[&str]) -> Option<Vec<String>> {
    let failures = match json::parse_bytes(response) {
        Ok(Value::Array(failures)) => failures,
        _ => response::failures(response)?,
    };
    let failures = failures.iter().filter(|failure| **failure != json!({}));
    let id = |failure: &Value| {
        let id = failure.get("itemIdentifier")?.as_str()?;
        ids.contains(&id).then(|| id.to_owned())
    };
    failures.map(id).collect()
}

#[cfg(test)]
mod tests {
    use aws_sdk_sqs::{primitives::Blob, types::MessageSystemAttributeName};

    use super::*;

    fn message(id: &str) -> Message {
        Message::builder()
            .message_id(id)
            .receipt_handle(format!("receipt of {id}"))
            .body("{}")
            .md5_of_body("99914b932bd37a50b983c5e7c90ae93b")
            .build()
    }

    #[test]
    fn each_response_selects_the_messages_to_delete() {
        let messages = ["a", "b", "c"].map(message);
        let ids = |done: Vec<&Message>| {
            done.iter()
                .map(|message| message.message_id.clone().unwrap())
                .collect::<String>()
        };
        let check = |response: &str, expected: &str| {
            let end = InvocationOutcome::Response(response.as_bytes().to_vec());
            assert_eq!(ids(done(&messages, &end, true)), expected, "{response}");
        };
        for response in [
            "",
            "null",
            "{}",
            "[]",
            r#"{"batchItemFailures": null}"#,
            r#"{"batchItemFailures": []}"#,
            // Recorded, although AWS documents that a wrong key fails the batch.
            r#"{"batchItemFailures": [{}]}"#,
            "[{}]",
        ] {
            check(response, "abc");
        }
        check(r#"{"batchItemFailures": [{"itemIdentifier": "b"}]}"#, "ac");
        check(
            r#"{"batchItemFailures": [{"itemIdentifier": "c"}, {"itemIdentifier": "a"}, {"itemIdentifier": "a"}]}"#,
            "b",
        );
        for response in [
            "no JSON",
            "7",
            r#""text""#,
            r#"{"batchItemFailures": "a"}"#,
            r#"{"batchItemFailures": [{"itemIdentifier": ""}]}"#,
            r#"{"batchItemFailures": [{"itemIdentifier": null}]}"#,
            r#"{"batchItemFailures": [{"itemIdentifier": 123}]}"#,
            r#"{"batchItemFailures": {"itemIdentifier": "a"}}"#,
            r#"[{"itemIdentifier": "d"}]"#,
            r#"{"batchItemFailures": [{"wrong": "a"}]}"#,
            r#"{"batchItemFailures": [{"itemIdentifier": "a"}, {"itemIdentifier": "d"}]}"#,
            r#"{"batchItemFailures": ["a"]}"#,
        ] {
            check(response, "");
        }
        for end in [InvocationOutcome::FunctionError, InvocationOutcome::NotInvoked] {
            assert!(done(&messages, &end, true).is_empty() && done(&messages, &end, false).is_empty());
        }
        let names_one = InvocationOutcome::Response(br#"{"batchItemFailures": [{"itemIdentifier": "b"}]}"#.to_vec());
        assert_eq!(ids(done(&messages, &names_one, false)), "abc");
    }

    #[test]
    fn a_record_has_the_format_of_lambda() {
        let attribute = MessageAttributeValue::builder()
            .data_type("Binary")
            .binary_value(Blob::new([0, 255]));
        let message = Message::builder()
            .message_id("m")
            .receipt_handle("r")
            .body("b")
            .md5_of_body("5")
            .attributes(MessageSystemAttributeName::ApproximateReceiveCount, "2")
            .message_attributes("bytes", attribute.build().unwrap())
            .md5_of_message_attributes("6")
            .build();
        let record = json!({
            "messageId": "m", "receiptHandle": "r", "body": "b", "attributes": {"ApproximateReceiveCount": "2"},
            "messageAttributes": {"bytes": {
                "stringListValues": [], "binaryListValues": [], "dataType": "Binary", "binaryValue": "AP8=",
            }},
            "md5OfBody": "5", "eventSource": "aws:sqs", "eventSourceARN": "arn", "awsRegion": "us-east-1",
            "md5OfMessageAttributes": "6",
        });
        assert_eq!(event(&[message], "arn"), json!({"Records": [record]}));
    }
}
