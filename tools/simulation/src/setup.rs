//! The settings of the functions and the AWS clients of a run.

use std::sync::atomic::{self, AtomicU64};

use aws_sdk_dynamodb::config::{BehaviorVersion, Region};
use shared::{
    config::{Config, Idempotency, Ordering, Window, WriteMode, WriteOptions},
    domain::{compression::Compression, keys::VersionDigits},
    dynamodb::client::ClientSettings,
};

use crate::{
    error::SimulationError,
    http::{self, Service},
    schedule::{Settings, TABLE},
};

/// Returns the configuration of the functions, that of a deployment with another width of version keys, and that of one with another
/// table of history.
pub(crate) fn deployments(settings: &Settings) -> Result<[Config; 3], SimulationError> {
    let (mut width, mut history) = (settings.clone(), settings.clone());
    width.digits += 1;
    history.own_history = !history.own_history;
    Ok([config(settings)?, config(&width)?, config(&history)?])
}

/// Returns the configuration of the functions.
pub(crate) fn config(settings: &Settings) -> Result<Config, SimulationError> {
    let digits = VersionDigits::new(settings.digits).ok_or(SimulationError::InvalidSetting("digits"))?;
    let mode = settings.write_mode.parse();
    let mode: WriteMode = mode.map_err(|_| SimulationError::InvalidSetting("write_mode"))?;
    Ok(Config {
        table: TABLE.to_owned(),
        history: settings.history(),
        attached: None,
        digits,
        compression: match settings.compresses {
            true => Compression::Deflate,
            false => Compression::None,
        },
        ordering: if settings.by_time {
            Ordering::Time
        } else {
            Ordering::Arrival
        },
        write: WriteOptions {
            mode,
            idempotency: match settings.window {
                Some(window) => {
                    Idempotency::Recent(Window::new(window).ok_or(SimulationError::InvalidSetting("window"))?)
                }
                None => Idempotency::Ledger,
            },
            skip_unchanged: settings.skip_unchanged,
        },
        time_index: settings.sealed,
        client: ClientSettings::default(),
    })
}

/// Returns a unique name. The SDK shares the retry quota among the clients of a partition, and runs must be independent.
pub(crate) fn partition() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("run-{}", NEXT.fetch_add(1, atomic::Ordering::Relaxed))
}

/// Creates the DynamoDB client of the functions, with the same timeouts and retries as on AWS.
pub(crate) fn dynamodb_client(service: &impl Service) -> aws_sdk_dynamodb::Client {
    let settings = ClientSettings::default();
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("us-east-1"))
        .allow_no_auth()
        .timeout_config(settings.timeouts())
        .retry_config(settings.retries())
        .retry_partition(aws_sdk_dynamodb::config::retry::RetryPartition::new(partition()))
        .http_client(http::client(service))
        .build();
    aws_sdk_dynamodb::Client::from_conf(config)
}
