//! Connections of clients, and their limits: at most 256, and 10 s until a client has sent the headers of its next request. A further
//! connection waits. All are closed when [`serve`] is dropped.
//!
//! At most 16 pages are in progress. Without this limit, requests to DynamoDB wait for each other until they time out, and their
//! retries add to the load. So a request of a page waits for a permit, and fails with status 503 if it gets none in time. A client
//! that disconnects frees its permit.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header},
    middleware::Next,
    response::Response,
    serve::Listener,
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{net::TcpListener, sync::Semaphore, task::JoinSet, time::timeout};

use super::page;

/// Maximum number of open connections.
const MAX_CONNECTIONS: usize = 256;
/// Maximum number of pages in progress. A page sends up to four requests to DynamoDB at the same time.
pub(super) const MAX_PAGES: usize = 16;
/// Maximum time for which a request waits for a permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum time until a client has sent the headers of its next request.
const HEADERS_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of the buffer for the headers of a request, in bytes. An address has at most 64 KiB.
const MAX_BUFFER: usize = 128 * 1024;

/// Serves connections until it is dropped.
pub(super) async fn serve(mut listener: TcpListener, router: Router) {
    let mut tasks = JoinSet::new();
    loop {
        while tasks.try_join_next().is_some() {}
        if tasks.len() >= MAX_CONNECTIONS {
            tasks.join_next().await;
        }
        let (stream, _) = Listener::accept(&mut listener).await;
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS_TIMEOUT)
            .max_buf_size(MAX_BUFFER)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router.clone()));
        tasks.spawn(connection);
    }
}

/// Processes a request when it has a permit.
pub(super) async fn limit_pages(State(permits): State<Arc<Semaphore>>, request: Request, next: Next) -> Response {
    if let Ok(Ok(_permit)) = timeout(PERMIT_TIMEOUT, permits.acquire_owned()).await {
        return next.run(request).await;
    }
    let why = "The console has too many requests in progress. Try again in a few seconds.";
    let is_json = page::accepts_only_json(request.headers());
    let mut response = page::rejection(StatusCode::SERVICE_UNAVAILABLE, why, is_json);
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
    response
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use axum::{body::Body, middleware, routing::get};
    use hyper::service::Service as _;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpStream,
        sync::mpsc,
        time::Instant,
    };

    use super::*;

    #[tokio::test]
    async fn a_connection_without_a_request_is_closed_and_frees_its_place() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let hello = Router::new().route("/", get(async || "hello"));
        let _server = tokio::spawn(serve(listener, hello));
        let mut idle = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        let (mut client, mut response) = (TcpStream::connect(address).await.unwrap(), String::new());
        let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        client.write_all(request).await.unwrap();
        let answered = timeout(HEADERS_TIMEOUT * 2, client.read_to_string(&mut response)).await;
        answered.unwrap().unwrap();
        assert!(response.ends_with("hello"), "{response}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_without_a_permit_in_time_is_rejected() {
        struct Dropped(mpsc::UnboundedSender<&'static str>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                let _ = self.0.send("dropped");
            }
        }
        let (events, mut seen) = mpsc::unbounded_channel();
        let endless = get(async move || {
            events.send("started").unwrap();
            let _dropped = Dropped(events);
            pending::<Response>().await
        });
        let permits = Arc::new(Semaphore::new(2));
        let limit = middleware::from_fn_with_state(Arc::clone(&permits), limit_pages);
        let router = TowerToHyperService::new(Router::new().route("/", endless).route_layer(limit));
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
}
