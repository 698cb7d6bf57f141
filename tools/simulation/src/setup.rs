//! The settings and the clients of a run.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        OnceLock,
        atomic::{self, AtomicU64},
    },
};

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use local::{mapping::filter::Filters, template::Template};
use shared::{
    config::Config,
    domain::{keys::VersionDigits, ledger::Retention, recent_requests::Window, update::Ordering},
    dynamodb::{
        client,
        write::{Idempotency, WriteMode, WriteOptions},
    },
};

use crate::{
    schedule::Settings,
    wire::Wire,
    world::{Broken, TABLE},
};

/// The settings of both functions.
pub(crate) fn config(settings: &Settings) -> Result<Config, Broken> {
    let digits = VersionDigits::new(settings.digits).ok_or_else(|| Broken("digits".to_owned()))?;
    let mode: WriteMode = (settings.write_mode.parse()).map_err(|_| Broken("write mode".to_owned()))?;
    Ok(Config {
        table: TABLE.to_owned(),
        digits,
        ordering: if settings.by_time {
            Ordering::Time
        } else {
            Ordering::Arrival
        },
        write: WriteOptions {
            mode,
            idempotency: match settings.window {
                Some(window) => Idempotency::Recent(Window::new(window).ok_or_else(|| Broken("window".to_owned()))?),
                None => Idempotency::Ledger(Retention::default()),
            },
            skip_unchanged: settings.skip_unchanged,
        },
        log_keys: false,
    })
}

/// The filter of the template, by the width of version keys.
pub(crate) fn filters(digits: u8) -> Filters {
    static FILTERS: OnceLock<BTreeMap<u8, Filters>> = OnceLock::new();
    let all = FILTERS.get_or_init(|| {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../template.yaml"));
        let read = |digits: u8| {
            let parameters = [("VersionDigits".to_owned(), digits.to_string())];
            Template::read(path, &parameters).map(|template| template.mapping.filters)
        };
        [1, 2]
            .into_iter()
            .filter_map(|digits| Some((digits, read(digits).ok()?)))
            .collect()
    });
    all.get(&digits).cloned().unwrap_or_default()
}

/// A name that no other client has: the SDK shares what it may retry among all clients of a partition, and runs must not know
/// of each other.
fn partition() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("run-{}", NEXT.fetch_add(1, atomic::Ordering::Relaxed))
}

/// The client of the functions, with the waiting and the retries that they have on AWS.
pub(crate) fn dynamodb_client(wire: &Wire) -> aws_sdk_dynamodb::Client {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::for_tests())
        .timeout_config(client::timeouts())
        .retry_config(client::retries())
        .retry_partition(aws_sdk_dynamodb::config::retry::RetryPartition::new(partition()))
        .http_client(wire.clone())
        .build();
    aws_sdk_dynamodb::Client::from_conf(config)
}

pub(crate) fn streams_client(wire: &Wire) -> aws_sdk_dynamodbstreams::Client {
    let config = aws_sdk_dynamodbstreams::Config::builder()
        .behavior_version(aws_sdk_dynamodbstreams::config::BehaviorVersion::v2026_01_12())
        .region(aws_sdk_dynamodbstreams::config::Region::new("us-east-1"))
        .credentials_provider(aws_sdk_dynamodbstreams::config::Credentials::for_tests())
        .timeout_config(client::timeouts())
        .retry_config(client::retries())
        .retry_partition(aws_sdk_dynamodbstreams::config::retry::RetryPartition::new(partition()))
        .http_client(wire.clone())
        .build();
    aws_sdk_dynamodbstreams::Client::from_conf(config)
}
