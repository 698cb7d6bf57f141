//! The event for SQS messages, and the function's response to it.
//! See <https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html>.

use aws_sdk_sqs::types::{Message, MessageAttributeValue};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

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
    json!({
        "messageId": message.message_id,
        "receiptHandle": message.receipt_handle,
        "body": message.body,
        "attributes": attributes,
        "messageAttributes": more,
        "md5OfBody": message.md5_of_body,
        "eventSource": "aws:sqs",
        "eventSourceARN": arn,
        "awsRegion": REGION,
    })
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

/// Returns the messages to delete: all but the batch item failures. Returns none if the response is invalid or names a
/// message outside of the batch.
pub fn done<'a>(messages: &'a [Message], outcome: &InvocationOutcome, reports: bool) -> Vec<&'a Message> {
    let InvocationOutcome::Response(response) = outcome else {
        return Vec::new();
    };
    if !reports {
        return messages.iter().collect();
    }
    let Some(failures) = response::failures(response) else {
        return Vec::new();
    };
    let mut failed = Vec::new();
    for failure in &failures {
        let id = failure.get("itemIdentifier").and_then(Value::as_str);
        let named = messages
            .iter()
            .find(|message| message.message_id.as_deref() == id && id.is_some());
        match named {
            Some(message) => failed.push(message.message_id.as_deref()),
            None => return Vec::new(),
        }
    }
    messages
        .iter()
        .filter(|message| !failed.contains(&message.message_id.as_deref()))
        .collect()
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
            .build();
        let record = json!({
            "messageId": "m", "receiptHandle": "r", "body": "b", "attributes": {"ApproximateReceiveCount": "2"},
            "messageAttributes": {"bytes": {
                "stringListValues": [], "binaryListValues": [], "dataType": "Binary", "binaryValue": "AP8=",
            }},
            "md5OfBody": "5", "eventSource": "aws:sqs", "eventSourceARN": "arn", "awsRegion": "us-east-1",
        });
        assert_eq!(event(&[message], "arn"), json!({"Records": [record]}));
    }
}
