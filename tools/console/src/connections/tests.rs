use std::future::pending;

use axum::{Extension, body::Body, middleware, routing::get};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex},
    net::TcpStream,
    sync::mpsc,
    task::JoinHandle,
    time::sleep,
};

use super::*;

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
const MAX: usize = 4;

/// Serves one connection of a client with a small buffer.
fn connect(router: Router) -> (DuplexStream, JoinHandle<()>) {
    let (client, server) = duplex(4096);
    (client, tokio::spawn(connection(server, router, Activity::new())))
}

fn page(respond: axum::routing::MethodRouter) -> Router {
    Router::new().route("/", respond)
}

/// A page that reports its start and its end, and never responds.
fn endless(events: &mpsc::UnboundedSender<&'static str>) -> axum::routing::MethodRouter {
    struct Dropped(mpsc::UnboundedSender<&'static str>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            let _ = self.0.send("dropped");
        }
    }
    let events = events.clone();
    get(async move || {
        events.send("started").unwrap();
        let _dropped = Dropped(events);
        pending::<Response>().await
    })
}

async fn send(client: &mut (impl AsyncWrite + Unpin)) {
    client.write_all(REQUEST.as_bytes()).await.unwrap();
}

async fn read_hello(client: &mut (impl AsyncRead + Unpin)) {
    let mut response = Vec::new();
    while !response.ends_with(b"hello") {
        assert!(client.read_buf(&mut response).await.unwrap() > 0, "closed too early");
    }
}

/// Reads until the server closes the connection. A closed socket with unread data is reset.
async fn read_to_end(client: &mut (impl AsyncRead + Unpin)) -> String {
    let mut text = Vec::new();
    let _ = client.read_to_end(&mut text).await;
    String::from_utf8(text).unwrap()
}

#[tokio::test(start_paused = true)]
async fn slow_and_idle_clients_are_disconnected() {
    let hello = || page(get(async || "hello"));
    let large = page(get(async || "x".repeat(1_000_000)));
    let slow = page(get(async |Extension(activity): Extension<Activity>| {
        let _work = activity.work();
        sleep(TRANSFER_TIMEOUT * 10).await;
        "hello"
    }));
    // One byte every second is not enough.
    let bytes = REQUEST.char_indices().map(|(at, _)| (1, &REQUEST[at..=at])).collect();
    for (what, router, sent, expected, responses) in [
        ("no request", hello(), vec![], HEADERS_TIMEOUT, 0),
        ("slow headers", hello(), bytes, HEADERS_TIMEOUT, 0),
        (
            "idle after a response",
            hello(),
            vec![(5, REQUEST), (5, REQUEST)],
            HEADERS_TIMEOUT * 2,
            2,
        ),
        ("response is not read", large, vec![(0, REQUEST)], TRANSFER_TIMEOUT, 0),
        (
            "slow page",
            slow,
            vec![(0, REQUEST)],
            TRANSFER_TIMEOUT * 10 + HEADERS_TIMEOUT,
            1,
        ),
    ] {
        let ((mut client, task), started) = (connect(router), Instant::now());
        for (seconds, text) in sent {
            sleep(Duration::from_secs(seconds)).await;
            let _ = client.write_all(text.as_bytes()).await;
            if task.is_finished() {
                break;
            }
        }
        task.await.unwrap();
        let time = started.elapsed();
        assert!(
            (expected..expected + Duration::from_secs(2)).contains(&time),
            "{what}: {time:?}"
        );
        assert_eq!(
            read_to_end(&mut client).await.matches("hello").count(),
            responses,
            "{what}"
        );
    }
}

#[tokio::test]
async fn a_request_ends_when_its_client_disconnects() {
    let (events, mut seen) = mpsc::unbounded_channel();
    let (mut client, _task) = connect(page(endless(&events)));
    send(&mut client).await;
    assert_eq!(seen.recv().await, Some("started"));
    drop(client);
    assert_eq!(seen.recv().await, Some("dropped"));
}

async fn listen(router: Router) -> (std::net::SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (address, tokio::spawn(serve(listener, router, MAX)))
}

#[tokio::test]
async fn idle_connections_do_not_lock_out_others() {
    let (address, server) = listen(page(get(async || "hello"))).await;
    let (mut idle, started) = (Vec::new(), Instant::now());
    for _ in 0..MAX * 5 {
        let mut flooding = TcpStream::connect(address).await.unwrap();
        flooding.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        idle.push(flooding);
    }
    let mut client = TcpStream::connect(address).await.unwrap();
    send(&mut client).await;
    read_hello(&mut client).await;
    // The oldest are closed, so that the number of connections is limited.
    for closed in &mut idle[..MAX * 4] {
        assert_eq!(read_to_end(closed).await, "");
    }
    // With the server, all others are.
    server.abort();
    read_to_end(&mut client).await;
    assert!(started.elapsed() < HEADERS_TIMEOUT);
}

#[tokio::test]
async fn a_connection_that_serves_or_served_a_page_is_kept() {
    let (start, mut started) = mpsc::unbounded_channel();
    let (gate, is_open) = watch::channel(true);
    let router = page(get(async move |Extension(activity): Extension<Activity>| {
        let _work = activity.work();
        start.send(()).unwrap();
        is_open.clone().wait_for(|is_open| *is_open).await.unwrap();
        "hello"
    }));
    let (address, _server) = listen(router).await;
    let mut clients = Vec::new();
    for _ in 0..MAX {
        let mut client = TcpStream::connect(address).await.unwrap();
        send(&mut client).await;
        read_hello(&mut client).await;
        clients.push(client);
    }
    // It waits until another connection ends.
    let mut next = TcpStream::connect(address).await.unwrap();
    send(&mut next).await;
    for _ in 0..10 {
        for client in &mut clients {
            send(client).await;
            read_hello(client).await;
        }
    }
    gate.send_replace(false);
    for client in &mut clients {
        send(client).await;
    }
    for _ in 0..MAX * 12 {
        started.recv().await.unwrap();
    }
    assert!(started.try_recv().is_err());
    gate.send_replace(true);
    for client in &mut clients {
        read_hello(client).await;
    }
    drop(clients);
    read_hello(&mut next).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_permit_in_time_is_rejected() {
    let (events, mut seen) = mpsc::unbounded_channel();
    let permits = Arc::new(Semaphore::new(2));
    let limit = middleware::from_fn_with_state(Arc::clone(&permits), limit_pages);
    let router = TowerToHyperService::new(Router::new().route("/", endless(&events)).route_layer(limit));
    let request = |accept: &str| {
        Request::get("/")
            .header(header::ACCEPT, accept)
            .body(Body::empty())
            .unwrap()
    };
    let mut running: Vec<_> = (0..2).map(|_| tokio::spawn(router.call(request("*/*")))).collect();
    for _ in &running {
        seen.recv().await.unwrap();
    }
    let before = Instant::now();
    let response = router.call(request("application/json")).await.unwrap();
    assert_eq!(before.elapsed().as_secs(), PERMIT_TIMEOUT.as_secs());
    assert_eq!(
        (response.status().as_u16(), &response.headers()[header::RETRY_AFTER]),
        (503, &"5".parse().unwrap())
    );
    let body = axum::body::to_bytes(response.into_body(), 1000).await.unwrap();
    assert!(
        body.starts_with(b"{\"Error\":\"The console has too many requests"),
        "{body:?}"
    );
    // A request that ends early, because its client disconnects, frees its permit.
    running.pop().unwrap().abort();
    let _next = tokio::spawn(router.call(request("*/*")));
    assert_eq!(
        (seen.recv().await, seen.recv().await),
        (Some("dropped"), Some("started"))
    );
    assert_eq!(permits.available_permits(), 0);
}
