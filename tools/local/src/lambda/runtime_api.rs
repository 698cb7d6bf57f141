//! The Runtime API: each function process has one, on a port of its own.
//! See <https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>.

use std::sync::Arc;

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, Path, State},
    http::{Response, StatusCode, header::CONTENT_TYPE},
    response::IntoResponse,
    routing::{get, post},
};
use serde_json::json;

use super::{
    http::{self, api_error},
    process::{Process, ProcessOutcome},
};
use crate::mapping::invoker::MAX_PAYLOAD;

pub(super) fn router(process: Arc<Process>) -> Router {
    let runtime = Router::new()
        .route("/invocation/next", get(next))
        .route("/invocation/{request_id}/response", post(response))
        .route("/invocation/{request_id}/error", post(error))
        .route("/init/error", post(init_error));
    Router::new()
        .nest("/2018-06-01/runtime", runtime)
        // The runtime itself checks the limit of a response.
        .layer(DefaultBodyLimit::max(2 * MAX_PAYLOAD))
        .with_state(process)
}

async fn next(State(process): State<Arc<Process>>) -> http::Response {
    let Some(job) = process.next().await else {
        return api_error(StatusCode::GONE, "InvalidProcess", "this process has been abandoned");
    };
    let deadline = shared::clock::since_epoch() + job.timeout;
    let response = Response::builder()
        .header("lambda-runtime-aws-request-id", &job.request_id)
        .header("lambda-runtime-deadline-ms", deadline.as_millis().to_string())
        .header("lambda-runtime-invoked-function-arn", &job.arn)
        .header("lambda-runtime-trace-id", trace_header())
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(job.payload));
    let _ = job.taken.send(());
    http::build(response)
}

/// Returns an X-Ray trace header: the start time in seconds, and random digits.
fn trace_header() -> String {
    let seconds = shared::clock::since_epoch().as_secs();
    let (random, parent) = (fastrand::u128(..) >> 32, fastrand::u64(1..));
    format!("Root=1-{seconds:08x}-{random:024x};Parent={parent:016x};Sampled=1")
}

async fn response(State(process): State<Arc<Process>>, Path(request_id): Path<String>, body: Bytes) -> http::Response {
    complete(&process, &request_id, ProcessOutcome::Response(body.into()))
}

async fn error(State(process): State<Arc<Process>>, Path(request_id): Path<String>, body: Bytes) -> http::Response {
    complete(&process, &request_id, ProcessOutcome::Error(body.into()))
}

fn complete(process: &Process, request_id: &str, outcome: ProcessOutcome) -> http::Response {
    if process.complete(request_id, outcome) {
        accepted()
    } else {
        let message = "this invocation is not in flight";
        api_error(StatusCode::BAD_REQUEST, "InvalidRequestID", message)
    }
}

async fn init_error(State(process): State<Arc<Process>>, body: Bytes) -> http::Response {
    process.fail(body.into());
    accepted()
}

fn accepted() -> http::Response {
    (StatusCode::ACCEPTED, Json(json!({"status": "OK"}))).into_response()
}
