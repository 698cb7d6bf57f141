//! Limits of the invocations that wait for a function. The test is the function: it requests invocations from the Runtime API.

use std::{path::Path, time::Duration};

use local::lambda::{Host, Lambda};
use serde_json::json;
use testkit::http::Message;
use tokio::{sync::mpsc, time::Instant};

use crate::{
    http::Connection,
    support::{eventually, function, host},
};

const MB: usize = 1024 * 1024;
/// Maximum number of bytes of the payloads that wait for a function.
const MAX_PAYLOADS: usize = 64 * MB;
const MAX_INVOCATIONS: usize = 1000;

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

/// A payload of this many bytes.
fn payload(bytes: usize) -> Vec<u8> {
    format!("\"{}\"", "x".repeat(bytes - 2)).into_bytes()
}

async fn runtime_api(folder: &Path) -> Connection {
    let address = eventually("the address of the Runtime API", async || {
        std::fs::read_to_string(folder.join("address")).ok()
    });
    Connection::open(address.await.trim()).await
}

fn assert_too_many(response: &Message) {
    assert_eq!(response.status(), 429, "{response:?}");
    assert_eq!(response.header("x-amzn-errortype"), Some("TooManyRequestsException"));
    let body = json!({"Reason": "ConcurrentInvocationLimitExceeded", "Type": "User", "message": "Rate Exceeded."});
    assert_eq!(response.json(), body);
}

/// Sends events until one is rejected. Then the function processes all accepted ones, and accepts more.
async fn fill_and_empty(payload: &[u8], count: usize) {
    let folder = tempfile::tempdir().unwrap();
    let lambda = serve(folder.path());
    let mut client = Connection::open(lambda.endpoint()).await;
    let mut accepted = Vec::new();
    let rejected = loop {
        let response = invoke(&mut client, "Event", payload).await;
        if response.status() != 202 {
            break response;
        }
        accepted.push(id_of(&response));
        assert!(accepted.len() <= count, "the events have no limit");
    };
    assert_too_many(&rejected);
    assert_eq!(accepted.len(), count);
    let mut function = runtime_api(folder.path()).await;
    let mut processed = Vec::new();
    for _ in 0..count {
        let id = next(&mut function).await;
        end(&mut function, &id, "response").await;
        processed.push(id);
    }
    processed.sort();
    accepted.sort();
    assert_eq!(processed, accepted);
    let response = eventually("a place for an event", async || {
        let response = invoke(&mut Connection::open(lambda.endpoint()).await, "Event", payload).await;
        (response.status() == 202).then_some(response)
    });
    let id = id_of(&response.await);
    assert_eq!(next(&mut function).await, id);
}

#[tokio::test]
async fn the_number_and_the_size_of_waiting_events_are_limited_and_none_is_lost() {
    fill_and_empty(b"{}", MAX_INVOCATIONS).await;
    fill_and_empty(&payload(MB), MAX_PAYLOADS / MB).await;
}

/// Returns the request ids of the invocations that ended, and `true` for those that failed.
fn observe(lambda: &Lambda) -> mpsc::UnboundedReceiver<(String, bool)> {
    let (send, observed) = mpsc::unbounded_channel();
    lambda.observe(move |_, _, output| send.send((output.request_id.clone(), output.is_error)).unwrap());
    observed
}

/// The retries wait for a minute: the test ends before it.
#[tokio::test]
async fn failed_events_do_not_block_others_and_the_number_of_retried_ones_is_limited() {
    let folder = tempfile::tempdir().unwrap();
    let lambda = serve(folder.path());
    let mut observed = observe(&lambda);
    let mut client = Connection::open(lambda.endpoint()).await;
    let mut function: Option<Connection> = None;
    // As many as can be retried, and two more.
    for number in 0..MAX_INVOCATIONS + 2 {
        let accepted = invoke(&mut client, "Event", b"{}").await;
        assert_eq!(accepted.status(), 202, "event {number}: {accepted:?}");
        let id = id_of(&accepted);
        if function.is_none() {
            function = Some(runtime_api(folder.path()).await);
        }
        let function = function.as_mut().unwrap();
        assert_eq!(next(function).await, id);
        end(function, &id, "error").await;
        if number >= MAX_INVOCATIONS {
            assert_eq!(
                observed.recv().await,
                Some((id, true)),
                "without a retry, it is the last attempt"
            );
        }
    }
    assert!(observed.try_recv().is_err(), "the others are retried");
    let id = id_of(&invoke(&mut client, "Event", b"{}").await);
    let mut function = function.unwrap();
    assert_eq!(next(&mut function).await, id);
    end(&mut function, &id, "response").await;
    assert_eq!(observed.recv().await, Some((id, false)));
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

#[tokio::test]
async fn the_size_of_waiting_requests_is_limited_also_without_their_clients() {
    let folder = tempfile::tempdir().unwrap();
    let lambda = serve(folder.path());
    let mut probe = Connection::open(lambda.endpoint()).await;
    let body = payload(6 * MB);
    let mut waiting = Vec::new();
    for _ in 0..MAX_PAYLOADS / body.len() {
        let mut client = Connection::open(lambda.endpoint()).await;
        client
            .send(&format!("{INVOKE} HTTP/1.1"), "Host: localhost\r\n", &body)
            .await;
        waiting.push(client);
    }
    // A dry run needs a place as well.
    eventually("all requests", async || {
        let mut client = Connection::open(lambda.endpoint()).await;
        (invoke(&mut client, "DryRun", &body).await.status() == 429).then_some(())
    })
    .await;
    assert_too_many(&invoke(&mut probe, "RequestResponse", &body).await);
    // The function still gets the invocations of clients that disconnect, so they still count.
    waiting.clear();
    for _ in 0..20 {
        assert_eq!(invoke(&mut probe, "DryRun", &body).await.status(), 429);
    }
    // Small requests and events are accepted.
    assert_eq!(invoke(&mut probe, "DryRun", b"{}").await.status(), 204);
    assert_eq!(invoke(&mut probe, "Event", b"{}").await.status(), 202);
}
