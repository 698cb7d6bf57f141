//! DynamoDB without a server: prepared responses, returned in order, and the requests that were sent for them.

use std::sync::atomic::{self, AtomicU64};

use aws_sdk_dynamodb::{
    Client, Config,
    config::{
        BehaviorVersion, Credentials, HttpClient, Region,
        http::{HttpRequest, HttpResponse},
        retry::RetryPartition,
    },
};
use aws_smithy_http_client::test_util::{ReplayEvent, StaticReplayClient};
use aws_smithy_runtime_api::http::StatusCode;
use serde_json::{Value, json};
use shared::{
    config::{Config as Settings, Ordering, WriteOptions},
    domain::{compression::Compression, keys::VersionDigits},
    dynamodb::client::ClientSettings,
};

pub use aws_smithy_http_client::test_util::NeverClient;

#[derive(Debug, Clone)]
pub struct Replay(StaticReplayClient);

impl Replay {
    /// Returns these bodies in order. The status follows from `__type`: 200 without one, 500 for `InternalServerError`, 400 for any other error.
    pub fn new(bodies: impl IntoIterator<Item = Value>) -> Self {
        let events = bodies.into_iter().map(|body| {
            let response = HttpResponse::new(status(&body), body.to_string().into());
            ReplayEvent::new(HttpRequest::empty(), response)
        });
        Self(StaticReplayClient::new(events.collect()))
    }

    pub fn http(&self) -> StaticReplayClient {
        self.0.clone()
    }

    pub fn client(&self) -> Client {
        client(self.http())
    }

    /// Operation and body of each request, in order.
    pub fn requests(&self) -> Vec<(String, Value)> {
        self.0.actual_requests().map(content).collect()
    }

    pub fn operations(&self) -> Vec<String> {
        self.requests().into_iter().map(|(operation, _)| operation).collect()
    }

    pub fn bodies(&self) -> Vec<Value> {
        self.requests().into_iter().map(|(_, body)| body).collect()
    }
}

/// Sends one request through the real client, and returns its operation and body.
pub async fn sent<T>(send: impl AsyncFnOnce(Client) -> T) -> Value {
    sent_after(&[], send).await
}

/// Sends requests through the real client, with these responses to the first ones, and returns operation and body of the last one.
pub async fn sent_after<T>(before: &[Value], send: impl AsyncFnOnce(Client) -> T) -> Value {
    let replay = Replay::new(before.iter().cloned().chain([json!({})]));
    let _ = send(replay.client()).await;
    let (operation, mut body) = replay.requests().remove(before.len());
    // The SDK sends the members of a map in any order, and makes up a token for each transaction.
    body.sort_all_objects();
    if body.get("ClientRequestToken").is_some() {
        body["ClientRequestToken"] = json!("token");
    }
    json!({ format!("DynamoDB_20120810.{operation}"): body })
}

/// Returns the status of a response with this body.
pub(crate) fn status(body: &Value) -> StatusCode {
    let status: u16 = match body["__type"].as_str() {
        None => 200,
        Some(error) if error.ends_with("InternalServerError") => 500,
        Some(_) => 400,
    };
    status.try_into().unwrap()
}

/// Returns operation and body of a request.
pub(crate) fn content(request: &HttpRequest) -> (String, Value) {
    let target = request.headers().get("x-amz-target").unwrap();
    let (_, operation) = target.rsplit_once('.').unwrap();
    let body = shared::json::parse_bytes(request.body().bytes().unwrap()).unwrap();
    (operation.to_owned(), body)
}

/// Returns a conditional check failure with the stored item, if there is one.
pub fn rejected(stored: Option<Value>) -> Value {
    let mut body = json!({"__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"});
    if let Some(stored) = stored {
        body["Item"] = stored;
    }
    body
}

/// Returns the item identifiers of the batch item failures in a function's response.
pub fn failures(response: &Value) -> Vec<String> {
    let failures = response["batchItemFailures"].as_array().unwrap().iter();
    let ids = failures.map(|failure| failure["itemIdentifier"].as_str().unwrap());
    ids.map(str::to_owned).collect()
}

/// Client of DynamoDB over this HTTP client, with the default timeouts and retries of the functions.
pub fn client(http: impl HttpClient + 'static) -> Client {
    client_with(&ClientSettings::default(), http)
}

/// Client of DynamoDB over this HTTP client, with these timeouts and retries.
pub fn client_with(settings: &ClientSettings, http: impl HttpClient + 'static) -> Client {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("eu-central-1"))
        .credentials_provider(Credentials::for_tests())
        .timeout_config(settings.timeouts())
        .retry_config(settings.retries())
        .retry_partition(partition())
        .http_client(http);
    Client::from_conf(config.build())
}

/// Returns a unique partition: the clients of one share the retry quota and the rate limit of adaptive mode.
fn partition() -> RetryPartition {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    RetryPartition::new(format!("client-{}", NEXT.fetch_add(1, atomic::Ordering::Relaxed)))
}

pub fn settings() -> Settings {
    Settings {
        table: "Table".to_owned(),
        history: None,
        attached: None,
        digits: VersionDigits::default(),
        compression: Compression::None,
        ordering: Ordering::Arrival,
        write: WriteOptions::default(),
        time_index: false,
        client: ClientSettings::default(),
    }
}
