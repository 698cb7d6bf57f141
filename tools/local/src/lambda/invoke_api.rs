//! The Invoke API, which everybody but the functions asks.

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, Path, RawQuery, State},
    http::{HeaderMap, Response, StatusCode, header::CONTENT_TYPE},
    response::IntoResponse as _,
    routing::post,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use percent_encoding::percent_decode_str;
use serde_json::json;
use uuid::Uuid;

use super::{Lambda, MAX_PAYLOAD, arn};

/// The most payload of an asynchronous invocation, in bytes (Lambda API reference, "Invoke").
const MAX_ASYNCHRONOUS_PAYLOAD: usize = 1024 * 1024;
/// The most bytes of a body that are looked at: beyond, nothing is said of it but that it is too large.
const MAX_BODY: usize = 8 * MAX_PAYLOAD;
/// A function's only version.
const LATEST: &str = "$LATEST";

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
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(lambda)
}

/// How a function is invoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    RequestResponse { tail: bool },
    Event,
    DryRun,
}

impl Kind {
    fn of(headers: &HeaderMap) -> Result<Self, Refusal> {
        let header = |name: &str, default: &'static str| {
            let given = headers
                .get(name)
                .map(|value| value.to_str().unwrap_or_default().to_owned());
            given.unwrap_or_else(|| default.to_owned())
        };
        let tail = match header("x-amz-log-type", "None").as_str() {
            "None" => false,
            "Tail" => true,
            other => return Err(no_such("logType", other, "[None, Tail]")),
        };
        match header("x-amz-invocation-type", "RequestResponse").as_str() {
            "RequestResponse" => Ok(Self::RequestResponse { tail }),
            "Event" => Ok(Self::Event),
            "DryRun" => Ok(Self::DryRun),
            other => Err(no_such("invocationType", other, "[Event, RequestResponse, DryRun]")),
        }
    }

    fn most(self) -> usize {
        match self {
            Self::Event => MAX_ASYNCHRONOUS_PAYLOAD,
            Self::RequestResponse { .. } | Self::DryRun => MAX_PAYLOAD,
        }
    }
}

/// A parameter with none of the values that it takes.
fn no_such(parameter: &str, value: &str, values: &str) -> Refusal {
    let message = format!(
        "Value '{value}' at '{parameter}' failed to satisfy constraint: Member must satisfy enum value set: {values}"
    );
    Refusal(StatusCode::BAD_REQUEST, "InvalidParameterValueException", message)
}

async fn invoke(
    State(lambda): State<Lambda>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Result<Bytes, axum::extract::rejection::BytesRejection>,
) -> Reply {
    let checked = Kind::of(&headers).and_then(|kind| Ok((kind, function(&lambda, &name, query.as_deref())?)));
    let (kind, name) = match checked {
        Ok(checked) => checked,
        Err(refusal) => return refusal.reply(),
    };
    let payload = match payload(kind, body) {
        Ok(payload) => payload,
        Err(refusal) => return refusal.reply(),
    };
    match kind {
        Kind::RequestResponse { tail } => answer(&lambda, &name, payload, tail).await,
        Kind::Event => match lambda.invoke_later(&name, payload) {
            Some(id) => empty(StatusCode::ACCEPTED, &id),
            None => not_found(&name).reply(),
        },
        Kind::DryRun => empty(StatusCode::NO_CONTENT, &Uuid::new_v4().to_string()),
    }
}

/// The function that is asked for, by a name that is known. Its qualifier stands behind the name, or in the query.
fn function(lambda: &Lambda, name: &str, query: Option<&str>) -> Result<String, Refusal> {
    let pairs = query
        .unwrap_or_default()
        .split('&')
        .filter_map(|pair| pair.split_once('='));
    let mut qualifiers = pairs.filter(|(name, _)| *name == "Qualifier");
    let qualifier = qualifiers
        .next()
        .map(|(_, value)| percent_decode_str(value).decode_utf8_lossy().into_owned());
    let known = lambda.find(name).is_some();
    match qualifier {
        Some(qualifier) if name.ends_with(&format!(":{LATEST}")) && qualifier != LATEST => {
            let message = "The derived qualifier from the function name does not match the specified qualifier.";
            Err(Refusal(
                StatusCode::BAD_REQUEST,
                "InvalidParameterValueException",
                message.to_owned(),
            ))
        }
        Some(qualifier) if qualifier != LATEST => Err(not_found(&format!("{name}:{qualifier}"))),
        _ if known => Ok(name.to_owned()),
        _ => Err(not_found(name)),
    }
}

fn payload(kind: Kind, body: Result<Bytes, axum::extract::rejection::BytesRejection>) -> Result<Vec<u8>, Refusal> {
    let most = kind.most();
    let body = body.ok().filter(|body| body.len() <= most).ok_or_else(|| {
        let message = format!("Request must be smaller than {most} bytes for the InvokeFunction operation");
        Refusal(StatusCode::PAYLOAD_TOO_LARGE, "RequestTooLargeException", message)
    })?;
    if body.is_empty() {
        return Ok(b"{}".to_vec());
    }
    if serde_json::from_slice::<serde::de::IgnoredAny>(&body).is_err() {
        let message = "Could not parse request body into json";
        return Err(Refusal(
            StatusCode::BAD_REQUEST,
            "InvalidRequestContentException",
            message.to_owned(),
        ));
    }
    Ok(body.into())
}

async fn answer(lambda: &Lambda, name: &str, payload: Vec<u8>, tail: bool) -> Reply {
    let Some(invoked) = lambda.invoke(name, payload).await else {
        return not_found(name).reply();
    };
    let mut reply = Response::builder()
        .header("x-amzn-requestid", &invoked.request_id)
        .header("x-amz-executed-version", LATEST)
        .header(CONTENT_TYPE, "application/json");
    if invoked.is_error {
        // The runtimes of today hand over no error that they have handled.
        reply = reply.header("x-amz-function-error", "Unhandled");
    }
    if tail {
        reply = reply.header("x-amz-log-result", STANDARD.encode(&invoked.log_tail));
    }
    built(reply.body(Body::from(invoked.payload)))
}

fn empty(status: StatusCode, request_id: &str) -> Reply {
    let reply = Response::builder()
        .status(status)
        .header("x-amzn-requestid", request_id);
    built(reply.body(Body::empty()))
}

fn not_found(name: &str) -> Refusal {
    let name = name.rsplit_once("function:").map_or(name, |(_, name)| name);
    let message = format!("Function not found: {}", arn(name));
    Refusal(StatusCode::NOT_FOUND, "ResourceNotFoundException", message)
}

/// Why an invocation is refused: a status, an error's type and its message.
struct Refusal(StatusCode, &'static str, String);

impl Refusal {
    fn reply(&self) -> Reply {
        refusal(self.0, self.1, &self.2)
    }
}

/// An error in the form of Lambda's API.
pub(super) fn refusal(status: StatusCode, kind: &str, message: &str) -> Reply {
    let fault = if status.is_client_error() { "User" } else { "Service" };
    // The API's own model writes it in two ways.
    let name = match kind {
        "ResourceNotFoundException" | "UnknownOperationException" => "Message",
        _ => "message",
    };
    let reply = Response::builder()
        .status(status)
        .header("x-amzn-errortype", kind)
        .header("x-amzn-requestid", Uuid::new_v4().to_string())
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(json!({"Type": fault, name: message}).to_string()));
    built(reply)
}

/// A header that holds what no header may hold is the only way for this to fail.
pub(super) fn built(reply: Result<Reply, axum::http::Error>) -> Reply {
    reply.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}
