//! The Invoke API. See <https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html>.

use std::{net::TcpListener, sync::Arc};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Path, RawQuery, State},
    http::{HeaderMap, Response, StatusCode, header::CONTENT_TYPE},
    routing::post,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use percent_encoding::percent_decode_str;
use shared::json;

use super::{
    functions::{HostedFunction, InvokeOutput, Lambda, arn, request_id},
    http::{self, api_error},
    spawn::Host,
};
use crate::{
    listener::{
        access,
        budget::{BodyError, Reservation},
    },
    mapping::invoker::MAX_PAYLOAD,
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
        let lambda = Self::new(address, functions, host);
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let router = access::guarded(router(lambda.clone()), address, http::refused);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(lambda)
    }
}

fn router(lambda: Lambda) -> Router {
    Router::new()
        .route("/2015-03-31/functions/{name}/invocations", post(invoke))
        .fallback(async || {
            api_error(
                StatusCode::NOT_FOUND,
                "UnknownOperationException",
                "there is no such operation",
            )
        })
        .with_state(lambda)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InvocationType {
    RequestResponse { tail: bool },
    Event,
    DryRun,
}

impl InvocationType {
    fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        let tail = match header("x-amz-log-type").unwrap_or("None") {
            "None" => false,
            "Tail" => true,
            other => return Err(invalid_value("logType", other, "[None, Tail]")),
        };
        match header("x-amz-invocation-type").unwrap_or("RequestResponse") {
            "RequestResponse" => Ok(Self::RequestResponse { tail }),
            "Event" => Ok(Self::Event),
            "DryRun" => Ok(Self::DryRun),
            other => Err(invalid_value(
                "invocationType",
                other,
                "[Event, RequestResponse, DryRun]",
            )),
        }
    }

    fn max_payload(self) -> usize {
        match self {
            Self::Event => MAX_ASYNCHRONOUS_PAYLOAD,
            Self::RequestResponse { .. } | Self::DryRun => MAX_PAYLOAD,
        }
    }
}

fn invalid_value(parameter: &str, value: &str, values: &str) -> ApiError {
    let message = format!(
        "Value '{value}' at '{parameter}' failed to satisfy constraint: Member must satisfy enum value set: {values}"
    );
    invalid("InvalidParameterValueException", message)
}

fn invalid(kind: &'static str, message: String) -> ApiError {
    ApiError::Rejected(StatusCode::BAD_REQUEST, kind, message)
}

async fn invoke(
    State(lambda): State<Lambda>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> http::Response {
    let checked = InvocationType::of(&headers).and_then(|kind| Ok((kind, function(&lambda, &name, query.as_deref())?)));
    let (kind, function) = match checked {
        Ok(checked) => checked,
        Err(error) => return error.response(),
    };
    let (payload, reservation) = match payload(kind, &function, body).await {
        Ok(read) => read,
        Err(error) => return error.response(),
    };
    match kind {
        InvocationType::RequestResponse { tail } => {
            // The reservation lasts until the end of the invocation, also if the client disconnects.
            let ended = move |_: &InvokeOutput| {
                drop(reservation);
                true
            };
            let output = lambda.invoke_as(request_id(), &name, payload, ended).await;
            output.map_or_else(|| not_found(&name).response(), |output| respond(output, tail))
        }
        InvocationType::Event => empty(StatusCode::ACCEPTED, &function.invoke_async(payload, reservation)),
        InvocationType::DryRun => empty(StatusCode::NO_CONTENT, &request_id()),
    }
}

/// Returns the requested function, if it exists. A qualifier is part of the name or of the query.
fn function(lambda: &Lambda, name: &str, query: Option<&str>) -> Result<Arc<HostedFunction>, ApiError> {
    let mut pairs = query.unwrap_or_default().split('&');
    let qualifier = pairs.find_map(|pair| pair.strip_prefix("Qualifier="));
    let qualifier = qualifier.map(|value| percent_decode_str(value).decode_utf8_lossy());
    match qualifier {
        Some(qualifier) if name.ends_with(&format!(":{LATEST}")) && qualifier != LATEST => {
            let message = "The derived qualifier from the function name does not match the specified qualifier.";
            Err(invalid("InvalidParameterValueException", message.to_owned()))
        }
        Some(qualifier) if qualifier != LATEST => Err(not_found(&format!("{name}:{qualifier}"))),
        _ => lambda.find(name).ok_or_else(|| not_found(name)),
    }
}

/// Reads the payload, and reserves its place among the invocations of the function.
async fn payload(
    kind: InvocationType,
    function: &HostedFunction,
    body: Body,
) -> Result<(Bytes, Reservation), ApiError> {
    let budget = match kind {
        InvocationType::Event => &function.events,
        InvocationType::RequestResponse { .. } | InvocationType::DryRun => &function.requests,
    };
    let max = kind.max_payload();
    let (body, reservation) = budget.read(body, max).await.map_err(|error| match error {
        BodyError::Exhausted => ApiError::TooManyRequests,
        BodyError::TooLarge => {
            let message = format!("Request must be smaller than {max} bytes for the InvokeFunction operation");
            ApiError::Rejected(StatusCode::PAYLOAD_TOO_LARGE, "RequestTooLargeException", message)
        }
        BodyError::Incomplete => invalid_content(),
    })?;
    if body.is_empty() {
        return Ok((Bytes::from_static(b"{}"), reservation));
    }
    match std::str::from_utf8(&body).map(json::check) {
        Ok(Ok(_)) => Ok((body, reservation)),
        _ => Err(invalid_content()),
    }
}

fn invalid_content() -> ApiError {
    invalid(
        "InvalidRequestContentException",
        "Could not parse request body into json".to_owned(),
    )
}

fn respond(output: InvokeOutput, tail: bool) -> http::Response {
    let mut response = Response::builder()
        .header("x-amzn-requestid", &output.request_id)
        .header("x-amz-executed-version", LATEST)
        .header(CONTENT_TYPE, "application/json");
    if output.is_error {
        // Current runtimes report all errors as unhandled.
        response = response.header("x-amz-function-error", "Unhandled");
    }
    if tail {
        response = response.header("x-amz-log-result", STANDARD.encode(&output.log_tail));
    }
    http::build(response.body(Body::from(output.payload)))
}

fn empty(status: StatusCode, request_id: &str) -> http::Response {
    let response = Response::builder()
        .status(status)
        .header("x-amzn-requestid", request_id);
    http::build(response.body(Body::empty()))
}

fn not_found(name: &str) -> ApiError {
    let name = name.rsplit_once("function:").map_or(name, |(_, name)| name);
    let message = format!("Function not found: {}", arn(name));
    ApiError::Rejected(StatusCode::NOT_FOUND, "ResourceNotFoundException", message)
}

enum ApiError {
    /// Status, error type and message.
    Rejected(StatusCode, &'static str, String),
    TooManyRequests,
}

impl ApiError {
    fn response(&self) -> http::Response {
        match self {
            Self::Rejected(status, kind, message) => api_error(*status, kind, message),
            Self::TooManyRequests => http::too_many_requests(),
        }
    }
}
