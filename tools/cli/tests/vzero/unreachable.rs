//! Databases that cannot be reached, and requests that DynamoDB rejects.

use std::sync::Mutex;

use serde_json::json;
use testkit::{
    command::Run,
    http::{self, Message},
};

#[test]
fn an_unreachable_database_is_named_with_the_cause_and_the_next_step() {
    let credentials = "AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=x";
    let region = "AWS_REGION=eu-central-1";
    let all = format!("{credentials} {region}");
    let wrong = format!("{all} AWS_ENDPOINT_URL=localhost:8000");
    let is_local = "--endpoint-url http://127.0.0.1:1";
    let unknown = "--endpoint-url http://host.invalid:8000";
    for (environment, arguments, code, start, end) in [
        (
            "",
            is_local,
            5,
            "cannot connect to http://127.0.0.1:1: connection refused",
            "; start the local stack with `cargo run -p local`, or correct --endpoint-url",
        ),
        (
            &all,
            unknown,
            5,
            "cannot connect to http://host.invalid:8000: ",
            "; correct --endpoint-url, or check the network",
        ),
        (region, "", 5, "no AWS credentials found: run `aws sso login`", ""),
        (
            credentials,
            "",
            2,
            "no AWS Region: use --region, or run `aws configure`",
            "",
        ),
        (
            &wrong,
            "",
            2,
            "the endpoint is not a URL (",
            "): correct AWS_ENDPOINT_URL, or use --endpoint-url",
        ),
    ] {
        let (start, end) = (format!("error: {start}"), format!("{end}\n"));
        let home = tempfile::tempdir().unwrap();
        let own = format!(
            "HOME={} AWS_EC2_METADATA_DISABLED=true AWS_MAX_ATTEMPTS=1 {environment}",
            home.path().display()
        );
        let environment: Vec<_> = own
            .split_whitespace()
            .map(|pair| pair.split_once('=').unwrap())
            .collect();
        let run = |more: &str| Run::alone(crate::VZERO, &environment, &format!("get secret {arguments} {more}"));
        let (ran, verbose) = (run(""), run("-v").stderr);
        let said = ran.stderr;
        assert_eq!(ran.code, code, "{said}");
        assert!(said.starts_with(&start) && said.ends_with(&end), "{said}");
        assert!(said.lines().count() == 1 && !said.contains("secret"), "{said}");
        let is_longer = verbose.len() > said.len();
        assert!(is_longer && verbose.contains("GetItem could not be sent"), "{verbose}");
    }
}

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
