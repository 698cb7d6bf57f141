//! seal-fn beside the functions: its own code, with a log in buckets of the same process.
//!
//! Each run is an instance of its own, which faults can kill at any request. Requests to DynamoDB go to the connector, others to the buckets
//! and the key in memory, with faults of their own.

use std::time::Duration;

use aws_config::{Region, SdkConfig, stalled_stream_protection::StalledStreamProtectionConfig};
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, SharedCredentialsProvider};
use aws_smithy_runtime_api::{
    client::{
        http::HttpConnector as _,
        orchestrator::{HttpRequest, HttpResponse},
        result::ConnectorError,
    },
    http::StatusCode,
};
use sealing::{
    error::SealError,
    sealer::{Sealed, Sealer as SealFunction},
    settings::{LogPlace, Settings},
};
use shared::dynamodb::client::ClientSettings;
use testkit::cloud::{Cloud, Process};
use tokio::time::{Instant, sleep};

use crate::{
    caller::{Author, Caller},
    clock::Clock,
    connector::{Connector, InjectedPanic, SLOW, TOO_LATE, killed},
    database::create_table,
    error::SimulationError,
    faults::{FaultKind, Point},
    functions::process,
    http::{self, Service},
    mutation::sealing::{change_request, change_response, is_publication},
    schedule::{KEYS, STATE, TABLE},
    setup::{dynamodb_client, partition},
};

/// Bucket of the log.
pub(crate) const LOG: &str = "log";
/// Bucket of the staged batches.
pub(crate) const STAGING: &str = "staging";
const KEY: &str = "key";
/// Timeout of the function.
const TIMEOUT: Duration = Duration::from_secs(300);

/// seal-fn, and its buckets.
pub(crate) struct Sealer {
    pub(crate) cloud: Cloud,
    bucket: Process,
    connector: Connector,
    clock: Clock,
}

/// The services that one instance calls.
#[derive(Clone)]
struct Services {
    connector: Connector,
    bucket: Process,
}

impl Sealer {
    pub(crate) fn new(connector: &Connector, clock: Clock) -> Result<Self, SimulationError> {
        for table in [STATE, KEYS] {
            create_table(&connector.database, table, &["PK", "SK"], None, false)?;
        }
        let cloud = Cloud::default();
        cloud.create_bucket(LOG, true);
        cloud.create_bucket(STAGING, false);
        cloud.create_key(KEY, &[7; 32]);
        Ok(Self {
            bucket: cloud.process(|_| std::future::ready(None)),
            cloud,
            connector: connector.clone(),
            clock,
        })
    }

    /// Runs an instance. Returns the number of leaves; `None` if it was killed.
    pub(crate) async fn run(&self) -> Option<Result<u64, SealError>> {
        let run = async {
            let mut sealed = Sealed::default();
            let function = Box::pin(self.start()).await?;
            function.run(Instant::now() + TIMEOUT / 2, &mut sealed).await?;
            Ok(sealed.leaves)
        };
        process(&Caller::new(Author::Sealer), TIMEOUT, run).await.ok()
    }

    /// Starts an instance.
    pub(crate) async fn start(&self) -> Result<SealFunction, SealError> {
        let services = Services {
            connector: self.connector.clone(),
            bucket: self.bucket.clone(),
        };
        let sdk = SdkConfig::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new(partition()))
            .credentials_provider(SharedCredentialsProvider::new(Credentials::for_tests()))
            .timeout_config(ClientSettings::default().timeouts())
            .retry_config(ClientSettings::default().retries())
            // It measures with the clock of the machine.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .http_client(http::client(&services))
            .build();
        let settings = Settings {
            tables: vec![(TABLE.to_owned(), None)],
            state: STATE.to_owned(),
            keys: KEYS.to_owned(),
            origin: "example.com/log".to_owned(),
            place: LogPlace::Bucket {
                log: LOG.to_owned(),
                staging: STAGING.to_owned(),
                key: KEY.to_owned(),
                mode: Some("COMPLIANCE".to_owned()),
                days: (10, 1),
            },
        };
        let mut function = settings.sealer(&sdk, &dynamodb_client(&services)).await?;
        function.clock = self.clock.of_library();
        Ok(function)
    }
}

impl Services {
    /// Executes a request to S3 or KMS. The mutation may change both.
    async fn execute(&self, mut request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let uri = request.uri().to_owned();
        change_request(self.connector.mutations, &mut request);
        let mut response = self.bucket.call(request).await?;
        change_response(self.connector.mutations, &uri, &mut response);
        Ok(response)
    }

    /// Responds to a request to S3 or KMS, with its fault.
    async fn of_cloud(self, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        // Only an instance can be killed, and not what starts or reads without one.
        let point = match is_publication(&request) {
            true => Point::Publish,
            false => Point::Seal,
        };
        let fault = Caller::current().and_then(|_| self.connector.fault(point));
        self.connector.delay().await;
        let is_executed = match fault {
            None => return self.execute(request).await,
            Some(FaultKind::TransactionConflict) if request.method() == "PUT" => {
                return error(409, "ConditionalRequestConflict");
            }
            Some(FaultKind::Throttled | FaultKind::TransactionConflict) => return error(503, "SlowDown"),
            Some(FaultKind::Slow) => {
                let millis = self.connector.draw(|rng| rng.u64(SLOW));
                sleep(Duration::from_millis(millis)).await;
                return self.execute(request).await;
            }
            Some(FaultKind::Delayed) => {
                let wait = Duration::from_secs(self.connector.draw(|rng| rng.u64(3..600)));
                self.connector.clone().run_late(async move {
                    sleep(wait).await;
                    let _ = self.execute(request).await;
                });
                return std::future::pending().await;
            }
            Some(fault) => matches!(
                fault,
                FaultKind::ErrorAfter | FaultKind::ResponseDropped | FaultKind::TimeOut | FaultKind::KilledAfter
            ),
        };
        if is_executed {
            self.execute(request).await?;
        }
        match fault {
            Some(FaultKind::ErrorBefore | FaultKind::ErrorAfter) => error(500, "InternalError"),
            Some(FaultKind::KilledBefore | FaultKind::KilledAfter) => killed().await,
            Some(FaultKind::Panic) => std::panic::panic_any(InjectedPanic),
            Some(FaultKind::TimeOut) => {
                sleep(TOO_LATE).await;
                error(500, "InternalError")
            }
            Some(FaultKind::Hang) => std::future::pending().await,
            _ => Err(ConnectorError::io("the connection was reset".into())),
        }
    }
}

/// Returns an error of S3. KMS is not asked in between, and its clients read the status only.
fn error(status: u16, code: &str) -> Result<HttpResponse, ConnectorError> {
    let status = StatusCode::try_from(status).map_err(|error| ConnectorError::user(error.into()))?;
    let body = format!("<Error><Code>{code}</Code></Error>");
    Ok(HttpResponse::new(status, body.into()))
}

impl Service for Services {
    async fn respond(self, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        if !target.starts_with("DynamoDB") {
            return self.of_cloud(request).await;
        }
        self.connector.respond(request).await
    }
}
