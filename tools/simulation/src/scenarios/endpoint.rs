//! HTTP client of the SDK that passes requests to a handler in the same process.

use std::{fmt, sync::Arc};

use aws_sdk_dynamodb::config::RuntimeComponents;
use aws_smithy_runtime_api::{
    client::{
        http::{HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector},
        orchestrator::{HttpRequest, HttpResponse},
        result::ConnectorError,
    },
    http::StatusCode,
};
use serde_json::Value;
use tokio::time::sleep;

use super::REQUEST;
use crate::database::Response;

/// A service that answers requests in the JSON of the DynamoDB API.
pub(super) trait Handler: Send + Sync + 'static {
    fn respond(&self, operation: &str, body: Value) -> Response;
}

pub(super) struct Endpoint<H>(pub(super) Arc<H>);

impl<H> Clone for Endpoint<H> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<H> fmt::Debug for Endpoint<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Endpoint")
    }
}

async fn respond<H: Handler>(handler: Arc<H>, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
    let target = request.headers().get("x-amz-target").unwrap_or_default();
    let operation = target.rsplit('.').next().unwrap_or_default();
    let body = request.body().bytes().unwrap_or_default();
    let body = serde_json::from_slice(body).map_err(|error| ConnectorError::user(error.into()))?;
    sleep(REQUEST / 2).await;
    let response = handler.respond(operation, body);
    sleep(REQUEST / 2).await;
    let status = StatusCode::try_from(response.status).map_err(|error| ConnectorError::user(error.into()))?;
    Ok(HttpResponse::new(status, response.body.into()))
}

impl<H: Handler> HttpConnector for Endpoint<H> {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        HttpConnectorFuture::new(respond(Arc::clone(&self.0), request))
    }
}

impl<H: Handler> HttpClient for Endpoint<H> {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}
