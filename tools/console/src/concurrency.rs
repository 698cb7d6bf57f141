//! Limits of concurrent work.
//!
//! Without a limit, requests to DynamoDB wait for each other until they time out, and their retries add to the load. So a
//! request of a page waits for a permit, and fails with status 503 if it gets none in time. A client that disconnects while it
//! waits leaves the queue, and one that disconnects later frees its permit.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header},
    middleware::Next,
    response::Response,
};
use tokio::{sync::Semaphore, time::timeout};

use super::{connections::Activity, page};

/// Maximum number of pages in progress. A page sends up to four requests to DynamoDB at the same time.
const MAX_PAGES: usize = 16;
/// Maximum time for which a request waits for a permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(30);
/// Value of `Retry-After`, in seconds.
const RETRY_AFTER: &str = "5";

/// Permits for requests in progress.
#[derive(Debug, Clone)]
pub(super) struct Permits(Arc<Semaphore>);

impl Permits {
    pub(super) fn of_pages() -> Self {
        Self::new(MAX_PAGES)
    }

    fn new(max: usize) -> Self {
        Self(Arc::new(Semaphore::new(max)))
    }
}

/// Processes a request when it has a permit.
pub(super) async fn limit(State(Permits(permits)): State<Permits>, request: Request, next: Next) -> Response {
    let _work = request.extensions().get::<Activity>().map(Activity::work);
    match timeout(PERMIT_TIMEOUT, permits.acquire_owned()).await {
        Ok(Ok(_permit)) => next.run(request).await,
        Ok(Err(_)) | Err(_) => overloaded(&request),
    }
}

fn overloaded(request: &Request) -> Response {
    let why = "The console has too many requests in progress. Try again in a few seconds.";
    let is_json = page::accepts_only_json(request.headers());
    let mut response = page::rejection(StatusCode::SERVICE_UNAVAILABLE, why, is_json);
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
    response
}

#[cfg(test)]
mod tests {
    use axum::{Router, body::Body, middleware, routing::get};
    use hyper::service::Service as _;
    use hyper_util::service::TowerToHyperService;
    use tokio::{sync::mpsc, time::Instant};

    use super::*;

    fn request() -> Request {
        Request::get("/").body(Body::empty()).unwrap()
    }

    fn router(permits: &Permits, page: axum::routing::MethodRouter) -> TowerToHyperService<Router> {
        let limit = middleware::from_fn_with_state(permits.clone(), limit);
        TowerToHyperService::new(Router::new().route("/", page).route_layer(limit))
    }

    /// A page that reports its start, and never ends.
    fn endless(started: &mpsc::UnboundedSender<()>) -> axum::routing::MethodRouter {
        let started = started.clone();
        get(async move || {
            started.send(()).unwrap();
            std::future::pending::<Response>().await
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_without_a_permit_in_time_is_rejected() {
        let permits = Permits::new(2);
        let (started, mut starts) = mpsc::unbounded_channel();
        let router = router(&permits, endless(&started));
        let mut running: Vec<_> = (0..2).map(|_| tokio::spawn(router.call(request()))).collect();
        for _ in &running {
            starts.recv().await.unwrap();
        }
        let before = Instant::now();
        let response = router.call(request()).await.unwrap();
        assert_eq!(before.elapsed().as_secs(), PERMIT_TIMEOUT.as_secs());
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()[header::RETRY_AFTER], RETRY_AFTER);
        let json = Request::get("/").header(header::ACCEPT, "application/json");
        let response = router.call(json.body(Body::empty()).unwrap()).await.unwrap();
        let body = axum::body::to_bytes(response.into_body(), 1000).await.unwrap();
        assert!(
            body.starts_with(b"{\"Error\":\"The console has too many requests"),
            "{body:?}"
        );
        // A request that ends early, because its client disconnects, frees its permit.
        running.pop().unwrap().abort();
        let _next = tokio::spawn(router.call(request()));
        starts.recv().await.unwrap();
        assert_eq!(permits.0.available_permits(), 0);
    }
}
