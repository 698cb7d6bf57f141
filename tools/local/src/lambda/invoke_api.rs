//! The Invoke API, which everybody but the functions asks.

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, Path, State},
    http::{HeaderMap, Response, StatusCode, header::CONTENT_TYPE},
    response::IntoResponse as _,
    routing::post,
};
use serde_json::json;

use super::{Lambda, MAX_PAYLOAD, arn};

/// The most payload of an asynchronous invocation, in bytes.
const MAX_ASYNCHRONOUS_PAYLOAD: usize = 1024 * 1024;

pub(super) type Reply = Response<Body>;

pub(super) fn router(lambda: Lambda) -> Router {
    Router::new()
        .route("/2015-03-31/functions/{name}/invocations", post(invoke))
        .fallback(async || {
            refusal(
                StatusCode::NOT_FOUND,
                "UnknownOperationException",
                "there is no such operation",
            )
        })
        // The limit of Invoke is checked by itself, for its own words.
        .layer(DefaultBodyLimit::max(2 * MAX_PAYLOAD))
        .with_state(lambda)
}

async fn invoke(State(lambda): State<Lambda>, Path(name): Path<String>, headers: HeaderMap, body: Bytes) -> Reply {
    let kind = headers
        .get("x-amz-invocation-type")
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or("RequestResponse");
    if lambda.find(&name).is_none() {
        let message = format!("Function not found: {}", arn(&name));
        return refusal(StatusCode::NOT_FOUND, "ResourceNotFoundException", &message);
    }
    let most = if kind == "Event" {
        MAX_ASYNCHRONOUS_PAYLOAD
    } else {
        MAX_PAYLOAD
    };
    if body.len() > most {
        let message = format!("Request must be smaller than {most} bytes for the InvokeFunction operation");
        return refusal(StatusCode::PAYLOAD_TOO_LARGE, "RequestTooLargeException", &message);
    }
    let payload = if body.is_empty() {
        b"{}".to_vec()
    } else {
        Vec::from(body)
    };
    if serde_json::from_slice::<serde::de::IgnoredAny>(&payload).is_err() {
        let message = "Could not parse request body into json";
        return refusal(StatusCode::BAD_REQUEST, "InvalidRequestContentException", message);
    }
    match kind {
        "RequestResponse" => answer(&lambda, &name, payload).await,
        "Event" => match lambda.invoke_later(&name, payload) {
            Some(id) => built(
                Response::builder()
                    .status(202)
                    .header("x-amzn-requestid", id)
                    .body(Body::empty()),
            ),
            None => refusal(StatusCode::NOT_FOUND, "ResourceNotFoundException", "Function not found"),
        },
        "DryRun" => built(Response::builder().status(204).body(Body::empty())),
        _ => {
            let message = "InvocationType is none of RequestResponse, Event and DryRun";
            refusal(StatusCode::BAD_REQUEST, "InvalidParameterValueException", message)
        }
    }
}

async fn answer(lambda: &Lambda, name: &str, payload: Vec<u8>) -> Reply {
    let Some(invoked) = lambda.invoke(name, payload).await else {
        return refusal(StatusCode::NOT_FOUND, "ResourceNotFoundException", "Function not found");
    };
    let mut reply = Response::builder()
        .header("x-amzn-requestid", &invoked.request_id)
        .header("x-amz-executed-version", "$LATEST")
        .header(CONTENT_TYPE, "application/json");
    if invoked.is_error {
        reply = reply.header("x-amz-function-error", "Unhandled");
    }
    built(reply.body(Body::from(invoked.payload)))
}

/// An error in the form of Lambda's API.
pub(super) fn refusal(status: StatusCode, kind: &str, message: &str) -> Reply {
    let fault = if status.is_client_error() { "User" } else { "Service" };
    let reply = Response::builder()
        .status(status)
        .header("x-amzn-errortype", kind)
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(json!({"Type": fault, "Message": message}).to_string()));
    built(reply)
}

/// A header that holds what no header may hold is the only way for this to fail.
pub(super) fn built(reply: Result<Reply, axum::http::Error>) -> Reply {
    reply.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}
