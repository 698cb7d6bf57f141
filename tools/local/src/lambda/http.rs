//! HTTP responses of the Invoke API and the Runtime API.

use axum::{
    body::Body,
    http::{StatusCode, header::CONTENT_TYPE},
    response::IntoResponse,
};
use serde_json::json;
use uuid::Uuid;

use crate::listener::access::Refusal;

pub(super) type Response = axum::response::Response;

/// An error in the format of Lambda's API: its status, type and message.
#[derive(Debug)]
pub(super) struct ApiError(pub(super) StatusCode, pub(super) &'static str, pub(super) String);

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Self(status, kind, message) = self;
        let fault = if status.is_client_error() { "User" } else { "Service" };
        // The model of the API has both spellings.
        let name = match kind {
            "ResourceNotFoundException" | "UnknownOperationException" => "Message",
            _ => "message",
        };
        let body = json!({"Type": fault, name: message});
        let id = Uuid::new_v4().to_string();
        let headers = [
            ("x-amzn-errortype", kind),
            ("x-amzn-requestid", &id),
            (CONTENT_TYPE.as_str(), "application/json"),
        ];
        response(status, headers, body.to_string())
    }
}

/// Returns the error of a request that a web page sent.
pub(super) fn refused(refusal: Refusal) -> Response {
    ApiError(refusal.0, "AccessDeniedException", refusal.1.to_owned()).into_response()
}

/// Returns a response with these headers. A value that is no header value is an internal error.
pub(super) fn response<'a>(
    status: StatusCode,
    headers: impl IntoIterator<Item = (&'a str, &'a str)>,
    body: impl Into<Body>,
) -> Response {
    let response = axum::http::Response::builder().status(status);
    let response = headers
        .into_iter()
        .fold(response, |response, (name, value)| response.header(name, value));
    let response = response.body(body.into());
    response.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}
