//! HTTP clients of the SDK that answer requests in the same process.

use std::fmt;

use aws_smithy_runtime_api::{
    client::{
        http::{HttpConnector, HttpConnectorFuture, SharedHttpClient, SharedHttpConnector, http_client_fn},
        orchestrator::{HttpRequest, HttpResponse},
        result::ConnectorError,
    },
    http::StatusCode,
};
use serde_json::{Value, json};

/// A service.
pub(crate) trait Service: Clone + Send + Sync + 'static {
    fn respond(self, request: HttpRequest) -> impl Future<Output = Result<HttpResponse, ConnectorError>> + Send;
}

struct InProcess<S>(S);

impl<S> fmt::Debug for InProcess<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InProcess")
    }
}

impl<S: Service> HttpConnector for InProcess<S> {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        HttpConnectorFuture::new(self.0.clone().respond(request))
    }
}

/// Returns an HTTP client that sends all requests to a service.
pub(crate) fn client(service: &impl Service) -> SharedHttpClient {
    let connector = SharedHttpConnector::new(InProcess(service.clone()));
    http_client_fn(move |_, _| connector.clone())
}

/// Returns the operation of a request in the JSON of AWS.
pub(crate) fn operation(request: &HttpRequest) -> &str {
    let target = request.headers().get("x-amz-target").unwrap_or_default();
    target.rsplit('.').next().unwrap_or_default()
}

pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn ok(body: &Value) -> Self {
        let body = body.to_string();
        Self { status: 200, body }
    }

    pub(crate) fn error(status: u16, code: &str) -> Self {
        let body = json!({"__type": format!("com.amazonaws.dynamodb.v20120810#{code}")}).to_string();
        Self { status, body }
    }

    pub(crate) fn into_http(self) -> Result<HttpResponse, ConnectorError> {
        let status = StatusCode::try_from(self.status).map_err(|error| ConnectorError::user(error.into()))?;
        let mut response = HttpResponse::new(status, self.body.into());
        response.headers_mut().insert("x-amzn-requestid", "simulated");
        Ok(response)
    }
}
