//! Events of Kinesis, SNS and HTTP endpoints, from the event to the response.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use testkit::{
    replay::failures,
    scripted::{Reply, Scripted},
};

use crate::{handle, writer};

fn sample(name: &str) -> String {
    let events = concat!(env!("CARGO_MANIFEST_DIR"), "/../events");
    std::fs::read_to_string(format!("{events}/{name}.json")).unwrap()
}

fn record(number: u32, data: &str) -> Value {
    json!({
        "eventSource": "aws:kinesis", "eventID": format!("shardId-0:{number}"),
        "kinesis": {"sequenceNumber": number.to_string(), "data": STANDARD.encode(data), "approximateArrivalTimestamp": 1.5},
    })
}

/// The malformed record fails alone. Of an entity with a failure that can pass, later records are not started.
#[tokio::test(start_paused = true)]
async fn a_failed_record_stops_only_its_entity() {
    let http = Scripted::new(
        |_, body| match body["ExpressionAttributeValues"][":request"]["S"].as_str() {
            Some("shardId-0:4") => Reply::now(json!({"__type": "InternalServerError"})),
            _ => Reply::now(json!({"Attributes": {"Latest": {"N": "1"}}})),
        },
    );
    let records = [
        record(1, r#"{"ID": "A"}"#),
        record(2, "secret"),
        record(3, r#"{"ID": "A"}"#),
        record(4, r#"{"ID": "B"}"#),
        record(5, r#"{"ID": "B"}"#),
        record(6, r#"{"ID": "C"}"#),
    ];
    let response = handle(&writer(http.clone()), &json!({"Records": records})).await;
    assert_eq!(failures(&response), ["2", "4", "5"]);
    let mut written: Vec<_> = super::sent(&http).into_iter().map(|(id, _)| id).collect();
    written.dedup();
    assert_eq!(written, ["shardId-0:1", "shardId-0:3", "shardId-0:4", "shardId-0:6"]);
    // Without a number, the response cannot name it.
    let nameless = json!({"Records": [record(1, r#"{"ID": "A"}"#), {"eventSource": "aws:kinesis"}]});
    let response = handle(&writer(http), &nameless).await;
    assert_eq!(
        response["errorMessage"],
        "the event is invalid: a message that failed has no messageId or sequenceNumber"
    );
}

/// Sends a request to a table with this latest item, and returns the response.
async fn post(stored: Option<Value>, headers: &Value, body: &str) -> Value {
    let http = Scripted::new(move |operation, _| match &stored {
        // The search of history for an earlier delivery finds none.
        _ if operation != "UpdateItem" => Reply::now(json!({"Items": [], "Count": 0, "Responses": {}})),
        Some(stored) => Reply::rejected(Some(stored.clone())),
        None => Reply::now(json!({"Attributes": {"Latest": {"N": "8"}}})),
    });
    let mut event: Value = serde_json::from_str(&sample("writer-function-url")).unwrap();
    event["headers"] = json!({"content-type": "application/json"});
    event["headers"]
        .as_object_mut()
        .unwrap()
        .extend(headers.as_object().unwrap().clone());
    event["body"] = json!(body);
    handle(&writer(http), &event).await
}

#[tokio::test(start_paused = true)]
async fn a_request_gets_a_status_code_and_the_version_as_etag() {
    let body = r#"{"ID": "E", "State": "OK"}"#;
    let v0 = |latest: &str, other: Value| {
        let mut item =
            json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": latest}, "RecentRequests": {"M": {}}});
        item.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
        Some(item)
    };
    let (none, key) = (json!({}), json!({"idempotency-key": "key-1"}));
    let large = format!(r#"{{"ID": "E", "State": "{}"}}"#, "x".repeat(500_000));
    for (stored, headers, body, status, etag, content) in [
        (None, &key, body, 200, "\"8\"", "Written"),
        (
            v0("7", json!({})),
            &json!({"if-match": "\"5\""}),
            body,
            412,
            "\"7\"",
            "VersionConflict",
        ),
        (
            v0("7", json!({})),
            &json!({"if-none-match": "*"}),
            body,
            412,
            "\"7\"",
            "VersionConflict",
        ),
        // Of another update.
        (
            v0(
                "7",
                json!({"RequestId": {"S": "key-1"}, "RequestPayload": {"S": "AAAAAA"}}),
            ),
            &key,
            body,
            409,
            "",
            "InvalidEvent",
        ),
        (
            None,
            &json!({"content-type": "text/plain"}),
            body,
            415,
            "",
            "InvalidEvent",
        ),
        (None, &none, "secret", 400, "", "InvalidEvent"),
        (None, &none, large.as_str(), 413, "", "InvalidEvent"),
        (
            v0("7", json!({})),
            &none,
            r#"{"ID": "E", "A": {"$update": {"B": 1}}}"#,
            422,
            "",
            "InvalidEvent",
        ),
    ] {
        let response = post(stored, headers, body).await;
        assert_eq!(response["statusCode"], status, "{response}");
        assert_eq!(
            response["headers"]["etag"].as_str().unwrap_or_default(),
            etag,
            "{response}"
        );
        assert_eq!(response["headers"]["content-type"], "application/json");
        let text = response["body"].as_str().unwrap();
        assert!(text.contains(content) && !text.contains("secret"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn failures_and_refusals_have_their_status_codes() {
    let event: Value = serde_json::from_str(&sample("writer-function-url")).unwrap();
    let failing = |error: &'static str| Scripted::new(move |_, _| Reply::now(json!({"__type": error})));
    for (error, status) in [
        ("ThrottlingException", 503),
        ("InternalServerError", 500),
        ("ValidationException", 422),
    ] {
        let response = handle(&writer(failing(error)), &event).await;
        assert_eq!(response["statusCode"], status, "{response}");
        assert_eq!(response["headers"].get("retry-after").is_some(), status == 503);
    }
    for (pointer, value, status) in [
        ("/requestContext/authorizer", Value::Null, 403),
        ("/requestContext/http/method", json!("PUT"), 405),
    ] {
        let mut event = event.clone();
        *event.pointer_mut(pointer).unwrap() = value;
        let response = handle(&writer(failing("not sent")), &event).await;
        assert_eq!(response["statusCode"], status, "{response}");
        assert_eq!(response["headers"].get("allow").is_some(), status == 405);
    }
    // A REST API, and an operator who must see it.
    let mut rest = event;
    rest["httpMethod"] = json!("POST");
    assert_eq!(
        handle(&writer(failing("not sent")), &rest).await["errorType"],
        "InvalidEvent"
    );
}
