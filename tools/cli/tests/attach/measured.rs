//! Tables whose description and write rate come from endpoints of their own.

use std::process::Command;

use axum::http::{HeaderMap, StatusCode, header::CONTENT_TYPE};
use serde_json::{Value, json};
use testkit::command::Run;

const STREAM: &str = "2026-11-22T06:24:48.123";

fn contains(list: &Value, text: &str) -> bool {
    list.as_array()
        .unwrap()
        .iter()
        .any(|line| line.as_str().unwrap().contains(text))
}

/// Returns the description of a global table with items of 1.5 KB.
fn described() -> Value {
    let arn = "arn:aws:dynamodb:eu-west-1:123456789012:table/Orders";
    json!({"Table": {
        "TableStatus": "ACTIVE", "TableArn": arn, "ItemCount": 10, "TableSizeBytes": 15_000,
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "B"}],
        "StreamSpecification": {"StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES"},
        "LatestStreamArn": format!("{arn}/stream/{STREAM}"),
        "Replicas": [{"RegionName": "us-east-1"}],
    }})
}

/// Serves a DynamoDB with a global table, and a CloudWatch with this response.
async fn serve(measured: Option<f64>) -> String {
    let respond = async move |headers: HeaderMap| {
        let (status, content, body) = match (headers.contains_key("x-amz-target"), measured) {
            (true, _) => (
                StatusCode::OK,
                "application/x-amz-json-1.0",
                described().to_string().into_bytes(),
            ),
            // CBOR: {"Datapoints": [{"Sum": measured}]}
            (false, Some(sum)) => {
                let mut body = b"\xa1\x6aDatapoints\x81\xa1\x63Sum\xfb".to_vec();
                body.extend(sum.to_be_bytes());
                (StatusCode::OK, "application/cbor", body)
            }
            (false, None) => {
                let body = b"\xa1\x66__type\x6cAccessDenied".to_vec();
                (StatusCode::FORBIDDEN, "application/cbor", body)
            }
        };
        (
            status,
            [(CONTENT_TYPE, content)],
            [("smithy-protocol", "rpc-v2-cbor")],
            body,
        )
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = axum::Router::new().fallback(respond);
    tokio::spawn(async move { axum::serve(listener, server).await });
    format!("http://{address}")
}

/// Runs the command with AWS's endpoints replaced.
async fn attach_at(endpoint: &str) -> Run {
    let mut vzero = Command::new(env!("CARGO_BIN_EXE_vzero"));
    vzero
        .env_clear()
        .env("AWS_ENDPOINT_URL", endpoint)
        .env("AWS_ACCESS_KEY_ID", "x")
        .env("AWS_SECRET_ACCESS_KEY", "x")
        .env("AWS_REGION", "eu-west-1")
        .args(["attach", "Orders"]);
    let output = tokio::task::spawn_blocking(move || vzero.output()).await.unwrap();
    output.unwrap().into()
}

#[tokio::test]
async fn the_rate_is_measured_and_replicas_are_named() {
    // Items of 1.5 KB: two write units for each change, in 14 days.
    let endpoint = serve(Some(2.0 * 3.0 * 14.0 * 86_400.0)).await;
    let run = attach_at(&endpoint).await;
    let report = run.json();
    assert_eq!(
        (run.code, &report["UpdatesPerSecond"]),
        (0, &json!(3.0)),
        "{} {report}",
        run.stderr
    );
    assert!(report["MonthlyCost"]["Parts"]["Writes"].as_f64().unwrap() > 5.0);
    assert_eq!(report["Replicas"], json!(["us-east-1"]));
    assert!(contains(
        &report["Notes"],
        "replicas in us-east-1: attach it in one Region only"
    ));
    assert!(contains(&report["Notes"], "at most one reader"));
    assert!(report["Deploy"][1].as_str().unwrap().contains(" --region eu-west-1 "));

    // Without the permission, the report has no cost.
    let run = attach_at(&serve(None).await).await;
    assert_eq!((run.code, run.json().get("MonthlyCost")), (0, None), "{run:?}");
    assert!(
        contains(
            &run.json()["Notes"],
            "CloudWatch: AccessDenied; pass --updates-per-second"
        ),
        "{}",
        run.json()
    );
}

#[tokio::test]
async fn an_endpoint_that_cannot_be_reached_is_a_service_error() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let run = attach_at(&endpoint).await;
    assert_eq!((run.code, run.stdout.as_str()), (5, ""), "{run:?}");
}
