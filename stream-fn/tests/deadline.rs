//! What the recorder makes of a DynamoDB that fails: on the wire, without one.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

use std::time::Duration;

use aws_sdk_dynamodb::{
    Client, Config,
    config::{BehaviorVersion, Credentials, Region, http::HttpResponse},
};
use aws_smithy_http_client::test_util::{NeverClient, ReplayEvent, StaticReplayClient};
use serde_json::{Value, json, value::RawValue};
use shared::{
    clock::Deadline,
    config::Config as Settings,
    domain::{keys::VersionDigits, update::Ordering},
    dynamodb::{
        client::{retries, timeouts},
        write::WriteOptions,
    },
};
use stream_fn::Recorder;

fn recorder(http: impl aws_sdk_dynamodb::config::HttpClient + 'static) -> Recorder {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("eu-central-1"))
        .credentials_provider(Credentials::for_tests())
        .timeout_config(timeouts())
        .retry_config(retries())
        .http_client(http)
        .build();
    let settings = Settings {
        table: "Table".to_owned(),
        digits: VersionDigits::default(),
        ordering: Ordering::Arrival,
        write: WriteOptions::default(),
        log_keys: false,
    };
    Recorder::new(Client::from_conf(config), &settings)
}

fn batch(records: usize) -> Box<RawValue> {
    let record = |n: usize| {
        let keys = json!({"PK": {"S": n.to_string()}, "SK": {"S": "v0"}});
        let mut image = keys.clone();
        image["Latest"] = json!({"N": "1"});
        image["A"] = json!({"S": "secret"});
        json!({"eventName": "INSERT", "dynamodb": {"Keys": keys, "NewImage": image, "SequenceNumber": n.to_string()}})
    };
    let event = json!({"Records": (1..=records).map(record).collect::<Vec<_>>()});
    RawValue::from_string(event.to_string()).unwrap()
}

async fn failed(recorder: &Recorder, records: usize, left: Duration) -> Vec<String> {
    let answer = recorder.handle(&batch(records), Deadline::after(left)).await.unwrap();
    let answer = serde_json::to_value(answer).unwrap();
    let failures = answer["batchItemFailures"].as_array().unwrap();
    failures
        .iter()
        .map(|failure| failure["itemIdentifier"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_not_done_in_time_is_returned_in_order() {
    let expected: Vec<_> = (1..=500).map(|n| n.to_string()).collect();
    for left in [0, 1, 5, 60] {
        let began = tokio::time::Instant::now();
        let left = Duration::from_secs(left);
        assert_eq!(failed(&recorder(NeverClient::new()), 500, left).await, expected);
        assert!(
            began.elapsed() <= left,
            "answered after {:?} of {left:?}",
            began.elapsed()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_put_whose_answer_was_lost_is_already_recorded() {
    let answer = |status: u16, body: Value| {
        let response = HttpResponse::new(status.try_into().unwrap(), body.to_string().into());
        ReplayEvent::new(aws_sdk_dynamodb::config::http::HttpRequest::empty(), response)
    };
    let refused = |stored: Value| {
        let kind = "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException";
        answer(400, json!({"__type": kind, "message": "refused", "Item": stored}))
    };
    let lost = || answer(500, json!({"__type": "InternalServerError"}));
    let own = json!({"PK": {"S": "1"}, "SK": {"S": "v1"}, "A": {"S": "secret"}});
    let mut other = own.clone();
    other["A"] = json!({"S": "other"});
    let left = Duration::from_secs(60);
    let http = StaticReplayClient::new(vec![lost(), refused(own)]);
    assert!(failed(&recorder(http), 1, left).await.is_empty());
    let http = StaticReplayClient::new(vec![lost(), refused(other)]);
    assert_eq!(failed(&recorder(http), 1, left).await, ["1"]);
}
