//! The Runtime API: each function process has one, on a port of its own.
//! See <https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, FromRequest as _, Path, Request, State},
    http::{Response, StatusCode, header::CONTENT_TYPE},
    response::IntoResponse,
    routing::{get, post},
};
use serde_json::json;

use super::{
    http::{self, api_error},
    process::{Job, Process, ProcessOutcome},
};
use crate::{listener::access, mapping::invoker::MAX_PAYLOAD};

/// Maximum size of an error of the runtime's start, in bytes.
const MAX_INIT_ERROR: usize = 64 * 1024;

/// Returns the routes of the Runtime API at this address.
pub(super) fn router(process: Arc<Process>, address: SocketAddr) -> Router {
    let runtime = Router::new()
        .route("/invocation/next", get(next))
        .route("/invocation/{request_id}/response", post(response))
        .route("/invocation/{request_id}/error", post(error))
        .route(
            "/init/error",
            post(init_error).layer(DefaultBodyLimit::max(MAX_INIT_ERROR)),
        );
    let router = Router::new()
        .nest("/2018-06-01/runtime", runtime)
        // The runtime itself checks the limit of a response.
        .layer(DefaultBodyLimit::max(2 * MAX_PAYLOAD))
        .with_state(process);
    access::guarded(router, address, http::refused)
}

async fn next(State(process): State<Arc<Process>>) -> http::Response {
    let Some(Job { invocation, taken }) = process.next().await else {
        return api_error(StatusCode::GONE, "InvalidProcess", "this process has been abandoned");
    };
    let deadline = shared::clock::since_epoch() + invocation.timeout;
    let response = Response::builder()
        .header("lambda-runtime-aws-request-id", &invocation.request_id)
        .header("lambda-runtime-deadline-ms", deadline.as_millis().to_string())
        .header("lambda-runtime-invoked-function-arn", &invocation.arn)
        .header("lambda-runtime-trace-id", trace_header())
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(invocation.payload));
    let _ = taken.send(());
    http::build(response)
}

/// Returns an X-Ray trace header: the start time in seconds, and random digits.
fn trace_header() -> String {
    let seconds = shared::clock::since_epoch().as_secs();
    let (random, parent) = (fastrand::u128(..) >> 32, fastrand::u64(1..));
    format!("Root=1-{seconds:08x}-{random:024x};Parent={parent:016x};Sampled=1")
}

async fn response(
    State(process): State<Arc<Process>>,
    Path(request_id): Path<String>,
    request: Request,
) -> http::Response {
    complete(&process, &request_id, request, ProcessOutcome::Response).await
}

async fn error(
    State(process): State<Arc<Process>>,
    Path(request_id): Path<String>,
    request: Request,
) -> http::Response {
    complete(&process, &request_id, request, ProcessOutcome::Error).await
}

/// Ends an invocation. The body is read only if the invocation is in flight.
async fn complete(
    process: &Process,
    request_id: &str,
    request: Request,
    outcome: fn(Vec<u8>) -> ProcessOutcome,
) -> http::Response {
    let not_in_flight = || {
        let message = "this invocation is not in flight";
        api_error(StatusCode::BAD_REQUEST, "InvalidRequestID", message)
    };
    if !process.is_current(request_id) {
        return not_in_flight();
    }
    let body = match Bytes::from_request(request, &()).await {
        Ok(body) => body,
        Err(rejection) => return rejection.into_response(),
    };
    if process.complete(request_id, outcome(body.into())) {
        accepted()
    } else {
        not_in_flight()
    }
}

async fn init_error(State(process): State<Arc<Process>>, body: Bytes) -> http::Response {
    process.fail(body.into());
    accepted()
}

fn accepted() -> http::Response {
    (StatusCode::ACCEPTED, Json(json!({"status": "OK"}))).into_response()
}
