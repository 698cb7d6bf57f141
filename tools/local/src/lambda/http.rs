//! HTTP responses of the Invoke API and the Runtime API.

use axum::{
    body::Body,
    http::{StatusCode, header::CONTENT_TYPE},
    response::IntoResponse as _,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::listener::access::Refusal;

pub(super) type Response = axum::response::Response;

/// Returns an error in the format of Lambda's API.
pub(super) fn api_error(status: StatusCode, kind: &str, message: &str) -> Response {
    let fault = if status.is_client_error() { "User" } else { "Service" };
    // The model of the API has both spellings.
    let name = match kind {
        "ResourceNotFoundException" | "UnknownOperationException" => "Message",
        _ => "message",
    };
    error(status, kind, &json!({"Type": fault, name: message}))
}

/// Returns the error of an invocation beyond the limits of a function.
/// See <https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html#API_Invoke_Errors>.
pub(super) fn too_many_requests() -> Response {
    let body = json!({"Reason": "ConcurrentInvocationLimitExceeded", "Type": "User", "message": "Rate Exceeded."});
    error(StatusCode::TOO_MANY_REQUESTS, "TooManyRequestsException", &body)
}

/// Returns the error of a request that a web page sent.
pub(super) fn refused(refusal: Refusal) -> Response {
    api_error(refusal.status(), "AccessDeniedException", &refusal.to_string())
}

fn error(status: StatusCode, kind: &str, body: &Value) -> Response {
    let response = axum::http::Response::builder()
        .status(status)
        .header("x-amzn-errortype", kind)
        .header("x-amzn-requestid", Uuid::new_v4().to_string())
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(body.to_string()));
    build(response)
}

/// Finishes a response. It fails only if a header value is invalid.
pub(super) fn build(response: Result<Response, axum::http::Error>) -> Response {
    response.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}
