//! Retries of an asynchronous invocation. The test is the function: it requests invocations from the Runtime API.

use std::{path::Path, time::Duration};

use local::lambda::{Host, Lambda};
use testkit::http::Message;
use tokio::{sync::mpsc, time::Instant};

use crate::{
    http::Connection,
    support::{eventually, function, host},
};

/// Writes the address of its Runtime API, and leaves the requests to the test.
const NAMES_ITSELF: &str =
    r#"echo "$AWS_LAMBDA_RUNTIME_API" >"$ADDRESS.new" && mv "$ADDRESS.new" "$ADDRESS" && exec sleep 600"#;

/// Serves one process of a function.
fn serve(folder: &Path) -> Lambda {
    let mut function = function("f", Duration::from_secs(600));
    let address = folder.join("address").display().to_string();
    function.environment.insert("ADDRESS".to_owned(), address);
    let host = Host {
        environment: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
        concurrency: 1,
        ..host("sh", &["-c", NAMES_ITSELF], String::new(), folder)
    };
    Lambda::serve(std::net::TcpListener::bind("127.0.0.1:0").unwrap(), &[function], &host).unwrap()
}

const INVOKE: &str = "POST /2015-03-31/functions/f/invocations";
const RUNTIME: &str = "/2018-06-01/runtime/invocation";

async fn invoke(client: &mut Connection, kind: &str, payload: &[u8]) -> Message {
    let headers = format!("X-Amz-Invocation-Type: {kind}\r\n");
    client.request(INVOKE, &headers, payload).await
}

/// Requests the next invocation, and returns its id.
async fn next(function: &mut Connection) -> String {
    let response = function.request(&format!("GET {RUNTIME}/next"), "", b"").await;
    assert_eq!(response.status(), 200);
    response.header("lambda-runtime-aws-request-id").unwrap().to_owned()
}

/// Ends an invocation with a `response` or an `error`.
async fn end(function: &mut Connection, id: &str, end: &str) {
    let line = format!("POST {RUNTIME}/{id}/{end}");
    assert_eq!(function.request(&line, "", b"null").await.status(), 202);
}

fn id_of(response: &Message) -> String {
    response.header("x-amzn-requestid").unwrap().to_owned()
}

async fn runtime_api(folder: &Path) -> Connection {
    let address = eventually("the address of the Runtime API", async || {
        std::fs::read_to_string(folder.join("address")).ok()
    });
    Connection::open(address.await.trim()).await
}

/// Returns the request ids of the invocations that ended, and `true` for those that failed.
fn observe(lambda: &Lambda) -> mpsc::UnboundedReceiver<(String, bool)> {
    let (send, observed) = mpsc::unbounded_channel();
    lambda.observe(move |_, _, output| send.send((output.request_id.clone(), output.is_error)).unwrap());
    observed
}

#[tokio::test]
async fn a_failed_event_is_retried_twice_and_observed_once() {
    let folder = tempfile::tempdir().unwrap();
    let lambda = serve(folder.path());
    let mut observed = observe(&lambda);
    let mut client = Connection::open(lambda.endpoint()).await;
    let id = id_of(&invoke(&mut client, "Event", b"{}").await);
    let mut function = runtime_api(folder.path()).await;
    let mut elapsed = Vec::new();
    for attempt in 0..3 {
        assert_eq!(next(&mut function).await, id);
        elapsed.push(Instant::now());
        end(&mut function, &id, "error").await;
        if attempt == 0 {
            // The clock advances to the next attempt when nothing else is to do.
            tokio::time::pause();
        }
    }
    assert_eq!(observed.recv().await, Some((id, true)));
    assert!(observed.try_recv().is_err());
    let delays: Vec<_> = elapsed
        .windows(2)
        .map(|times| (times[1] - times[0]).as_secs())
        .collect();
    assert_eq!(delays, [60, 120]);
}
