//! DynamoDB without a server, whose response to a request follows from the request. A response can be late, or missing.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use aws_sdk_dynamodb::config::RuntimeComponents;
use aws_smithy_runtime_api::client::{
    http::{HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector},
    orchestrator::{HttpRequest, HttpResponse},
    result::ConnectorError,
};
use serde_json::Value;

/// Response to a request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// This body, after a time.
    After(Duration, Value),
    /// None. The connection stays open.
    Never,
    /// None. The connection is lost.
    Reset,
}

impl Reply {
    /// Returns this body at once. The status follows from `__type`, see [`Replay`](crate::replay::Replay::new).
    pub fn now(body: Value) -> Self {
        Self::After(Duration::ZERO, body)
    }

    /// A conditional check failure with the stored item, if there is one.
    pub fn rejected(stored: Option<Value>) -> Self {
        Self::now(super::replay::rejected(stored))
    }
}

type Script = dyn Fn(&str, &Value) -> Reply + Send + Sync;

/// HTTP client of this DynamoDB.
#[derive(Clone)]
pub struct Scripted {
    script: Arc<Script>,
    answered: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Scripted {
    /// Creates it with a function that gets the operation and the body of each request.
    pub fn new(script: impl Fn(&str, &Value) -> Reply + Send + Sync + 'static) -> Self {
        Self {
            script: Arc::new(script),
            answered: Arc::default(),
        }
    }

    /// Operation and body of each request whose response was sent, in the order of the responses.
    pub fn answered(&self) -> Vec<(String, Value)> {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn respond(self, operation: String, body: Value) -> Result<HttpResponse, ConnectorError> {
        match (self.script)(&operation, &body) {
            Reply::After(time, response) => {
                tokio::time::sleep(time).await;
                let answered = &mut self.answered.lock().unwrap_or_else(PoisonError::into_inner);
                answered.push((operation, body));
                let status = super::replay::status(&response);
                Ok(HttpResponse::new(status, response.to_string().into()))
            }
            Reply::Never => std::future::pending().await,
            Reply::Reset => Err(ConnectorError::io("connection reset".into())),
        }
    }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripted(..)")
    }
}

impl HttpConnector for Scripted {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (operation, body) = super::replay::content(&request);
        HttpConnectorFuture::new(self.clone().respond(operation, body))
    }
}

impl HttpClient for Scripted {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}
