//! The Invoke API. See <https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html>.

use std::{net::TcpListener, sync::Arc};

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    extract::{Path, RawQuery, State},
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE},
    routing::post,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use history_console::hosts::reachable;
use percent_encoding::percent_decode_str;
use shared::json;

use super::{
    functions::{HostedFunction, InvokeOutput, Lambda, request_id},
    http::{self, ApiError, Response},
    process::arn,
    spawn::Host,
};
use crate::{
    listener::{self, access},
    mapping::record::MAX_PAYLOAD,
    template::Function,
};

/// Maximum payload of an asynchronous invocation, in bytes.
/// See <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>.
const MAX_ASYNCHRONOUS_PAYLOAD: usize = 1024 * 1024;
/// The only version of a function.
const LATEST: &str = "$LATEST";

impl Lambda {
    /// Serves the functions on this listener. Processes start on demand.
    pub fn serve(listener: TcpListener, functions: &[Function], host: &Host) -> std::io::Result<Self> {
        let address = listener.local_addr()?;
        let lambda = Self::new(reachable(address), functions, host);
        listener::serve(
            listener,
            access::guarded(router(lambda.clone()), address, http::refused),
        )?;
        Ok(lambda)
    }
}

fn router(lambda: Lambda) -> Router {
    let unknown = async || {
        let message = "there is no such operation".to_owned();
        ApiError(StatusCode::NOT_FOUND, "UnknownOperationException", message)
    };
    Router::new()
        .route("/2015-03-31/functions/{name}/invocations", post(invoke))
        .fallback(unknown)
        .with_state(lambda)
}

/// Returns the value of a parameter in a header, the first of its values if there is none.
fn parameter<'a>(headers: &'a HeaderMap, header: &str, name: &str, values: &[&'a str]) -> Result<&'a str, ApiError> {
    let value = headers.get(header).map(|value| value.to_str().unwrap_or_default());
    let value = value.unwrap_or(values[0]);
    if values.contains(&value) {
        return Ok(value);
    }
    let values = values.join(", ");
    let message = format!(
        "Value '{value}' at '{name}' failed to satisfy constraint: Member must satisfy enum value set: [{values}]"
    );
    Err(rejected("InvalidParameterValueException", message))
}

fn rejected(kind: &'static str, message: impl Into<String>) -> ApiError {
    ApiError(StatusCode::BAD_REQUEST, kind, message.into())
}

async fn invoke(
    State(lambda): State<Lambda>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let requested = || {
        let tail = parameter(&headers, "x-amz-log-type", "logType", &["None", "Tail"])?;
        let kinds = ["RequestResponse", "Event", "DryRun"];
        let kind = parameter(&headers, "x-amz-invocation-type", "invocationType", &kinds)?;
        Ok((tail, kind, function(&lambda, &name, query.as_deref())?))
    };
    let (tail, kind, function) = match requested() {
        Ok(requested) => requested,
        Err(error) => {
            // The connection is closed after a body that is not read, and a client can have sent its next request.
            let _ = to_bytes(body, MAX_ASYNCHRONOUS_PAYLOAD).await;
            return Err(error);
        }
    };
    let payload = payload(kind, body).await?;
    let empty = |status, id: &str| http::response(status, [("x-amzn-requestid", id)], Body::empty());
    Ok(match kind {
        "Event" => empty(StatusCode::ACCEPTED, &function.invoke_async(payload)),
        "DryRun" => empty(StatusCode::NO_CONTENT, &request_id()),
        _ => {
            let output = lambda.invoke(&name, payload).await;
            respond(output.ok_or_else(|| not_found(&name))?, tail == "Tail")
        }
    })
}

/// Returns the requested function, if it exists. A qualifier is part of the name or of the query.
fn function(lambda: &Lambda, name: &str, query: Option<&str>) -> Result<Arc<HostedFunction>, ApiError> {
    let mut pairs = query.unwrap_or_default().split('&');
    let qualifier = pairs.find_map(|pair| pair.strip_prefix("Qualifier="));
    let qualifier = qualifier.map(|value| percent_decode_str(value).decode_utf8_lossy());
    match qualifier {
        Some(qualifier) if name.ends_with(&format!(":{LATEST}")) && qualifier != LATEST => Err(rejected(
            "InvalidParameterValueException",
            "The derived qualifier from the function name does not match the specified qualifier.",
        )),
        Some(qualifier) if qualifier != LATEST => Err(not_found(&format!("{name}:{qualifier}"))),
        _ => lambda.find(name).ok_or_else(|| not_found(name)),
    }
}

/// Reads the payload.
async fn payload(kind: &str, body: Body) -> Result<Bytes, ApiError> {
    let max = match kind {
        "Event" => MAX_ASYNCHRONOUS_PAYLOAD,
        _ => MAX_PAYLOAD,
    };
    let body = listener::read(body, max).await.ok_or_else(|| {
        let message = format!("Request must be smaller than {max} bytes for the InvokeFunction operation");
        ApiError(StatusCode::PAYLOAD_TOO_LARGE, "RequestTooLargeException", message)
    })?;
    match std::str::from_utf8(&body).map(json::check) {
        _ if body.is_empty() => Ok(Bytes::from_static(b"{}")),
        Ok(Ok(_)) => Ok(body),
        _ => Err(rejected(
            "InvalidRequestContentException",
            "Could not parse request body into json",
        )),
    }
}

fn respond(output: InvokeOutput, tail: bool) -> Response {
    let log = STANDARD.encode(&output.log_tail);
    let headers = [
        Some(("x-amzn-requestid", output.request_id.as_str())),
        Some(("x-amz-executed-version", LATEST)),
        Some((CONTENT_TYPE.as_str(), "application/json")),
        // Current runtimes report all errors as unhandled.
        output.is_error.then_some(("x-amz-function-error", "Unhandled")),
        tail.then_some(("x-amz-log-result", log.as_str())),
    ];
    http::response(StatusCode::OK, headers.into_iter().flatten(), output.payload)
}

fn not_found(name: &str) -> ApiError {
    let name = name.rsplit_once("function:").map_or(name, |(_, name)| name);
    let message = format!("Function not found: {}", arn(name));
    ApiError(StatusCode::NOT_FOUND, "ResourceNotFoundException", message)
}
