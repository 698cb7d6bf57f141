//! The Runtime API: each function process has one, on a port of its own.
//! See <https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, FromRequest as _, Path, Request, State},
    http::{StatusCode, header::CONTENT_TYPE},
    response::IntoResponse as _,
    routing::{get, post},
};
use serde_json::json;

use super::{
    http::{self, ApiError},
    process::{Outcome, Process, arn},
};
use crate::{listener::access, mapping::record::MAX_PAYLOAD};

/// Maximum size of an error of the runtime's start, in bytes.
const MAX_INIT_ERROR: usize = 64 * 1024;

/// Returns the routes of the Runtime API at this address.
pub(super) fn router(process: Arc<Process>, address: SocketAddr) -> Router {
    let init_error = post(init_error).layer(DefaultBodyLimit::max(MAX_INIT_ERROR));
    let runtime = Router::new()
        .route("/invocation/next", get(next))
        .route("/invocation/{request_id}/{end}", post(end))
        .route("/init/error", init_error);
    let router = Router::new()
        .nest("/2018-06-01/runtime", runtime)
        // The runtime itself checks the limit of a response.
        .layer(DefaultBodyLimit::max(2 * MAX_PAYLOAD))
        .with_state(process);
    access::guarded(router, address, http::refused)
}

async fn next(State(process): State<Arc<Process>>) -> http::Response {
    let Some(invocation) = process.next().await else {
        let message = "this process has been abandoned".to_owned();
        return ApiError(StatusCode::GONE, "InvalidProcess", message).into_response();
    };
    let deadline = shared::clock::since_epoch() + process.function.timeout;
    let headers = [
        ("lambda-runtime-aws-request-id", invocation.request_id.as_str()),
        ("lambda-runtime-deadline-ms", &deadline.as_millis().to_string()),
        ("lambda-runtime-invoked-function-arn", &arn(&process.function.binary)),
        ("lambda-runtime-trace-id", &trace_header()),
        (CONTENT_TYPE.as_str(), "application/json"),
    ];
    let response = http::response(StatusCode::OK, headers, invocation.payload);
    let _ = invocation.taken.send(());
    response
}

/// Returns an X-Ray trace header: the start time in seconds, and random digits.
fn trace_header() -> String {
    let seconds = shared::clock::since_epoch().as_secs();
    let (random, parent) = (fastrand::u128(..) >> 32, fastrand::u64(1..));
    format!("Root=1-{seconds:08x}-{random:024x};Parent={parent:016x};Sampled=1")
}

/// Ends an invocation with a response or an error. The body is read only if the invocation is in flight.
async fn end(
    State(process): State<Arc<Process>>,
    Path((request_id, end)): Path<(String, String)>,
    request: Request,
) -> http::Response {
    let outcome = match end.as_str() {
        "response" => Outcome::Response,
        "error" => Outcome::Error,
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    if process.is_current(&request_id) {
        let body = match Bytes::from_request(request, &()).await {
            Ok(body) => body,
            Err(rejection) => return rejection.into_response(),
        };
        if process.complete(Some(&request_id), outcome(body.into())) {
            return accepted();
        }
    }
    let message = "this invocation is not in flight".to_owned();
    ApiError(StatusCode::BAD_REQUEST, "InvalidRequestID", message).into_response()
}

async fn init_error(State(process): State<Arc<Process>>, body: Bytes) -> http::Response {
    process.complete(None, Outcome::Error(body.into()));
    accepted()
}

fn accepted() -> http::Response {
    (StatusCode::ACCEPTED, Json(json!({"status": "OK"}))).into_response()
}
