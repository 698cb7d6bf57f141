//! S3 and KMS in the same process, so that tests use the real SDK clients, and kill their user between two requests.
//!
//! A [`Cloud`] has buckets and keys. A [`Process`] is a program that sends requests to it, until a fault kills it. S3 executes one
//! request after the other, and reads are consistent. A request to another service, such as DynamoDB, passes through the same script, and
//! then to the HTTP client of the wrapped configuration.

mod kms;
mod request;
mod s3;

use std::{
    collections::BTreeMap,
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use aws_config::{BehaviorVersion, Region, SdkConfig, retry::RetryConfig};
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use aws_smithy_runtime_api::client::{
    http::{HttpClient as _, HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn},
    orchestrator::{HttpRequest, HttpResponse},
    result::ConnectorError,
};
use ring::signature::Ed25519KeyPair;

use self::s3::Bucket;
pub use self::{request::Request, s3::Version};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Status and code of an error before the request has an effect.
    Rejected(u16, &'static str),
    /// No response, which the SDK retries or not. The request is executed or not.
    Lost { executed: bool, retried: bool },
    /// The process ends with this request.
    Killed { executed: bool },
}

impl Fault {
    /// The SDK retries it.
    pub const THROTTLED: Self = Self::Rejected(503, "SlowDown");
    /// S3 executes another write of the key. The SDK does not retry it.
    pub const CONFLICT: Self = Self::Rejected(409, "ConditionalRequestConflict");

    /// Draws a fault that does not end the process.
    pub fn draw(rng: &mut fastrand::Rng) -> Self {
        let (executed, retried) = (rng.bool(), rng.bool());
        [Self::THROTTLED, Self::CONFLICT, Self::Lost { executed, retried }][rng.usize(..3)]
    }
}

/// Returns the fault of a request, which waits for it.
type Script = dyn FnMut(&Request) -> Pin<Box<dyn Future<Output = Option<Fault>> + Send>> + Send;

#[derive(Clone, Default)]
pub struct Cloud(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    buckets: BTreeMap<String, Bucket>,
    keys: BTreeMap<String, Ed25519KeyPair>,
    requests: Vec<Request>,
    /// Scripts of the processes. `None` for a killed process.
    processes: Vec<Option<Box<Script>>>,
}

impl State {
    fn respond(&mut self, request: &Request, body: Option<&[u8]>) -> HttpResponse {
        match self.buckets.get_mut(&request.bucket) {
            Some(bucket) => bucket.respond(request, body),
            None if request.is_s3() => request.error(404, "NoSuchBucket"),
            None => kms::respond(&self.keys, request, body.unwrap_or_default()),
        }
    }
}

impl Cloud {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a bucket: either with Object Lock and versions, or without both.
    pub fn create_bucket(&self, name: &str, is_locked: bool) {
        let objects = BTreeMap::new();
        self.state()
            .buckets
            .insert(name.to_owned(), Bucket { is_locked, objects });
    }

    pub fn create_key(&self, id: &str, seed: &[u8; 32]) {
        let key = Ed25519KeyPair::from_seed_unchecked(seed).unwrap();
        self.state().keys.insert(id.to_owned(), key);
    }

    /// Starts a program. Each request calls the script, and waits for its future, which can run other processes. The script itself
    /// does not use the cloud.
    pub fn process<F>(&self, mut script: impl FnMut(&Request) -> F + Send + 'static) -> Process
    where
        F: Future<Output = Option<Fault>> + Send + 'static,
    {
        let processes = &mut self.state().processes;
        processes.push(Some(Box::new(move |request| Box::pin(script(request)))));
        let (cloud, number) = (self.clone(), processes.len() - 1);
        Process {
            cloud,
            number,
            others: None,
        }
    }

    /// Requests of all processes, in the order in which they were sent.
    pub fn requests(&self) -> Vec<Request> {
        self.state().requests.clone()
    }

    /// Returns the current objects of a bucket, by key.
    pub fn objects(&self, bucket: &str) -> BTreeMap<String, Vec<u8>> {
        let bucket = &self.state().buckets[bucket];
        let current = |key: &String| Some((key.clone(), bucket.find(key, None)?.1.to_vec()));
        bucket.objects.keys().filter_map(current).collect()
    }

    /// Returns the versions of an object, from the oldest to the current one.
    pub fn versions(&self, bucket: &str, key: &str) -> Vec<Version> {
        self.state().buckets[bucket]
            .objects
            .get(key)
            .cloned()
            .unwrap_or_default()
    }
}

#[derive(Clone)]
pub struct Process {
    cloud: Cloud,
    number: usize,
    others: Option<SharedHttpConnector>,
}

impl Process {
    pub fn is_killed(&self) -> bool {
        self.cloud.state().processes[self.number].is_none()
    }

    /// Returns a configuration for clients of S3 and KMS, with three attempts and hardly a wait between them.
    pub fn config(&self) -> SdkConfig {
        // The clients of a Region share the retry quota.
        let region = Region::new(format!("region-{}", fastrand::u64(..)));
        let credentials = Credentials::new("test", "test", None, None, "test");
        let config = SdkConfig::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(region)
            .credentials_provider(SharedCredentialsProvider::new(credentials))
            .retry_config(RetryConfig::standard().with_initial_backoff(Duration::from_millis(1)));
        self.wrap(&config.build())
    }

    /// Returns a configuration for clients of another service, which this configuration reaches.
    pub fn wrap(&self, config: &SdkConfig) -> SdkConfig {
        let (process, inner) = (self.clone(), config.http_client());
        let client = http_client_fn(move |settings, components| {
            let others = inner.as_ref().map(|inner| inner.http_connector(settings, components));
            SharedHttpConnector::new(Self {
                others,
                ..process.clone()
            })
        });
        config.to_builder().http_client(client).build()
    }

    async fn respond(self, http: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let lost = || ConnectorError::other("no response".into(), None);
        let mut request = Request::read(&http);
        request.process = self.number;
        let fault = {
            let state = &mut *self.cloud.state();
            request.number = state.requests.iter().filter(|sent| sent.process == self.number).count();
            let script = state.processes[self.number].as_mut().ok_or_else(lost)?;
            state.requests.push(request.clone());
            script(&request)
        };
        let fault = fault.await;
        if self.is_killed() {
            return Err(lost());
        }
        let executed = match fault {
            None => true,
            Some(Fault::Rejected(status, code)) => return Ok(request.error(status, code)),
            Some(Fault::Lost { executed, .. }) => executed,
            Some(Fault::Killed { executed }) => {
                self.cloud.state().processes[self.number] = None;
                executed
            }
        };
        let response = match &self.others {
            _ if !executed => Err(lost()),
            Some(others) if request.is_other() => others.call(http).await,
            _ => Ok(self.cloud.state().respond(&request, http.body().bytes())),
        };
        match fault {
            None => response,
            Some(Fault::Lost { retried: true, .. }) => Err(ConnectorError::timeout("no response".into())),
            Some(_) => Err(lost()),
        }
    }
}

impl HttpConnector for Process {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        HttpConnectorFuture::new(self.clone().respond(request))
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Process({})", self.number)
    }
}
