//! Log tails of the Invoke API, and functions that crash. `tests/clients/invoke.py` has each type of invocation and each error.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::future::join_all;
use local::lambda::Lambda;
use serde_json::{Value, json};
use testkit::http::Message;

use crate::{
    http::Connection,
    support::{function, host, silent_endpoint, start},
};

const TAIL: &str = "X-Amz-Log-Type: Tail\r\n";

/// Invokes writer-fn.
async fn invoke(endpoint: &str, headers: &str, update: &Value) -> Message {
    let mut connection = Connection::open(endpoint).await;
    let line = "POST /2015-03-31/functions/writer-fn/invocations";
    connection.request(line, headers, update.to_string().as_bytes()).await
}

fn tail(response: &Message) -> Option<String> {
    let encoded = response.header("x-amz-log-result")?;
    Some(String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap())
}

#[tokio::test]
async fn a_log_tail_contains_its_own_invocation_only() {
    let stack = start().await;
    let asks = (0..24).map(async |number| {
        let update = json!({"ID": format!("E{number}"), "State": number});
        invoke(stack.lambda.endpoint(), TAIL, &update).await
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
    let response = invoke(stack.lambda.endpoint(), "", &json!({"ID": "E"})).await;
    assert_eq!(tail(&response), None);
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
