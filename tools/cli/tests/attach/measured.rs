//! Tables whose description and write rate come from endpoints of their own.

use serde_json::{Value, json};
use testkit::{
    command::Run,
    http::{self, Message},
};

const STREAM: &str = "2026-11-22T06:24:48.123";

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
fn serve(measured: Option<f64>) -> String {
    http::serve(move |request| {
        let (status, content, body) = match (request.header("x-amz-target"), measured) {
            (Some(_), _) => ("200 OK", "x-amz-json-1.0", described().to_string().into_bytes()),
            // CBOR: {"Datapoints": [{"Sum": measured}]}
            (None, Some(sum)) => {
                let body = [&b"\xa1\x6aDatapoints\x81\xa1\x63Sum\xfb"[..], &sum.to_be_bytes()];
                ("200 OK", "cbor", body.concat())
            }
            (None, None) => ("403 Forbidden", "cbor", b"\xa1\x66__type\x6cAccessDenied".to_vec()),
        };
        let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/{content}\r\nsmithy-protocol: rpc-v2-cbor");
        Message::new(&head, body)
    })
}

/// Runs the command with AWS's endpoints replaced.
fn attach_at(endpoint: &str) -> Run {
    let environment = [
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_ACCESS_KEY_ID", "x"),
        ("AWS_SECRET_ACCESS_KEY", "x"),
        ("AWS_REGION", "eu-west-1"),
    ];
    Run::alone(env!("CARGO_BIN_EXE_vzero"), &environment, "attach Orders")
}

#[test]
fn the_rate_is_measured_and_replicas_are_named() {
    // Items of 1.5 KB: two write units for each change, in 14 days.
    let run = attach_at(&serve(Some(2.0 * 3.0 * 14.0 * 86_400.0)));
    let report = run.json();
    assert_eq!(
        (run.code, &report["UpdatesPerSecond"]),
        (0, &json!(3.0)),
        "{} {report}",
        run.stderr
    );
    assert!(report["MonthlyCost"]["Parts"]["Writes"].as_f64().unwrap() > 5.0);
    assert_eq!(report["Replicas"], json!(["us-east-1"]));
    let notes = report["Notes"].to_string();
    assert!(
        notes.contains("replicas in us-east-1: attach it in one Region only"),
        "{notes}"
    );
    assert!(notes.contains("at most one reader"), "{notes}");
    assert!(report["Deploy"][1].as_str().unwrap().contains(" --region eu-west-1 "));

    // Without the permission, the report has no cost.
    let run = attach_at(&serve(None));
    let (report, said) = (run.json(), "CloudWatch: AccessDenied; pass --updates-per-second");
    assert_eq!((run.code, report.get("MonthlyCost")), (0, None), "{run:?}");
    assert!(report["Notes"].to_string().contains(said), "{report}");
}
