//! The Invoke API over HTTP.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::future::join_all;
use local::lambda::Lambda;
use serde_json::{Value, json};

use crate::{
    http::{Connection, Response},
    support::{eventually, function, host, item, silent_endpoint, start},
};

const TAIL: &str = "X-Amz-Log-Type: Tail\r\n";

async fn post(endpoint: &str, path: &str, headers: &str, body: &str) -> Response {
    let mut connection = Connection::open(endpoint).await;
    connection
        .request(&format!("POST {path}"), headers, body.as_bytes())
        .await
}

fn path(function: &str) -> String {
    let (function, query) = function.split_once('?').unwrap_or((function, ""));
    format!("/2015-03-31/functions/{function}/invocations?{query}")
}

fn tail(response: &Response) -> Option<String> {
    let encoded = response.header("x-amz-log-result")?;
    Some(String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap())
}

#[tokio::test]
async fn a_log_tail_contains_its_own_invocation_only() {
    let stack = start().await;
    let asks = (0..24).map(async |number| {
        let body = json!({"ID": format!("E{number}"), "State": number}).to_string();
        post(stack.lambda.endpoint(), &path("writer-fn"), TAIL, &body).await
    });
    for response in join_all(asks).await {
        let request = response.header("x-amzn-requestid").unwrap();
        let log = tail(&response).unwrap();
        assert!(
            !log.is_empty() && log.lines().all(|line| line.contains(request)),
            "{log}"
        );
    }
    // The function's log contains it too. Without `X-Amz-Log-Type`, a response has no tail.
    let logged = std::fs::read_to_string(stack.logs.join("writer-fn.log")).unwrap();
    let written = logged.lines().filter(|line| line.contains("Written")).count();
    assert!(written >= 24, "{logged}");
    let response = post(stack.lambda.endpoint(), &path("writer-fn"), "", r#"{"ID": "E"}"#).await;
    assert_eq!(tail(&response), None);
}

#[tokio::test]
async fn every_type_of_invocation_and_every_error() {
    let stack = start().await;
    let endpoint = stack.lambda.endpoint();
    let kind = |kind: &str| format!("X-Amz-Invocation-Type: {kind}\r\n");
    let error = json!({"errorType": "InvalidEvent", "errorMessage": "the event is invalid: SK is reserved"});
    for (body, function_error, expected) in [
        (
            r#"{"ID": "a"}"#,
            None,
            json!({"ID": "a", "Version": 1, "Outcome": "Written"}),
        ),
        (r#"{"ID": "a", "SK": "x"}"#, Some("Unhandled"), error),
    ] {
        let response = post(endpoint, &path("writer-fn"), "", body).await;
        assert_eq!((response.status, response.json()), (200, expected));
        assert_eq!(response.header("x-amz-function-error"), function_error);
        assert_eq!(response.header("x-amz-executed-version"), Some("$LATEST"));
    }
    let accepted = post(endpoint, &path("writer-fn"), &kind("Event"), r#"{"ID": "b"}"#).await;
    assert_eq!(accepted.status, 202);
    eventually("the later invocation", async || {
        (item(&stack, "b", "v1").await != Value::Null).then_some(())
    })
    .await;
    let dry = post(endpoint, &path("writer-fn"), &kind("DryRun"), r#"{"ID": "c"}"#).await;
    assert_eq!(dry.status, 204);
    assert_eq!(item(&stack, "c", "v0").await, Value::Null);

    let none = String::new;
    let large = |megabytes: usize| format!("\"{}\"", "x".repeat(megabytes * 1024 * 1024));
    let arn = |account: &str| format!("arn:aws:lambda:us-east-1:{account}:function:writer-fn");
    let (own, other) = (arn("000000000000"), arn("999999999999"));
    let (missing, parameter) = ("ResourceNotFoundException", "InvalidParameterValueException");
    for (name, headers, body, status, error) in [
        ("WriterFunction", none(), r#"{"ID": "d"}"#, 200, None),
        ("writer-fn:$LATEST", none(), r#"{"ID": "d"}"#, 200, None),
        (&own, none(), r#"{"ID": "d"}"#, 200, None),
        (&other, none(), "{}", 404, Some(missing)),
        ("nothing", none(), "{}", 404, Some(missing)),
        ("writer-fn:prod", kind("DryRun"), "{}", 404, Some(missing)),
        ("writer-fn?Qualifier=prod", none(), "{}", 404, Some(missing)),
        ("writer-fn:$LATEST?Qualifier=prod", none(), "{}", 400, Some(parameter)),
        (
            "writer-fn",
            "X-Amz-Log-Type: Head\r\n".to_owned(),
            "{}",
            400,
            Some(parameter),
        ),
        ("writer-fn", kind("Someday"), "{}", 400, Some(parameter)),
        ("writer-fn", none(), "{", 400, Some("InvalidRequestContentException")),
        ("writer-fn", none(), &large(6), 413, Some("RequestTooLargeException")),
        (
            "writer-fn",
            kind("Event"),
            &large(1),
            413,
            Some("RequestTooLargeException"),
        ),
    ] {
        let response = post(endpoint, &path(name), &headers, body).await;
        let found = (response.status, response.header("x-amzn-errortype"));
        assert_eq!(found, (status, error), "{name} {headers}");
    }
}

fn lambda_of(program: &str, arguments: &[&str], logs: &std::path::Path) -> Lambda {
    let function = function("writer-fn", std::time::Duration::from_millis(300));
    let host = host(program, arguments, silent_endpoint(), logs);
    Lambda::serve(std::net::TcpListener::bind("127.0.0.1:0").unwrap(), &[function], &host).unwrap()
}

/// A function that takes an invocation and never responds.
const HANGS: &str = r#"
exec 3<>"/dev/tcp/${AWS_LAMBDA_RUNTIME_API/://}"
printf 'GET /2018-06-01/runtime/invocation/next HTTP/1.1\r\nHost: localhost\r\n\r\n' >&3
read -r _ <&3
exec sleep 60"#;

#[tokio::test]
async fn a_function_that_crashes_or_hangs_is_an_error_and_does_not_block_the_next() {
    let logs = tempfile::tempdir().unwrap();
    let update = br#"{"ID": "a"}"#.to_vec();
    let dies = lambda_of("/bin/false", &[], logs.path());
    let hangs = lambda_of("bash", &["-c", HANGS], logs.path());
    for _ in 0..3 {
        for (lambda, kind) in [(&dies, "Runtime.ExitError"), (&hangs, "Sandbox.Timedout")] {
            let invoked = lambda.invoke("writer-fn", update.clone()).await.unwrap();
            let error: Value = serde_json::from_slice(&invoked.payload).unwrap();
            assert!(invoked.is_error);
            assert_eq!(error["errorType"], kind);
        }
    }
    let missing = lambda_of("/no/such/program", &[], logs.path())
        .invoke("writer-fn", update)
        .await
        .unwrap();
    assert!(missing.is_error);
}
