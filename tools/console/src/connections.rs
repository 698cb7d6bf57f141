//! Connections of clients, and their limits: slow and idle clients are disconnected.
//!
//! | limit | of |
//! |---|---|
//! | 10 s | the time until a client has sent the headers of its next request |
//! | 60 s | the time in which a client receives a response. [`crate::guard`] limits the time in which it sends a form |
//! | 256 | open connections |
//!
//! If there are 256 connections, a new one closes the one that waits for its client the longest. So a flood of idle connections
//! does not lock out the operator. A connection that served a page, which requires that its client is signed in, is not closed; if
//! all did, a new one waits until one of them ends.
//!
//! All connections are closed when [`serve`] is dropped.
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
use hyper::{
    body::Incoming,
    server::conn::http1,
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::{Semaphore, watch},
    task::{AbortHandle, JoinSet},
    time::{Instant, timeout},
};

use super::page;

/// Maximum number of open connections.
pub(super) const MAX_CONNECTIONS: usize = 256;
/// Maximum number of pages in progress. A page sends up to four requests to DynamoDB at the same time.
pub(super) const MAX_PAGES: usize = 16;
/// Maximum time for which a request waits for a permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum time until a client has sent the headers of its next request.
const HEADERS_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time in which a client receives a response.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of the buffer for the headers of a request, in bytes. An address has at most 64 KiB.
const MAX_BUFFER: usize = 128 * 1024;

/// State of a connection. Each request has it as an extension.
#[derive(Debug, Clone)]
struct Activity(watch::Sender<Phase>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The connection has waited for its client since this time, and has not served a page yet.
    Waiting(Instant),
    /// A page is in progress.
    Working,
    /// The connection waits for its client, and has served a page before.
    Served,
}

/// Work on a request, until it is dropped.
struct Work(Activity);

/// Serves connections until it is dropped.
pub(super) async fn serve(mut listener: TcpListener, router: Router, max: usize) {
    let (mut tasks, mut open) = (JoinSet::new(), Vec::<(AbortHandle, Activity)>::new());
    loop {
        let (stream, _) = Listener::accept(&mut listener).await;
        while tasks.try_join_next().is_some() {}
        while tasks.len() >= max {
            open.retain(|(task, _)| !task.is_finished());
            let waiting = open.iter().filter_map(|(task, activity)| match *activity.0.borrow() {
                Phase::Waiting(since) => Some((since, task)),
                Phase::Working | Phase::Served => None,
            });
            if let Some((_, task)) = waiting.min_by_key(|(since, _)| *since) {
                task.abort();
            }
            tasks.join_next().await;
        }
        open.retain(|(task, _)| !task.is_finished());
        let activity = Activity::new();
        open.push((
            tasks.spawn(connection(stream, router.clone(), activity.clone())),
            activity,
        ));
    }
}

/// Serves a connection until the client closes it, or is too slow.
async fn connection(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, router: Router, activity: Activity) {
    let service = TowerToHyperService::new(router);
    let service = service_fn(|mut request: Request<Incoming>| {
        activity.receive();
        request.extensions_mut().insert(activity.clone());
        service.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_TIMEOUT)
        .max_buf_size(MAX_BUFFER)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        _ = connection => {}
        () = activity.waits_for(TRANSFER_TIMEOUT) => {}
    }
}

impl Activity {
    fn new() -> Self {
        Self(watch::Sender::new(Phase::Waiting(Instant::now())))
    }

    /// Marks the connection as working.
    fn work(&self) -> Work {
        self.0.send_replace(Phase::Working);
        Work(self.clone())
    }

    /// Notes that the client has sent a request.
    fn receive(&self) {
        self.0.send_modify(|phase| {
            if let Phase::Waiting(since) = phase {
                *since = Instant::now();
            }
        });
    }

    /// Returns when the connection has neither worked nor received a request for this time.
    async fn waits_for(&self, time: Duration) {
        let mut phase = self.0.subscribe();
        loop {
            let _ = phase.wait_for(|phase| *phase != Phase::Working).await;
            if timeout(time, phase.changed()).await.is_err() {
                return;
            }
        }
    }
}

/// Processes a request when it has a permit.
pub(super) async fn limit_pages(State(permits): State<Arc<Semaphore>>, request: Request, next: Next) -> Response {
    let _work = request.extensions().get::<Activity>().map(Activity::work);
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

impl Drop for Work {
    fn drop(&mut self) {
        self.0.0.send_replace(Phase::Served);
    }
}

#[cfg(test)]
mod tests;
