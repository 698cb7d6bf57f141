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
const LIMITS: Limits = Limits {
    headers: Duration::from_secs(10),
    transfer: Duration::from_secs(60),
    connections: 4,
};

/// Serves one connection of a client with a small buffer.
fn connect(router: Router) -> (DuplexStream, JoinHandle<()>) {
    let (client, server) = duplex(4096);
    (
        client,
        tokio::spawn(connection(server, router, Activity::new(), LIMITS)),
    )
}

fn page(respond: axum::routing::MethodRouter) -> Router {
    Router::new().route("/", respond)
}

/// A page that works, as the pages of the console do.
fn working() -> Router {
    page(get(async |Extension(activity): Extension<Activity>| {
        let _work = activity.work();
        "hello"
    }))
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
    let large = page(get(async || "x".repeat(1_000_000)));
    let slow = page(get(async |Extension(activity): Extension<Activity>| {
        let _work = activity.work();
        sleep(LIMITS.transfer * 10).await;
        "hello"
    }));
    let hello = || page(get(async || "hello"));
    for (what, router, expected) in [
        ("no request", hello(), LIMITS.headers),
        ("slow headers", hello(), LIMITS.headers),
        ("idle after a response", hello(), LIMITS.headers * 2),
        ("response is not read", large, LIMITS.transfer),
        ("slow page", slow, LIMITS.transfer * 10 + LIMITS.headers),
    ] {
        let ((mut client, mut task), started) = (connect(router), Instant::now());
        match what {
            "no request" => {}
            "slow headers" => {
                // One byte every second is not enough.
                let drip = async {
                    for byte in REQUEST.bytes().chain(std::iter::repeat(b'x')) {
                        if client.write_all(&[byte]).await.is_err() {
                            pending::<()>().await;
                        }
                        sleep(Duration::from_secs(1)).await;
                    }
                };
                tokio::select! { () = drip => {}, ended = &mut task => ended.unwrap() }
            }
            "idle after a response" => {
                for _ in 0..2 {
                    sleep(LIMITS.headers / 2).await;
                    send(&mut client).await;
                    read_hello(&mut client).await;
                }
            }
            "response is not read" => {
                send(&mut client).await;
                (&mut task).await.unwrap();
            }
            _ => {
                send(&mut client).await;
                assert!(read_to_end(&mut client).await.ends_with("hello"));
            }
        }
        read_to_end(&mut client).await;
        let time = started.elapsed();
        assert!(
            (expected..expected + Duration::from_secs(2)).contains(&time),
            "{what}: {time:?}"
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
    (address, tokio::spawn(serve(listener, router, LIMITS)))
}

#[tokio::test]
async fn idle_connections_do_not_lock_out_others() {
    let (address, server) = listen(page(get(async || "hello"))).await;
    let (mut idle, started) = (Vec::new(), Instant::now());
    for _ in 0..LIMITS.connections * 5 {
        let mut flooding = TcpStream::connect(address).await.unwrap();
        flooding.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
        idle.push(flooding);
    }
    let mut client = TcpStream::connect(address).await.unwrap();
    send(&mut client).await;
    read_hello(&mut client).await;
    // The oldest are closed, so that the number of connections is limited.
    for closed in &mut idle[..LIMITS.connections * 4] {
        assert_eq!(read_to_end(closed).await, "");
    }
    // With the server, all others are.
    server.abort();
    read_to_end(&mut client).await;
    assert!(started.elapsed() < LIMITS.headers);
}

#[tokio::test]
async fn a_connection_whose_page_is_in_progress_is_kept() {
    let (start, mut started) = mpsc::unbounded_channel();
    let (end, ended) = watch::channel(false);
    let held = page(get(async move |Extension(activity): Extension<Activity>| {
        let _work = activity.work();
        start.send(()).unwrap();
        ended.clone().wait_for(|ended| *ended).await.unwrap();
        "hello"
    }));
    let (address, _server) = listen(held).await;
    let mut working = Vec::new();
    for _ in 0..LIMITS.connections {
        let mut client = TcpStream::connect(address).await.unwrap();
        send(&mut client).await;
        started.recv().await.unwrap();
        working.push(client);
    }
    // It waits until another connection ends.
    let mut next = TcpStream::connect(address).await.unwrap();
    send(&mut next).await;
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
    let (address, _server) = listen(working()).await;
    let mut served = Vec::new();
    for _ in 0..LIMITS.connections {
        let mut client = TcpStream::connect(address).await.unwrap();
        send(&mut client).await;
        read_hello(&mut client).await;
        served.push(client);
    }
    let _idle = TcpStream::connect(address).await.unwrap();
    for _ in 0..10 {
        for client in &mut served {
            send(client).await;
            read_hello(client).await;
        }
    }
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
