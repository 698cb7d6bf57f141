//! The Runtime API, which a function process asks: one for each, on a port of its own.

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
    MAX_PAYLOAD,
    invoke_api::{Reply, built, refusal},
    process::{End, Process},
};

/// The Runtime API of one process.
pub(super) fn router(process: Arc<Process>) -> Router {
    let runtime = Router::new()
        .route("/invocation/next", get(next))
        .route("/invocation/{request_id}/response", post(response))
        .route("/invocation/{request_id}/error", post(error))
        .route("/init/error", post(init_error));
    Router::new()
        .nest("/2018-06-01/runtime", runtime)
        // The limit of an answer is Lambda's; what is beyond is for the function to notice.
        .layer(DefaultBodyLimit::max(2 * MAX_PAYLOAD))
        .with_state(process)
}

async fn next(State(process): State<Arc<Process>>) -> Reply {
    let Some(job) = process.next().await else {
        return refusal(StatusCode::GONE, "InvalidProcess", "this process is given up");
    };
    let deadline = shared::clock::since_epoch() + job.timeout;
    let reply = Response::builder()
        .header("lambda-runtime-aws-request-id", &job.request_id)
        .header("lambda-runtime-deadline-ms", deadline.as_millis().to_string())
        .header("lambda-runtime-invoked-function-arn", &job.arn)
        .header("lambda-runtime-trace-id", trace_header())
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(job.payload));
    let _ = job.taken.send(());
    built(reply)
}

/// A trace of X-Ray's: its beginning in seconds, and random digits.
fn trace_header() -> String {
    let seconds = shared::clock::since_epoch().as_secs();
    let (random, parent) = (fastrand::u128(..) >> 32, fastrand::u64(1..));
    format!("Root=1-{seconds:08x}-{random:024x};Parent={parent:016x};Sampled=1")
}

async fn response(State(process): State<Arc<Process>>, Path(request_id): Path<String>, body: Bytes) -> Reply {
    complete(&process, &request_id, End::Answer(body.into()))
}

async fn error(State(process): State<Arc<Process>>, Path(request_id): Path<String>, body: Bytes) -> Reply {
    complete(&process, &request_id, End::Error(body.into()))
}

fn complete(process: &Process, request_id: &str, end: End) -> Reply {
    if process.complete(request_id, end) {
        accepted()
    } else {
        let message = "this invocation is not under way";
        refusal(StatusCode::BAD_REQUEST, "InvalidRequestID", message)
    }
}

async fn init_error(State(process): State<Arc<Process>>, body: Bytes) -> Reply {
    process.fail(body.into());
    accepted()
}

fn accepted() -> Reply {
    (StatusCode::ACCEPTED, Json(json!({"status": "OK"}))).into_response()
}
