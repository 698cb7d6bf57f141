//! Settings from environment variables. No other module reads the environment.

mod attached;

use std::{ops::RangeInclusive, str::FromStr, time::Duration};

use aws_config::retry::RetryMode;
use thiserror::Error;

use crate::{
    domain::{
        attached::AttachedTable, compression::Compression, keys::VersionDigits, ledger::Retention, update::Ordering,
    },
    dynamodb::{
        HistoryTable,
        client::settings::ClientSettings,
        write::modes::{Idempotency, WriteOptions},
    },
};

/// Settings of both functions. `template.yaml` sets them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// `TABLE_NAME`: name of the versioned table.
    pub table: String,
    /// `HISTORY_TABLE_NAME`: table of history. Empty (default) or the same name: history is in the versioned table. It counts as
    /// migrating until the function reads the layout of the versioned table.
    pub history: Option<HistoryTable>,
    /// The table, if other programs write it and stream-fn writes only its history: `ATTACHED_PARTITION_KEY` and
    /// `ATTACHED_PARTITION_KEY_TYPE` (`S`, `N` or `B`), `ATTACHED_SORT_KEY` and `ATTACHED_SORT_KEY_TYPE` if there is a sort key,
    /// `VERSION_ATTRIBUTE` and `IGNORE_ATTRIBUTES` (optional; names with commas between them, or a JSON list). It requires
    /// `HISTORY_TABLE_NAME`.
    pub attached: Option<AttachedTable>,
    /// `VERSION_DIGITS`: minimum number of digits in a version's sort key. Default 1.
    pub digits: VersionDigits,
    /// `HISTORY_COMPRESSION`: `none` (default) or `deflate`, which requires `HISTORY_TABLE_NAME`.
    pub compression: Compression,
    /// `ORDERING`: `arrival` (default) or `time`.
    pub ordering: Ordering,
    /// `WRITE_MODE`: `stream` (default), `inline` or `transaction`. `SKIP_UNCHANGED`: `true` to skip updates that
    /// change nothing, default false. `IDEMPOTENCY`: `recent` (default), with `IDEMPOTENCY_WINDOW` (10), or `ledger`, with
    /// `LEDGER_TTL_DAYS` (15). `TOMBSTONE_TTL_DAYS`: days until a tombstone expires, 0 (default) to keep it.
    pub write: WriteOptions,
    /// `RECORD_SENDER`: `false` to not store the sender that the platform reports. Default true.
    pub record_sender: bool,
    /// `LOG_KEYS`: `true` to log partition keys instead of their hashes. Default false.
    pub log_keys: bool,
    /// Retries and timeouts of requests to DynamoDB. Its members name their variables.
    pub client: ClientSettings,
}

impl Config {
    /// Reads the settings from the environment.
    ///
    /// # Errors
    ///
    /// Returns [`ConfigError`] if `TABLE_NAME` is not set or a variable is invalid.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::from_variables(variable)
    }

    /// Reads the settings from variables with these values, such as those of a function in `template.yaml`.
    ///
    /// # Errors
    ///
    /// As [`Self::from_env`].
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        Ok(Self {
            table: variable("TABLE_NAME")
                .filter(|table| !table.is_empty())
                .ok_or(ConfigError::NoTable)?,
            history: variable("HISTORY_TABLE_NAME")
                .filter(|name| !name.is_empty())
                .map(|name| HistoryTable {
                    name,
                    is_migrating: true,
                }),
            attached: attached::table(&variable)?,
            digits: parse(&variable, "VERSION_DIGITS")?.unwrap_or_default(),
            compression: compression(&variable)?,
            ordering: parse(&variable, "ORDERING")?.unwrap_or_default(),
            write: WriteOptions {
                mode: parse(&variable, "WRITE_MODE")?.unwrap_or_default(),
                idempotency: idempotency(&variable)?,
                skip_unchanged: parse(&variable, "SKIP_UNCHANGED")?.unwrap_or_default(),
                tombstone_ttl: tombstone_ttl(&variable)?,
            },
            record_sender: parse(&variable, "RECORD_SENDER")?.unwrap_or(true),
            log_keys: parse(&variable, "LOG_KEYS")?.unwrap_or_default(),
            client: client(&variable, ClientSettings::default())?,
        })
    }
}

/// Reads the retries and timeouts of a client from the environment. Variables that are not set keep the values of `defaults`.
///
/// # Errors
///
/// Returns [`ConfigError::Invalid`] if a variable is invalid.
pub fn client_settings(defaults: ClientSettings) -> Result<ClientSettings, ConfigError> {
    client(&variable, defaults)
}

fn client(variable: &impl Fn(&str) -> Option<String>, defaults: ClientSettings) -> Result<ClientSettings, ConfigError> {
    const ATTEMPT: &str = "ATTEMPT_TIMEOUT_MS";
    const OPERATION: &str = "OPERATION_TIMEOUT_MS";
    let timeout = |name, default| {
        let millis = whole(variable, name, ClientSettings::TIMEOUT_MILLIS)?;
        Ok(millis.map_or(default, Duration::from_millis))
    };
    let attempts = whole(variable, "AWS_MAX_ATTEMPTS", ClientSettings::ATTEMPTS)?;
    let settings = ClientSettings {
        retry_mode: retry_mode(variable)?.unwrap_or(defaults.retry_mode),
        max_attempts: attempts.unwrap_or(defaults.max_attempts),
        connect_timeout: timeout("CONNECT_TIMEOUT_MS", defaults.connect_timeout)?,
        read_timeout: timeout("READ_TIMEOUT_MS", defaults.read_timeout)?,
        attempt_timeout: timeout(ATTEMPT, defaults.attempt_timeout)?,
        operation_timeout: timeout(OPERATION, defaults.operation_timeout)?,
    };
    let (attempt, operation) = (settings.attempt_timeout, settings.operation_timeout);
    if attempt > operation {
        return Err(ConfigError::Invalid {
            name: ATTEMPT,
            reason: format!(
                "{} is greater than {OPERATION}, {}",
                attempt.as_millis(),
                operation.as_millis()
            ),
        });
    }
    Ok(settings)
}

fn retry_mode(variable: &impl Fn(&str) -> Option<String>) -> Result<Option<RetryMode>, ConfigError> {
    const NAME: &str = "AWS_RETRY_MODE";
    let name: Option<String> = parse(variable, NAME)?;
    // The SDK's message has several lines.
    let mode = name.map(|name| name.parse().map_err(|_| "expected standard or adaptive"));
    mode.transpose().map_err(|reason| ConfigError::Invalid {
        name: NAME,
        reason: reason.to_owned(),
    })
}

fn whole<T: TryFrom<u64>>(
    variable: &impl Fn(&str) -> Option<String>,
    name: &'static str,
    bounds: RangeInclusive<u64>,
) -> Result<Option<T>, ConfigError> {
    let text: Option<String> = parse(variable, name)?;
    let number = |text: String| {
        text.parse()
            .ok()
            .filter(|number| bounds.contains(number))?
            .try_into()
            .ok()
    };
    let invalid = || ConfigError::Invalid {
        name,
        reason: format!("expected a whole number from {} to {}", bounds.start(), bounds.end()),
    };
    text.map(|text| number(text).ok_or_else(invalid)).transpose()
}

fn idempotency(variable: &impl Fn(&str) -> Option<String>) -> Result<Idempotency, ConfigError> {
    const NAME: &str = "IDEMPOTENCY";
    let name: String = parse(variable, NAME)?.unwrap_or_else(|| "recent".to_owned());
    let window = parse(variable, "IDEMPOTENCY_WINDOW")?.unwrap_or_default();
    let retention = parse(variable, "LEDGER_TTL_DAYS")?.unwrap_or_default();
    Idempotency::named(&name, window, retention).map_err(|error| ConfigError::Invalid {
        name: NAME,
        reason: error.to_string(),
    })
}

fn compression(variable: &impl Fn(&str) -> Option<String>) -> Result<Compression, ConfigError> {
    const NAME: &str = "HISTORY_COMPRESSION";
    let compression = parse(variable, NAME)?.unwrap_or_default();
    let history = variable("HISTORY_TABLE_NAME").filter(|name| !name.is_empty());
    let is_own = history.is_some() && history != variable("TABLE_NAME");
    match compression == Compression::None || is_own {
        true => Ok(compression),
        false => Err(ConfigError::Invalid {
            name: NAME,
            reason:
                "versions beside the latest items are not compressed: it requires a history table, HISTORY_TABLE_NAME"
                    .to_owned(),
        }),
    }
}

fn tombstone_ttl(variable: &impl Fn(&str) -> Option<String>) -> Result<Option<Retention>, ConfigError> {
    const NAME: &str = "TOMBSTONE_TTL_DAYS";
    let variable = |name: &str| variable(name).filter(|days| days != "0");
    parse(&variable, NAME)
}

/// Destination of metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metrics {
    /// `METRICS_NAMESPACE`: CloudWatch namespace.
    pub namespace: String,
    /// `SERVICE_NAME`: dimension that distinguishes stacks.
    pub service: String,
}

/// Returns the destination of metrics, `None` if `METRICS_NAMESPACE` is empty or missing.
pub fn metrics() -> Option<Metrics> {
    Some(Metrics {
        namespace: variable("METRICS_NAMESPACE").filter(|namespace| !namespace.is_empty())?,
        service: service_name(),
    })
}

/// Returns `SERVICE_NAME`, the name of the stack in metrics.
pub fn service_name() -> String {
    let name = variable("SERVICE_NAME").filter(|name| !name.is_empty());
    name.unwrap_or_else(|| "version-control".to_owned())
}

/// Returns the log level, `AWS_LAMBDA_LOG_LEVEL`, which Lambda's logging controls set.
pub fn log_level() -> Option<String> {
    variable("AWS_LAMBDA_LOG_LEVEL")
}

#[allow(clippy::disallowed_methods, reason = "this module owns the environment")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn parse<T: FromStr>(variable: &impl Fn(&str) -> Option<String>, name: &'static str) -> Result<Option<T>, ConfigError>
where
    T::Err: std::fmt::Display,
{
    match variable(name).filter(|value| !value.is_empty()) {
        None => Ok(None),
        Some(value) => value.parse().map(Some).map_err(|error: T::Err| ConfigError::Invalid {
            name,
            reason: error.to_string(),
        }),
    }
}

/// Reason why the environment has no valid settings.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// `TABLE_NAME` has no default.
    #[error("the environment variable TABLE_NAME is not set")]
    NoTable,
    /// A variable has an invalid value.
    #[error("the environment variable {name} cannot be read: {reason}")]
    Invalid {
        /// Name of the variable.
        name: &'static str,
        /// Reason.
        reason: String,
    },
}

#[cfg(test)]
mod tests;
