use std::{future::pending, time::Duration};

use axum::{Extension, body::Body, response::Response, routing::get};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex},
    net::TcpStream,
    sync::mpsc,
    task::JoinHandle,
};

use super::*;

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
const LIMITS: Limits = Limits {
    headers: Duration::from_secs(10),
    transfer: Duration::from_secs(60),
    connections: 4,
};

/// Serves one connection with these buffers, in bytes.
fn connect(router: Router, buffer: usize) -> (DuplexStream, JoinHandle<()>) {
    let (client, server) = duplex(buffer);
    let activity = Activity::new();
    (client, tokio::spawn(connection(server, router, activity, LIMITS)))
}

fn hello() -> Router {
    Router::new().route("/", get(async || "hello"))
}

/// Reads until the server closes the connection, and returns the text and the time until then.
async fn read_to_end(client: &mut (impl AsyncRead + Unpin)) -> (String, Duration) {
    let (started, mut text) = (Instant::now(), Vec::new());
    // A closed socket with unread data is reset.
    let _ = client.read_to_end(&mut text).await;
    (String::from_utf8(text).unwrap(), started.elapsed())
}

async fn read_hello(client: &mut (impl AsyncRead + Unpin)) {
    let mut response = Vec::new();
    while !response.ends_with(b"hello") {
        assert!(client.read_buf(&mut response).await.unwrap() > 0, "closed too early");
    }
}

fn is_about(time: Duration, expected: Duration) -> bool {
    (expected..expected + Duration::from_millis(10)).contains(&time)
}

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_request_is_closed() {
    let (mut client, _task) = connect(hello(), 4096);
    let (text, time) = read_to_end(&mut client).await;
    assert!(is_about(time, LIMITS.headers), "{time:?} {text}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_with_slow_headers_is_closed() {
    let (mut client, task) = connect(hello(), 4096);
    let started = Instant::now();
    let drip = async {
        // One byte every second is not enough.
        for byte in REQUEST.bytes().chain(std::iter::repeat(b'x')) {
            if client.write_all(&[byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        () = drip => {}
        ended = task => ended.unwrap(),
    }
    let time = started.elapsed();
    assert!(
        time >= LIMITS.headers && time <= LIMITS.headers + Duration::from_secs(2),
        "{time:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_after_its_response() {
    let (mut client, _task) = connect(hello(), 4096);
    for _ in 0..3 {
        tokio::time::sleep(LIMITS.headers / 2).await;
        client.write_all(REQUEST.as_bytes()).await.unwrap();
        read_hello(&mut client).await;
    }
    let (text, time) = read_to_end(&mut client).await;
    assert!(is_about(time, LIMITS.headers), "{time:?} {text}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_its_response_is_disconnected() {
    let large = Router::new().route("/", get(async || "x".repeat(1_000_000)));
    let (mut client, task) = connect(large, 4096);
    let started = Instant::now();
    client.write_all(REQUEST.as_bytes()).await.unwrap();
    let ended = tokio::time::timeout(LIMITS.transfer * 2, task).await;
    let time = started.elapsed();
    assert!(ended.is_ok() && is_about(time, LIMITS.transfer), "{time:?}");
}

#[tokio::test(start_paused = true)]
async fn a_page_may_take_longer_than_the_limits() {
    let slow = get(async |Extension(activity): Extension<Activity>| {
        let _work = activity.work();
        tokio::time::sleep(LIMITS.transfer * 10).await;
        "hello"
    });
    let (mut client, _task) = connect(Router::new().route("/", slow), 4096);
    client.write_all(REQUEST.as_bytes()).await.unwrap();
    let (text, time) = read_to_end(&mut client).await;
    assert!(text.ends_with("hello"), "{text}");
    assert!(is_about(time, LIMITS.transfer * 10 + LIMITS.headers), "{time:?}");
}

#[tokio::test]
async fn a_request_ends_when_its_client_disconnects() {
    let (events, mut seen) = mpsc::unbounded_channel();
    let endless = get(async move || {
        events.send("started").unwrap();
        let _dropped = Dropped(events);
        pending::<Response>().await
    });
    let (mut client, _task) = connect(Router::new().route("/", endless), 4096);
    client.write_all(REQUEST.as_bytes()).await.unwrap();
    assert_eq!(seen.recv().await, Some("started"));
    drop(client);
    assert_eq!(seen.recv().await, Some("dropped"));
}

struct Dropped(mpsc::UnboundedSender<&'static str>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send("dropped");
    }
}

async fn listen(router: Router) -> (std::net::SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (address, tokio::spawn(serve(listener, router, LIMITS)))
}

#[tokio::test]
async fn idle_connections_do_not_lock_out_others() {
    let (address, _task) = listen(hello()).await;
    let mut idle = Vec::new();
    for _ in 0..LIMITS.connections * 5 {
        let mut flooding = TcpStream::connect(address).await.unwrap();
        flooding.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        idle.push(flooding);
    }
    let started = Instant::now();
    let mut client = TcpStream::connect(address).await.unwrap();
    let request = REQUEST.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    assert!(read_to_end(&mut client).await.0.ends_with("hello"));
    assert!(started.elapsed() < LIMITS.headers);
    // The oldest are closed, so that the number of connections is limited.
    for closed in &mut idle[..LIMITS.connections * 4] {
        assert_eq!(read_to_end(closed).await.0, "");
    }
    assert!(started.elapsed() < LIMITS.headers);
}

#[tokio::test]
async fn a_connection_whose_page_is_in_progress_is_kept() {
    let (start, mut started) = mpsc::unbounded_channel();
    let (end, ended) = watch::channel(false);
    let page = get(async move |Extension(activity): Extension<Activity>| {
        let _work = activity.work();
        start.send(()).unwrap();
        ended.clone().wait_for(|ended| *ended).await.unwrap();
        Response::new(Body::from("hello"))
    });
    let (address, _task) = listen(Router::new().route("/", page)).await;
    let mut working = Vec::new();
    for _ in 0..LIMITS.connections {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(REQUEST.as_bytes()).await.unwrap();
        started.recv().await.unwrap();
        working.push(client);
    }
    // It waits until another connection ends.
    let mut next = TcpStream::connect(address).await.unwrap();
    next.write_all(REQUEST.as_bytes()).await.unwrap();
    assert!(started.try_recv().is_err());
    end.send_replace(true);
    for client in &mut working {
        read_hello(client).await;
    }
    drop(working);
    read_hello(&mut next).await;
}

#[tokio::test]
async fn a_connection_that_served_a_page_is_kept() {
    let page = get(async |Extension(activity): Extension<Activity>| {
        let _work = activity.work();
        "hello"
    });
    let (address, _task) = listen(Router::new().route("/", page)).await;
    let mut served = Vec::new();
    for _ in 0..LIMITS.connections {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(REQUEST.as_bytes()).await.unwrap();
        read_hello(&mut client).await;
        served.push(client);
    }
    let _idle = TcpStream::connect(address).await.unwrap();
    for _ in 0..10 {
        for client in &mut served {
            client.write_all(REQUEST.as_bytes()).await.unwrap();
            read_hello(client).await;
        }
    }
}

#[tokio::test]
async fn connections_are_closed_with_the_server() {
    let (address, task) = listen(hello()).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(REQUEST.as_bytes()).await.unwrap();
    read_hello(&mut client).await;
    let started = Instant::now();
    task.abort();
    read_to_end(&mut client).await;
    assert!(started.elapsed() < LIMITS.headers);
}
