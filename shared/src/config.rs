//! Settings from environment variables. No other module reads the environment.

mod attached;
mod write;

use std::str::FromStr;

use thiserror::Error;

pub use write::{
    Idempotency, InvalidIdempotency, InvalidOrdering, InvalidRetention, InvalidWindow, InvalidWriteMode, Ordering,
    Retention, Window, WriteMode, WriteOptions,
};

use crate::{
    domain::{attached::settings::AttachedSettings, compression::Compression, keys::VersionDigits},
    dynamodb::client::settings::ClientSettings,
};

/// Settings of both functions. `template.yaml` sets them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// `TABLE_NAME`: name of the versioned table.
    pub table: String,
    /// `HISTORY_TABLE_NAME`: table of history. Empty (default) or the same name: history is in the versioned table.
    pub history: Option<String>,
    /// The table, if other programs write it and stream-fn writes only its history: `ATTACHED_STREAM_ARN` is not empty.
    /// `VERSION_ATTRIBUTE` and `IGNORE_ATTRIBUTES` (names with commas between them, or a JSON list) are optional. It requires
    /// `HISTORY_TABLE_NAME`.
    pub attached: Option<AttachedSettings>,
    /// `VERSION_DIGITS`: minimum number of digits in a version's sort key. Default 1.
    pub digits: VersionDigits,
    /// `HISTORY_COMPRESSION`: `none` (default) or `deflate`, which requires `HISTORY_TABLE_NAME`.
    pub compression: Compression,
    /// `ORDERING`: `arrival` (default) or `time`.
    pub ordering: Ordering,
    /// `WRITE_MODE`: `stream` (default), `inline` or `transaction`. `SKIP_UNCHANGED`: `true` to skip updates that
    /// change nothing, default false. `IDEMPOTENCY`: `recent` (default) or `ledger`.
    pub write: WriteOptions,
    /// Retries and timeouts of requests to DynamoDB. `AWS_MAX_ATTEMPTS`: maximum number of attempts.
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
            history: variable("HISTORY_TABLE_NAME").filter(|name| !name.is_empty()),
            attached: attached::settings(&variable)?,
            digits: parse(&variable, "VERSION_DIGITS")?.unwrap_or_default(),
            compression: compression(&variable)?,
            ordering: parse(&variable, "ORDERING")?.unwrap_or_default(),
            write: WriteOptions {
                mode: parse(&variable, "WRITE_MODE")?.unwrap_or_default(),
                idempotency: idempotency(&variable)?,
                skip_unchanged: parse(&variable, "SKIP_UNCHANGED")?.unwrap_or_default(),
            },
            client: client(&variable, ClientSettings::default())?,
        })
    }
}

/// Reads `AWS_MAX_ATTEMPTS` from the environment. The other settings are those of `defaults`, and so is this one if it is not set.
///
/// # Errors
///
/// Returns [`ConfigError::Invalid`] if the variable is invalid.
pub fn client_settings(defaults: ClientSettings) -> Result<ClientSettings, ConfigError> {
    client(&variable, defaults)
}

fn client(variable: &impl Fn(&str) -> Option<String>, defaults: ClientSettings) -> Result<ClientSettings, ConfigError> {
    const NAME: &str = "AWS_MAX_ATTEMPTS";
    let text: Option<String> = parse(variable, NAME)?;
    let bounds = ClientSettings::ATTEMPTS;
    let attempts = text.map(|text| text.parse().ok().filter(|attempts| bounds.contains(attempts)));
    match attempts.unwrap_or(Some(defaults.max_attempts)) {
        Some(max_attempts) => Ok(ClientSettings {
            max_attempts,
            ..defaults
        }),
        None => Err(ConfigError::Invalid {
            name: NAME,
            reason: format!("expected a whole number from {} to {}", bounds.start(), bounds.end()),
        }),
    }
}

fn idempotency(variable: &impl Fn(&str) -> Option<String>) -> Result<Idempotency, ConfigError> {
    const NAME: &str = "IDEMPOTENCY";
    let name: String = parse(variable, NAME)?.unwrap_or_else(|| "recent".to_owned());
    Idempotency::named(&name, Window::default(), Retention::default()).map_err(|error| ConfigError::Invalid {
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
