//! Requests that DynamoDB rejects.

use std::sync::Mutex;

use serde_json::json;
use testkit::{
    command::Run,
    http::{self, Message},
};

/// Serves a DynamoDB that returns an error for an operation, and otherwise describes a table that fits.
fn serve((rejected, code): (&'static str, &'static str)) -> String {
    let is_created = Mutex::new(false);
    http::serve(move |request| {
        let failed = |code: &str| Message::new("HTTP/1.1 400 Bad Request", json!({"__type": code}).to_string());
        let (_, operation) = request.header("x-amz-target").unwrap().split_once('.').unwrap();
        if operation == rejected {
            return failed(code);
        }
        let mut is_created = is_created.lock().unwrap();
        *is_created |= operation == "CreateTable";
        let body = match operation {
            "DescribeTable" if !*is_created => return failed("ResourceNotFoundException"),
            "DescribeTable" => json!({"Table": {
                "TableStatus": "ACTIVE", "DeletionProtectionEnabled": true, "SSEDescription": {"Status": "ENABLED"},
                "BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"},
                "KeySchema": [{"AttributeName": "PK", "KeyType": "HASH"}, {"AttributeName": "SK", "KeyType": "RANGE"}],
                "StreamSpecification": {"StreamEnabled": true, "StreamViewType": "NEW_IMAGE"}, "LatestStreamArn": "arn",
            }}),
            "DescribeContinuousBackups" => json!({"ContinuousBackupsDescription": {
                "ContinuousBackupsStatus": "ENABLED",
                "PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": "ENABLED"},
            }}),
            _ => json!({}),
        };
        Message::new("HTTP/1.1 200 OK", body.to_string())
    })
}

fn create_at(endpoint: &str) -> Run {
    let command = format!("--endpoint-url {endpoint} --table Factory table create");
    Run::alone(crate::VZERO, &[], &command)
}

#[test]
fn a_setting_that_is_rejected_is_named_after_the_table_was_created() {
    let endpoint = serve(("UpdateTimeToLive", "AccessDeniedException"));
    let run = create_at(&endpoint);
    assert_eq!((run.code, &run.json()["Outcome"]), (5, &json!("Created")), "{run:?}");
    assert_eq!(run.json()["PointInTimeRecovery"], true);
    let error = "error: the table Factory was created without time to live \
                 (UpdateTimeToLive failed with AccessDeniedException (request unknown)); \
                 enable it in the console of AWS or with the AWS CLI\n";
    assert_eq!(run.stderr, format!("note: time to live is disabled\n{error}"));

    let endpoint = serve(("CreateTable", "AccessDeniedException"));
    let run = create_at(&endpoint);
    assert_eq!((run.code, run.stdout.as_str()), (5, ""));
    assert_eq!(
        run.stderr,
        format!(
            "error: CreateTable of Factory at {endpoint}, Region us-east-1 is denied: the role needs dynamodb:CreateTable, \
             see docs/access.md; `aws sts get-caller-identity` shows it\n"
        )
    );
    let endpoint = serve(("CreateTable", "ValidationException"));
    assert_eq!(create_at(&endpoint).code, 2);
}
