//! HTTP client that records the requests of a command, and interrupts it at one of them.

use std::{
    mem,
    sync::{Arc, Mutex},
};

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

use crate::caller::{CALLER, lock};

/// Operation and body of a request. A request to S3 has a path instead.
pub(super) type Request = (String, Value);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interruption {
    /// The command is killed, and the request is not executed.
    KilledBefore,
    /// The command is killed after the request was executed.
    KilledAfter,
    /// The request is executed, and reported as failed.
    LostOnce,
    /// This request and all later ones are executed, and reported as failed.
    LostFromThenOn,
}

impl Interruption {
    pub(super) const ALL: [Self; 4] = [
        Self::KilledBefore,
        Self::KilledAfter,
        Self::LostOnce,
        Self::LostFromThenOn,
    ];
}

#[derive(Debug, Clone)]
pub(super) struct Recorder {
    inner: SharedHttpConnector,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    requests: Vec<Request>,
    interruption: Option<(usize, Interruption)>,
}

impl Recorder {
    pub(super) fn new(inner: impl HttpConnector + 'static) -> Self {
        Self {
            inner: SharedHttpConnector::new(inner),
            state: Arc::default(),
        }
    }

    /// Interrupts the command at the request with this index. Forgets the requests of earlier commands.
    pub(super) fn interrupt(&self, at: usize, interruption: Interruption) {
        *lock(&self.state) = State {
            requests: Vec::new(),
            interruption: Some((at, interruption)),
        };
    }

    pub(super) fn end_interruption(&self) {
        lock(&self.state).interruption = None;
    }

    /// Returns the requests since the last call.
    pub(super) fn take(&self) -> Vec<Request> {
        mem::take(&mut lock(&self.state).requests)
    }

    /// Records a request. Returns its interruption, if any.
    fn record(&self, request: &HttpRequest) -> Option<Interruption> {
        let named = match request.headers().get("x-amz-target") {
            Some(target) => {
                let body = request.body().bytes().unwrap_or_default();
                (target.to_owned(), serde_json::from_slice(body).unwrap_or_default())
            }
            None => (request.uri().to_owned(), Value::Null),
        };
        let mut state = lock(&self.state);
        let index = state.requests.len();
        state.requests.push(named);
        let (at, interruption) = state.interruption?;
        let is_due = index == at || (index > at && interruption == Interruption::LostFromThenOn);
        is_due.then_some(interruption)
    }

    async fn respond(self, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let interruption = self.record(&request);
        if interruption != Some(Interruption::KilledBefore) {
            let response = self.inner.call(request).await;
            match interruption {
                None => return response,
                Some(Interruption::LostOnce | Interruption::LostFromThenOn) => {
                    let status = StatusCode::try_from(500).map_err(|error| ConnectorError::user(error.into()))?;
                    let body = r#"{"__type": "com.amazonaws.dynamodb.v20120810#InternalServerError"}"#;
                    return Ok(HttpResponse::new(status, body.into()));
                }
                Some(_) => {}
            }
        }
        let _ = CALLER.try_with(|caller| caller.kill.notify_one());
        std::future::pending().await
    }
}

impl HttpConnector for Recorder {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        HttpConnectorFuture::new(self.clone().respond(request))
    }
}

impl HttpClient for Recorder {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}
