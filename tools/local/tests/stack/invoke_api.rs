//! The Invoke API over HTTP.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::future::join_all;
use local::lambda::Lambda;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::support::{eventually, function, host, item, silent_endpoint, start};

/// Returns the head of an HTTP response in lower case, and its body.
async fn post(endpoint: &str, path: &str, headers: &str, body: &str) -> (String, String) {
    let address = endpoint.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    // Not the encoded log.
    let lines = head.lines().map(|line| match line.split_once(": ") {
        Some((name, value)) if name.eq_ignore_ascii_case("x-amz-log-result") => {
            format!("{}: {value}", name.to_lowercase())
        }
        _ => line.to_lowercase(),
    });
    (lines.collect::<Vec<_>>().join("\r\n"), body.to_owned())
}

fn path(function: &str) -> String {
    let (function, query) = function.split_once('?').unwrap_or((function, ""));
    format!("/2015-03-31/functions/{function}/invocations?{query}")
}

fn tail(head: &str) -> Option<String> {
    let encoded = head.lines().find_map(|line| line.strip_prefix("x-amz-log-result: "))?;
    Some(String::from_utf8(STANDARD.decode(encoded.trim()).unwrap()).unwrap())
}

#[tokio::test]
async fn a_log_tail_contains_its_own_invocation_only() {
    let stack = start().await;
    let asks = (0..24).map(|number| {
        let body = json!({"ID": format!("E{number}"), "State": number}).to_string();
        let endpoint = stack.lambda.endpoint().to_owned();
        async move {
            post(&endpoint, &path("writer-fn"), "X-Amz-Log-Type: Tail\r\n", &body)
                .await
                .0
        }
    });
    for head in join_all(asks).await {
        let request = head
            .lines()
            .find_map(|line| line.strip_prefix("x-amzn-requestid: "))
            .unwrap();
        let log = tail(&head).unwrap();
        let lines: Vec<_> = log.lines().collect();
        assert_eq!(lines[0], format!("START RequestId: {request} Version: $LATEST"));
        assert!(
            lines[lines.len() - 1].starts_with(&format!("REPORT RequestId: {request}\tDuration: ")),
            "{log}"
        );
        let own = &lines[1..lines.len() - 2];
        assert!(
            !own.is_empty() && own.iter().all(|line| line.contains(request)),
            "{log}"
        );
    }
    // The function's log contains it too. Without `X-Amz-Log-Type`, a response has no tail.
    let logged = std::fs::read_to_string(stack.logs.join("writer-fn.log")).unwrap();
    assert!(
        logged.lines().filter(|line| line.contains("Written")).count() >= 24,
        "{logged}"
    );
    assert!(!logged.contains("REPORT RequestId"));
    let (head, _) = post(stack.lambda.endpoint(), &path("writer-fn"), "", r#"{"ID": "E"}"#).await;
    assert_eq!(tail(&head), None);
    // The log tail of a hanging function has its REPORT line.
    let logs = tempfile::tempdir().unwrap();
    let hangs = lambda_of("bash", &["-c", HANGS], logs.path());
    let (head, _) = post(
        hangs.endpoint(),
        &path("writer-fn"),
        "X-Amz-Log-Type: Tail\r\n",
        r#"{"ID": "a"}"#,
    )
    .await;
    let log = tail(&head).unwrap();
    assert!(
        head.contains("x-amz-function-error: unhandled") && log.contains("\tStatus: timeout"),
        "{log}"
    );
}

#[tokio::test]
async fn every_type_of_invocation_and_every_error() {
    let stack = start().await;
    let endpoint = stack.lambda.endpoint();
    let kind = |kind: &str| format!("X-Amz-Invocation-Type: {kind}\r\n");

    let (head, body) = post(endpoint, &path("writer-fn"), "", r#"{"ID": "a"}"#).await;
    assert!(
        head.starts_with("http/1.1 200") && head.contains("x-amz-executed-version: $latest"),
        "{head}"
    );
    assert!(!head.contains("x-amz-function-error"), "{head}");
    assert_eq!(
        serde_json::from_str::<Value>(&body).unwrap(),
        json!({"ID": "a", "Version": 1, "Outcome": "Written"})
    );

    let (head, body) = post(endpoint, &path("writer-fn"), "", r#"{"ID": "a", "SK": "x"}"#).await;
    assert!(
        head.starts_with("http/1.1 200") && head.contains("x-amz-function-error: unhandled"),
        "{head}"
    );
    let error = json!({"errorType": "InvalidEvent", "errorMessage": "the event is invalid: SK is reserved"});
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), error);

    let (head, _) = post(endpoint, &path("writer-fn"), &kind("Event"), r#"{"ID": "b"}"#).await;
    assert!(head.starts_with("http/1.1 202"), "{head}");
    eventually("the later invocation", async || {
        (item(&stack, "b", "v1").await != Value::Null).then_some(())
    })
    .await;
    let (head, _) = post(endpoint, &path("writer-fn"), &kind("DryRun"), r#"{"ID": "c"}"#).await;
    assert!(head.starts_with("http/1.1 204"), "{head}");
    assert_eq!(item(&stack, "c", "v0").await, Value::Null);

    for name in [
        "WriterFunction",
        "writer-fn:$LATEST",
        "arn:aws:lambda:us-east-1:000000000000:function:writer-fn",
    ] {
        let (head, _) = post(endpoint, &path(name), "", r#"{"ID": "d"}"#).await;
        assert!(head.starts_with("http/1.1 200"), "{name}: {head}");
    }
    let none = String::new;
    let large = |megabytes: usize| format!("\"{}\"", "x".repeat(megabytes * 1024 * 1024));
    let other = "arn:aws:lambda:us-east-1:999999999999:function:writer-fn";
    for (name, headers, body, status, error) in [
        ("nothing", none(), "{}", 404, "resourcenotfoundexception"),
        ("writer-fn:prod", kind("DryRun"), "{}", 404, "resourcenotfoundexception"),
        (
            "writer-fn?Qualifier=prod",
            none(),
            "{}",
            404,
            "resourcenotfoundexception",
        ),
        (other, none(), "{}", 404, "resourcenotfoundexception"),
        (
            "writer-fn:$LATEST?Qualifier=prod",
            none(),
            "{}",
            400,
            "invalidparametervalueexception",
        ),
        (
            "writer-fn",
            "X-Amz-Log-Type: Head\r\n".to_owned(),
            "{}",
            400,
            "invalidparametervalueexception",
        ),
        (
            "writer-fn",
            kind("Someday"),
            "{}",
            400,
            "invalidparametervalueexception",
        ),
        ("writer-fn", none(), "{", 400, "invalidrequestcontentexception"),
        ("writer-fn", none(), &large(6), 413, "requesttoolargeexception"),
        ("writer-fn", kind("Event"), &large(1), 413, "requesttoolargeexception"),
    ] {
        let (head, _) = post(endpoint, &path(name), &headers, body).await;
        assert!(
            head.starts_with(&format!("http/1.1 {status}")) && head.contains(error),
            "{name} {headers}: {head}"
        );
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
