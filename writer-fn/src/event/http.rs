//! HTTP requests of a function URL or of an API Gateway HTTP API, in [payload format
//! 2.0](https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html#urls-payloads): one update in the body.
//!
//! | part of the request | meaning |
//! |---|---|
//! | `authorizer.iam.userArn` or `authorizer.jwt.claims.sub` of the context | `Sender` |
//! | header `idempotency-key` | id of the request. Without it, each request is a new one |
//! | header `if-match: "7"` | expected version |
//! | header `if-none-match: *` | there is no version yet |
//!
//! No member of the body replaces one of these, and the body has no envelopes: its source would become a part of `Sender`. The path and
//! the query are not read.

use serde_json::Value;
use shared::{
    config::Ordering,
    domain::{names, request_id::MAX_REQUEST_ID_BYTES, version::Version},
    json::{self, Members},
};

use crate::{
    error::InvalidEvent,
    event::{
        envelope::{base64_text, tree},
        invalid_http::InvalidHttp,
    },
    update::{
        self, EXPECTED_VERSION, ExpectedVersion, Update,
        set::{UPDATES, is_set},
    },
};

/// An HTTP request with its context, as the JSON text of the event.
pub struct HttpRequest(String);

impl HttpRequest {
    /// Returns the request in an event. `None` if the event is not an HTTP request.
    pub(super) fn find(event: &str, members: &Members<'_>) -> Result<Option<Self>, InvalidHttp> {
        if !members.contains("requestContext") || members.contains(update::ID) || members.contains(UPDATES) {
            return Ok(None);
        }
        let is_http = inner(members, "requestContext").contains("http");
        match members.string("version").as_deref() {
            // A REST API, or a load balancer.
            _ if members.contains("httpMethod") => Err(InvalidHttp::PayloadFormat),
            Some("2.0") if is_http => Ok(Some(Self(event.to_owned()))),
            _ if is_http => Err(InvalidHttp::PayloadFormat),
            _ => Ok(None),
        }
    }

    /// Parses the update. `invocation` is the id of an update without a header `idempotency-key`.
    pub fn open(self, invocation: &str, ordering: Ordering) -> Result<Update, InvalidEvent> {
        let event = json::members(&self.0).unwrap_or_default();
        let context = inner(&event, "requestContext");
        let sender = caller(&inner(&context, "authorizer")).ok_or(InvalidHttp::NoCaller)?;
        if inner(&context, "http").string("method").as_deref() != Some("POST") {
            return Err(InvalidHttp::Method.into());
        }
        let headers = inner(&event, "headers");
        check_content(&headers)?;
        let request_id = idempotency_key(&headers)?;
        let expected = expected(&headers)?;
        let body = event.string("body").unwrap_or_default();
        let body = match event.value("isBase64Encoded") {
            Some("true") => base64_text(&body)?,
            None | Some("false") => body,
            Some(_) => return Err(InvalidHttp::Encoding.into()),
        };
        let body = tree(&body)?;
        check_members(&body)?;
        let update = Update::parse(body, request_id.as_deref().unwrap_or(invocation), ordering)?;
        Ok(Update {
            expected,
            sender: Some(sender),
            ..update
        })
    }
}

fn inner<'a>(members: &Members<'a>, name: &str) -> Members<'a> {
    let inner = members.get(name).map(json::members);
    inner.and_then(Result::ok).unwrap_or_default()
}

/// Returns the authenticated caller.
fn caller(authorizer: &Members<'_>) -> Option<String> {
    let arn = inner(authorizer, "iam").string("userArn");
    let subject = || inner(&inner(authorizer, "jwt"), "claims").string("sub");
    arn.or_else(subject).filter(|caller| !caller.is_empty())
}

/// Returns a header. The platform sends names in lower case, and joins the values of a header that is there twice by commas.
fn header(headers: &Members<'_>, name: &'static str) -> Result<Option<String>, InvalidHttp> {
    let mut found = headers
        .iter()
        .filter(|(other, _)| other.eq_ignore_ascii_case(name))
        .map(|(_, text)| json::string(text).ok_or(InvalidHttp::Header(name)));
    let value = found.next().transpose()?;
    match found.next() {
        Some(_) => Err(InvalidHttp::Header(name)),
        None => Ok(value.map(|value| value.trim().to_owned())),
    }
}

fn check_content(headers: &Members<'_>) -> Result<(), InvalidHttp> {
    let content_type = header(headers, "content-type")?.unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        return Err(InvalidHttp::ContentType);
    }
    match header(headers, "content-encoding")?.as_deref() {
        None | Some("identity") => Ok(()),
        Some(_) => Err(InvalidHttp::ContentEncoding),
    }
}

fn idempotency_key(headers: &Members<'_>) -> Result<Option<String>, InvalidHttp> {
    let Some(key) = header(headers, "idempotency-key")? else {
        return Ok(None);
    };
    let is_valid = key.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',');
    let is_valid = is_valid && (1..=MAX_REQUEST_ID_BYTES).contains(&key.len());
    is_valid.then_some(Some(key)).ok_or(InvalidHttp::IdempotencyKey)
}

fn expected(headers: &Members<'_>) -> Result<Option<ExpectedVersion>, InvalidHttp> {
    match (
        header(headers, "if-match")?,
        header(headers, "if-none-match")?.as_deref(),
    ) {
        (None, None) => Ok(None),
        (Some(tag), None) => {
            let version = version(&tag).ok_or(InvalidHttp::IfMatch)?;
            Ok(Some(ExpectedVersion::Is(version)))
        }
        (None, Some("*")) => Ok(Some(ExpectedVersion::Absent)),
        _ => Err(InvalidHttp::IfNoneMatch),
    }
}

/// Returns the version of a strong `ETag`.
fn version(tag: &str) -> Option<Version> {
    let number = tag.strip_prefix('"')?.strip_suffix('"')?;
    let is_canonical = number.bytes().all(|byte| byte.is_ascii_digit()) && !number.starts_with('0');
    Version::new(number.parse().ok().filter(|_| is_canonical)?)
}

/// Checks that the body has no members that headers replace, and is not a change set.
fn check_members(body: &Value) -> Result<(), InvalidHttp> {
    let is_there = |name: &str| body.get(name).is_some_and(|value| !value.is_null());
    if is_there(names::REQUEST_ID) {
        return Err(InvalidHttp::RequestId);
    }
    if is_there(EXPECTED_VERSION) {
        return Err(InvalidHttp::ExpectedVersion);
    }
    match body.as_object().is_some_and(is_set) {
        true => Err(InvalidHttp::ChangeSet),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;
