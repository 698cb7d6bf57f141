//! The public port of the embedded DynamoDB. It forwards the requests of programs, and refuses those of web pages.
//!
//! The embedded server itself accepts every request, and allows each page to read the responses. So it listens on an address that
//! pages cannot find, and this port checks each request. It forwards only the headers that DynamoDB reads: without `Origin`, the server
//! allows no page to read the response.
//!
//! The server processes one request at a time. So few connections to it are enough, and the file descriptors of this process stay for
//! those of the clients.
//!
//! The embedded server does not know which stream records are deleted. This port rejects requests that read them, as DynamoDB does. And the
//! server reads all items from the start of a page of `Scan` or `Query` on, although a page has at most 1 MB. This port adds a limit to
//! such requests, so that the time of a page does not grow with the table.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{self, Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderName, Method, StatusCode, header, uri::PathAndQuery},
    response::{IntoResponse as _, Response},
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use serde_json::{Value, json};
use shared::json;
use tokio::sync::Semaphore;

use super::sqlite::Trimmed;
use crate::listener::{
    self,
    access::{self, Refusal},
};

/// Maximum size of a request, in bytes.
/// See <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html>.
const MAX_BODY: usize = 16 * 1024 * 1024;
/// Maximum number of requests that the server has at the same time. Others wait. The maximum number of idle connections is the same.
const MAX_FORWARDED: usize = 32;
/// Time after which an idle connection to the server ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Header with the name of the action, and the actions whose request or response has a shard iterator or gets a limit.
const TARGET: &str = "x-amz-target";
const GET_RECORDS: &str = "DynamoDBStreams_20120810.GetRecords";
const GET_SHARD_ITERATOR: &str = "DynamoDBStreams_20120810.GetShardIterator";
const PAGES: [&str; 2] = ["DynamoDB_20120810.Scan", "DynamoDB_20120810.Query"];
/// Beginning of the names that `serde_json`, and so the embedded server, reserves.
const RESERVED: &str = "$serde_json::private::";
/// Maximum number of items of a page whose request has no limit. With items of 100 bytes or more, a page of 1 MB has fewer.
const MAX_PAGE: u32 = 10_000;

#[derive(Debug)]
struct Forward {
    client: Client<HttpConnector, Body>,
    /// Address of the embedded server.
    server: SocketAddr,
    slots: Semaphore,
    trimmed: Arc<Trimmed>,
}

/// Returns the routes of the port at `address`, which forwards to the embedded server.
pub fn router(address: SocketAddr, server: SocketAddr, trimmed: Arc<Trimmed>) -> Router {
    let forward = Arc::new(Forward::new(server, trimmed));
    let router = Router::new().fallback(async |State(forward): State<Arc<Forward>>, request: Request| {
        forward.send(request).await.unwrap_or_else(|response| response)
    });
    access::guarded(router.with_state(forward), address, refused)
}

impl Forward {
    fn new(server: SocketAddr, trimmed: Arc<Trimmed>) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(MAX_FORWARDED)
            .build(connector);
        Self {
            client,
            server,
            slots: Semaphore::new(MAX_FORWARDED),
            trimmed,
        }
    }

    async fn send(&self, request: Request) -> Result<Response, Response> {
        let (parts, body) = request.into_parts();
        if parts.method == Method::CONNECT {
            return Err(StatusCode::METHOD_NOT_ALLOWED.into_response());
        }
        let body = listener::read(body, MAX_BODY).await;
        let mut body = body.ok_or_else(|| StatusCode::PAYLOAD_TOO_LARGE.into_response())?;
        if has_reserved_name(&body) {
            let message =
                "the embedded DynamoDB of the local stack cannot store names that begin with $serde_json::private::";
            return Err(error(StatusCode::BAD_REQUEST, "ValidationException", message));
        }
        let target = parts.headers.get(TARGET).and_then(|target| target.to_str().ok());
        let target = target.unwrap_or_default().to_owned();
        if target == GET_RECORDS && self.is_trimmed(&body) {
            return Err(trimmed());
        }
        if PAGES.contains(&target.as_str()) {
            body = with_limit(body);
        }
        let path = parts.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let mut forwarded = Request::builder()
            .method(parts.method)
            .uri(format!("http://{}{path}", self.server))
            .body(Body::from(body))
            .map_err(|_| StatusCode::BAD_REQUEST.into_response())?;
        *forwarded.headers_mut() = known(parts.headers);
        let mut response = self.forward(forwarded).await?;
        if target == GET_SHARD_ITERATOR && self.is_trimmed(response.body()) {
            return Err(trimmed());
        }
        let headers = std::mem::take(response.headers_mut());
        *response.headers_mut() = known(headers);
        Ok(response.map(Body::from))
    }

    /// Returns `true` if a body, the request of `GetRecords` or the response of `GetShardIterator`, contains a shard iterator that precedes a deleted record.
    fn is_trimmed(&self, body: &[u8]) -> bool {
        // The server rejects a body without an iterator.
        let members = std::str::from_utf8(body).ok().and_then(|body| json::members(body).ok());
        let iterator = members.and_then(|members| members.string("ShardIterator"));
        iterator.is_some_and(|iterator| self.trimmed.precedes(&iterator))
    }

    /// Sends a request to the server and reads the response, so that a slow client does not occupy a connection to the server.
    async fn forward(&self, request: Request) -> Result<Response<Bytes>, Response> {
        let unreachable = || {
            let message = "the embedded DynamoDB cannot be reached";
            error(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError", message)
        };
        let _slot = self.slots.acquire().await.map_err(|_| unreachable())?;
        let response = self.client.request(request).await.map_err(|_| unreachable())?;
        let (parts, body) = response.into_parts();
        let read = body::to_bytes(Body::new(body), usize::MAX).await;
        Ok(Response::from_parts(parts, read.map_err(|_| unreachable())?))
    }
}

/// Returns the headers of a request that the server reads, or of a response that clients read.
fn known(headers: HeaderMap) -> HeaderMap {
    let is_known = |name: &HeaderName| {
        let by_name = [header::CONTENT_TYPE, header::AUTHORIZATION, header::SERVER].contains(name);
        by_name || name.as_str().starts_with("x-amz")
    };
    let mut known = HeaderMap::new();
    let mut last = None;
    for (name, value) in headers {
        // Only the first of several values has the name.
        last = name.or(last);
        if let Some(name) = last.clone().filter(is_known) {
            known.append(name, value);
        }
    }
    known
}

/// Returns `true` if a request has a name that the embedded server does not read as data. The text that such a member has instead of
/// an attribute value can overflow the stack of the server, and items with such a name can break a `Scan`.
fn has_reserved_name(body: &[u8]) -> bool {
    // Almost no request has one: a name that is written with escapes has a backslash.
    let has = |part: &[u8]| body.windows(part.len()).any(|window| window == part);
    (has(b"$serde_json") || has(b"\\u")) && has_reserved_member(&String::from_utf8_lossy(body), json::MAX_LEVELS)
}

/// Returns `true` if a member at any level has a reserved name, or if that is not known: of text that is not JSON, or has more levels.
fn has_reserved_member(text: &str, levels: usize) -> bool {
    let inner = |text: &str| levels == 0 || has_reserved_member(text, levels - 1);
    let in_member = |(name, text): (&str, &str)| name.starts_with(RESERVED) || inner(text);
    match text.trim_start().as_bytes().first() {
        Some(b'{') => json::members(text).map_or(true, |members| members.iter().any(in_member)),
        Some(b'[') => json::elements(text).map_or(true, |elements| elements.into_iter().any(inner)),
        _ => false,
    }
}

/// Adds a limit to the body of a `Scan` or `Query` that has none. The server rejects a body that is not an object.
fn with_limit(body: Bytes) -> Bytes {
    match json::parse_bytes(&body) {
        Ok(Value::Object(mut request)) if !request.contains_key("Limit") => {
            request.insert("Limit".to_owned(), MAX_PAGE.into());
            Value::from(request).to_string().into()
        }
        _ => body,
    }
}

/// Returns an error in the format of DynamoDB's API.
fn error(status: StatusCode, kind: &str, message: &str) -> Response {
    let kind = format!("com.amazonaws.dynamodb.v20120810#{kind}");
    let body = json!({"__type": kind, "message": message}).to_string();
    (status, [(header::CONTENT_TYPE, "application/x-amz-json-1.0")], body).into_response()
}

/// Returns the error for a position before a deleted record.
/// See <https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_streams_GetRecords.html>.
fn trimmed() -> Response {
    let message = "the record after this position is deleted";
    error(StatusCode::BAD_REQUEST, "TrimmedDataAccessException", message)
}

fn refused(refusal: Refusal) -> Response {
    error(refusal.0, "AccessDeniedException", refusal.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a request with this body to a server that responds with a shard iterator at `position`. Returns the status and the body.
    async fn send(trimmed: &Arc<Trimmed>, action: &'static str, body: String, position: i64) -> (StatusCode, String) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let forward = Forward::new(listener.local_addr().unwrap(), trimmed.clone());
        let response = with_iterator(position);
        let server = Router::new().fallback(async move || response);
        let server = tokio::spawn(async move { axum::serve(listener, server).await });
        let answer = answer(&forward, action, body).await;
        server.abort();
        answer
    }

    async fn answer(forward: &Forward, action: &'static str, body: String) -> (StatusCode, String) {
        let request = Request::post("/").header(TARGET, action);
        let request = request.body(Body::from(body)).unwrap();
        let response = forward.send(request).await.unwrap_or_else(|response| response);
        let (parts, body) = response.into_parts();
        let body = body::to_bytes(body, usize::MAX).await.unwrap();
        (parts.status, String::from_utf8(body.to_vec()).unwrap())
    }

    fn with_iterator(position: i64) -> String {
        let iterator = dynoxide::actions::get_shard_iterator::encode_shard_iterator("Changes", "shard", position);
        json!({ "ShardIterator": iterator }).to_string()
    }

    #[tokio::test]
    async fn deleted_stream_records_cannot_be_read() {
        let trimmed = Arc::new(Trimmed::default());
        trimmed.set("Changes", 8);
        for (action, requested, returned, is_trimmed) in [
            (GET_RECORDS, 6, 9, true),
            (GET_RECORDS, 7, 9, false),
            (GET_SHARD_ITERATOR, 9, 6, true),
            (GET_SHARD_ITERATOR, 9, 7, false),
            ("DynamoDB_20120810.GetItem", 6, 6, false),
        ] {
            let (status, body) = send(&trimmed, action, with_iterator(requested), returned).await;
            let is_rejected = status == StatusCode::BAD_REQUEST && body.contains("#TrimmedDataAccessException");
            let found = (is_rejected, status == StatusCode::OK);
            assert_eq!(found, (is_trimmed, !is_trimmed), "{action} {body}");
        }
    }

    #[tokio::test]
    async fn a_server_that_cannot_be_reached_is_an_error_that_clients_retry() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let (status, body) = answer(&Forward::new(closed, Arc::default()), GET_RECORDS, String::new()).await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(
            body.contains("#InternalServerError") && body.contains("cannot be reached"),
            "{body}"
        );
    }

    #[test]
    fn a_page_without_a_limit_gets_one() {
        let check = |body: &str, expected: &str| assert_eq!(with_limit(body.to_owned().into()), expected, "{body}");
        check(
            r#"{"TableName":"T","ExclusiveStartKey":{"N":{"N":"1.50"}}}"#,
            r#"{"TableName":"T","ExclusiveStartKey":{"N":{"N":"1.50"}},"Limit":10000}"#,
        );
        check(r#"{"Limit": 5, "TableName": "T"}"#, r#"{"Limit": 5, "TableName": "T"}"#);
        check("[1]", "[1]");
        check("{", "{");
    }

    #[test]
    fn reserved_names_are_found_at_each_position() {
        let document = testkit::hostile::overflow(120, 60);
        for (item, expected) in [
            (r#"{"A": {"S": "a"}}"#, false),
            (r#"{"A": {"S": "$serde_json::private::RawValue"}}"#, false),
            (r#"{"$serde_json::private::RawValue": {"S": "a"}}"#, true),
            (
                r#"{"A": {"M": {"\u0024serde_json::private::Number": {"S": "1"}}}}"#,
                true,
            ),
            (&format!(r#"{{"A": {document}}}"#), true),
            // The server reads the document before it finds the error.
            (&format!(r#"{{"A": {document}"#), true),
        ] {
            let body = format!(r#"{{"Item": {item}}}"#);
            assert_eq!(has_reserved_name(body.as_bytes()), expected, "{body}");
        }
    }
}
