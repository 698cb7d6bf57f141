//! Databases that cannot be reached, and requests that DynamoDB rejects.

use std::{
    collections::HashMap,
    process::Command,
    sync::{Arc, Mutex},
};

use axum::http::{HeaderMap, StatusCode};
use serde_json::json;
use testkit::command::{Arguments as _, Run};

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
            "; start the local stack, or correct --endpoint-url",
        ),
        (
            &all,
            unknown,
            5,
            "cannot connect to http://host.invalid:8000: ",
            "; correct --endpoint-url, or check the network",
        ),
        (region, "", 5, "no AWS credentials found: run `aws sso login`", ""),
        (credentials, "", 2, "no AWS Region: use --region, or set AWS_REGION", ""),
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
        let mut command = Command::new(crate::VZERO);
        command.env_clear().env("HOME", home.path());
        command
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("AWS_MAX_ATTEMPTS", "1");
        command.envs(environment.split_whitespace().map(|pair| pair.split_once('=').unwrap()));
        command.args(["get", "secret"]).args(arguments.words());
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.starts_with(&start) && said.ends_with(&end), "{said}");
        assert!(said.lines().count() == 1 && !said.contains("secret"), "{said}");
        let verbose = command.arg("-v").output().unwrap();
        let verbose = String::from_utf8(verbose.stderr).unwrap();
        assert!(
            verbose.len() > said.len() && verbose.contains("GetItem could not be sent"),
            "{verbose}"
        );
    }
}

/// Serves a DynamoDB that returns these errors, by operation, and otherwise describes a table that fits.
async fn serve(errors: HashMap<&'static str, &'static str>) -> String {
    let is_created = Arc::new(Mutex::new(false));
    let respond = async move |headers: HeaderMap| {
        let target = headers["x-amz-target"].to_str().unwrap();
        let (_, operation) = target.split_once('.').unwrap();
        let failed = |code: &str| (StatusCode::BAD_REQUEST, json!({"__type": code}).to_string());
        if let Some(code) = errors.get(operation) {
            return failed(code);
        }
        let mut is_created = is_created.lock().unwrap();
        let body = match operation {
            "CreateTable" => {
                *is_created = true;
                json!({})
            }
            "DescribeTable" if !*is_created => return failed("ResourceNotFoundException"),
            "DescribeTable" => json!({"Table": {
                "TableStatus": "ACTIVE", "DeletionProtectionEnabled": true, "SSEDescription": {"Status": "ENABLED"},
                "BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"},
                "KeySchema": [{"AttributeName": "PK", "KeyType": "HASH"}, {"AttributeName": "SK", "KeyType": "RANGE"}],
                "StreamSpecification": {"StreamEnabled": true, "StreamViewType": "NEW_IMAGE"},
            }}),
            "DescribeContinuousBackups" => json!({"ContinuousBackupsDescription": {
                "ContinuousBackupsStatus": "ENABLED",
                "PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": "ENABLED"},
            }}),
            _ => json!({}),
        };
        (StatusCode::OK, body.to_string())
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = axum::Router::new().fallback(respond);
    tokio::spawn(async move { axum::serve(listener, server).await });
    format!("http://{address}")
}

async fn create_at(endpoint: &str) -> Run {
    let mut vzero = Command::new(crate::VZERO);
    vzero
        .env_clear()
        .args(["--endpoint-url", endpoint, "--table", "Factory", "table", "create"]);
    let output = tokio::task::spawn_blocking(move || vzero.output()).await.unwrap();
    output.unwrap().into()
}

#[tokio::test]
async fn a_setting_that_is_rejected_is_named_after_the_table_was_created() {
    let endpoint = serve(HashMap::from([("UpdateTimeToLive", "AccessDeniedException")])).await;
    let run = create_at(&endpoint).await;
    assert_eq!((run.code, &run.json()["Outcome"]), (5, &json!("Created")), "{run:?}");
    assert_eq!(run.json()["PointInTimeRecovery"], true);
    let error = "error: the table Factory was created without time to live \
                 (UpdateTimeToLive failed with AccessDeniedException (request unknown)); \
                 enable it in the console of AWS or with the AWS CLI\n";
    assert_eq!(run.stderr, format!("note: time to live is disabled\n{error}"));

    let endpoint = serve(HashMap::from([("CreateTable", "AccessDeniedException")])).await;
    let run = create_at(&endpoint).await;
    assert_eq!((run.code, run.stdout.as_str()), (5, ""));
    assert_eq!(
        run.stderr,
        format!(
            "error: CreateTable of Factory at {endpoint}, Region us-east-1 is denied: the role needs dynamodb:CreateTable, \
             see docs/security.md\n"
        )
    );
    let endpoint = serve(HashMap::from([("CreateTable", "ValidationException")])).await;
    assert_eq!(create_at(&endpoint).await.code, 2);
}
