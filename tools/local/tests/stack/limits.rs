//! Limits of the invocations that wait for a function. The test is the function: it requests invocations from the Runtime API.

use std::{path::Path, sync::Arc, time::Duration};

use local::lambda::{Host, InvocationObserver, InvokeOutput, Lambda};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    sync::mpsc,
    time::Instant,
};

use crate::support::{eventually, function, host};

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

/// A connection to one of the APIs.
pub(crate) struct Connection(BufReader<TcpStream>);

impl Connection {
    pub(crate) async fn open(address: &str) -> Self {
        Self(BufReader::new(TcpStream::connect(address).await.unwrap()))
    }

    async fn send(&mut self, line: &str, headers: &str, body: &[u8]) {
        let length = body.len();
        let head = format!("{line} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{headers}\r\n");
        self.0.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
    }

    /// Returns the status, the head in lower case, and the body.
    async fn receive(&mut self) -> (u16, String, String) {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(self.0.read_line(&mut head).await.unwrap() > 0, "{head}");
        }
        let head = head.to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        self.0.read_exact(&mut body).await.unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head, String::from_utf8(body).unwrap())
    }

    pub(crate) async fn ask(&mut self, line: &str, headers: &str, body: &[u8]) -> (u16, String, String) {
        self.send(line, headers, body).await;
        self.receive().await
    }

    async fn invoke(&mut self, kind: &str, payload: &[u8]) -> (u16, String, String) {
        self.ask(INVOKE, &format!("X-Amz-Invocation-Type: {kind}\r\n"), payload)
            .await
    }

    /// Requests the next invocation, and returns its id.
    async fn next(&mut self) -> String {
        let (status, head, _) = self.ask("GET /2018-06-01/runtime/invocation/next", "", b"").await;
        assert_eq!(status, 200);
        header(&head, "lambda-runtime-aws-request-id")
    }

    async fn fail(&mut self, id: &str) {
        let line = format!("POST /2018-06-01/runtime/invocation/{id}/error");
        assert_eq!(self.ask(&line, "", b"{}").await.0, 202);
    }

    async fn respond(&mut self, id: &str) {
        let line = format!("POST /2018-06-01/runtime/invocation/{id}/response");
        assert_eq!(self.ask(&line, "", b"null").await.0, 202);
    }
}

const INVOKE: &str = "POST /2015-03-31/functions/f/invocations";

fn header(head: &str, name: &str) -> String {
    let value = head
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    value.unwrap().to_owned()
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

fn assert_too_many(response: &(u16, String, String)) {
    let (status, head, body) = response;
    assert_eq!(*status, 429, "{head}");
    assert_eq!(header(head, "x-amzn-errortype"), "toomanyrequestsexception");
    assert_eq!(
        serde_json::from_str::<Value>(body).unwrap(),
        json!({"Reason": "ConcurrentInvocationLimitExceeded", "Type": "User", "message": "Rate Exceeded."})
    );
}

/// Sends events until one is rejected. Then the function processes all accepted ones, and accepts more.
async fn fill_and_empty(payload: &[u8], count: usize) {
    let folder = tempfile::tempdir().unwrap();
    let lambda = serve(folder.path());
    let mut client = Connection::open(lambda.endpoint().strip_prefix("http://").unwrap()).await;
    let mut accepted = Vec::new();
    let rejected = loop {
        let response = client.invoke("Event", payload).await;
        if response.0 != 202 {
            break response;
        }
        accepted.push(header(&response.1, "x-amzn-requestid"));
        assert!(accepted.len() <= count, "the events have no limit");
    };
    assert_too_many(&rejected);
    assert_eq!(accepted.len(), count);
    let mut function = runtime_api(folder.path()).await;
    let mut processed = Vec::new();
    for _ in 0..count {
        let id = function.next().await;
        function.respond(&id).await;
        processed.push(id);
    }
    processed.sort();
    accepted.sort();
    assert_eq!(processed, accepted);
    let response = eventually("a place for an event", async || {
        let response = Connection::open(lambda.endpoint().strip_prefix("http://").unwrap())
            .await
            .invoke("Event", payload)
            .await;
        (response.0 == 202).then_some(response)
    });
    let id = header(&response.await.1, "x-amzn-requestid");
    assert_eq!(function.next().await, id);
}

#[tokio::test]
async fn the_number_of_waiting_events_is_limited_and_none_is_lost() {
    fill_and_empty(b"{}", MAX_INVOCATIONS).await;
}

#[tokio::test]
async fn the_size_of_waiting_events_is_limited_and_none_is_lost() {
    fill_and_empty(&payload(MB), MAX_PAYLOADS / MB).await;
}

/// Sends what is observed of an invocation: its request id, and `true` if it failed.
#[derive(Debug)]
struct Observed(mpsc::UnboundedSender<(String, bool)>);

impl InvocationObserver for Observed {
    fn invoked(&self, _: &str, _: &[u8], output: &InvokeOutput) {
        self.0.send((output.request_id.clone(), output.is_error)).unwrap();
    }
}

fn observe(lambda: &Lambda) -> mpsc::UnboundedReceiver<(String, bool)> {
    let (send, observed) = mpsc::unbounded_channel();
    lambda.observe(Arc::new(Observed(send)));
    observed
}

/// The retries wait for a minute: the test ends before it.
#[tokio::test]
async fn failed_events_do_not_block_others_and_the_number_of_retried_ones_is_limited() {
    let folder = tempfile::tempdir().unwrap();
    let lambda = serve(folder.path());
    let mut observed = observe(&lambda);
    let mut client = Connection::open(lambda.endpoint().strip_prefix("http://").unwrap()).await;
    let mut function: Option<Connection> = None;
    // As many as can be retried, and two more.
    for number in 0..MAX_INVOCATIONS + 2 {
        let (status, head, _) = client.invoke("Event", b"{}").await;
        assert_eq!(status, 202, "event {number}: {head}");
        let id = header(&head, "x-amzn-requestid");
        if function.is_none() {
            function = Some(runtime_api(folder.path()).await);
        }
        let function = function.as_mut().unwrap();
        assert_eq!(function.next().await, id);
        function.fail(&id).await;
        if number >= MAX_INVOCATIONS {
            assert_eq!(
                observed.recv().await,
                Some((id, true)),
                "without a retry, it is the last attempt"
            );
        }
    }
    assert!(observed.try_recv().is_err(), "the others are retried");
    let (_, head, _) = client.invoke("Event", b"{}").await;
    let (id, mut function) = (header(&head, "x-amzn-requestid"), function.unwrap());
    assert_eq!(function.next().await, id);
    function.respond(&id).await;
    assert_eq!(observed.recv().await, Some((id, false)));
}

#[tokio::test]
async fn a_failed_event_is_retried_twice_and_observed_once() {
    let folder = tempfile::tempdir().unwrap();
    let lambda = serve(folder.path());
    let mut observed = observe(&lambda);
    let mut client = Connection::open(lambda.endpoint().strip_prefix("http://").unwrap()).await;
    let (_, head, _) = client.invoke("Event", b"{}").await;
    let id = header(&head, "x-amzn-requestid");
    let mut function = runtime_api(folder.path()).await;
    let mut elapsed = Vec::new();
    for attempt in 0..3 {
        assert_eq!(function.next().await, id);
        elapsed.push(Instant::now());
        function.fail(&id).await;
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
    let address = lambda.endpoint().strip_prefix("http://").unwrap();
    let mut probe = Connection::open(address).await;
    let body = payload(6 * MB);
    let mut waiting = Vec::new();
    for _ in 0..MAX_PAYLOADS / body.len() {
        let mut client = Connection::open(address).await;
        client.send(INVOKE, "", &body).await;
        waiting.push(client);
    }
    // A dry run needs a place as well.
    eventually("all requests", async || {
        let response = Connection::open(address).await.invoke("DryRun", &body).await;
        (response.0 == 429).then_some(())
    })
    .await;
    assert_too_many(&probe.invoke("RequestResponse", &body).await);
    // The function still gets the invocations of clients that disconnect, so they still count.
    waiting.clear();
    for _ in 0..20 {
        assert_eq!(probe.invoke("DryRun", &body).await.0, 429);
    }
    // Small requests and events are accepted.
    assert_eq!(probe.invoke("DryRun", b"{}").await.0, 204);
    assert_eq!(probe.invoke("Event", b"{}").await.0, 202);
}
