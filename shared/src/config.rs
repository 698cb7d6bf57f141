//! Settings from environment variables. No other module reads the environment.

mod write;

use std::{collections::BTreeSet, fmt, str::FromStr};

use thiserror::Error;

pub use write::{Idempotency, MARKER_RETENTION, Ordering, Window, WriteMode, WriteOptions};

use crate::{
    domain::{attached::definition::AttachedSettings, compression::Compression, keys::VersionDigits},
    dynamodb::client::settings::ClientSettings,
    json,
};

/// Settings of both functions. `template.yaml` sets them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// `TABLE_NAME`: name of the versioned table.
    pub table: String,
    /// `HISTORY_TABLE_NAME`: table of history. Empty (default) or the same name: history is in the versioned table.
    pub history: Option<String>,
    /// The table, if other programs write it and stream-fn writes only its history: `ATTACHED_STREAM_ARN` is not empty.
    /// `VERSION_ATTRIBUTE`, `ACTOR_ATTRIBUTE`, `REASON_ATTRIBUTE`, `CHANGE_SET_ATTRIBUTE`, `IGNORE_ATTRIBUTES` (names with commas between
    /// them, or a JSON list) and `FILTER` (only stored with the definition) are optional. It requires `HISTORY_TABLE_NAME`.
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
    /// `TIME_INDEX`: `true` if the table that stores versions has the [index by time](crate::domain::time_index), default false.
    pub time_index: bool,
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
        let variables = Variables(&variable);
        let table = variables.text("TABLE_NAME").ok_or(ConfigError::NoTable)?;
        let history = variables.text(HISTORY_TABLE);
        let attached = variables.text(STREAM_ARN).map(|_| {
            let no_history = || ConfigError::invalid(HISTORY_TABLE, format!("it is required with {STREAM_ARN}"));
            Ok::<_, ConfigError>(AttachedSettings {
                table: table.clone(),
                history_table: Some(history.clone().ok_or_else(no_history)?),
                version_attribute: variables.text("VERSION_ATTRIBUTE"),
                actor_attribute: variables.text("ACTOR_ATTRIBUTE"),
                reason_attribute: variables.text("REASON_ATTRIBUTE"),
                change_set_attribute: variables.text("CHANGE_SET_ATTRIBUTE"),
                ignored: ignored(&variables.text(IGNORE_ATTRIBUTES).unwrap_or_default())?,
                filter: variables.text("FILTER"),
            })
        });
        let digits = variables.parse("VERSION_DIGITS")?;
        let compression = variables.parse(COMPRESSION)?;
        if compression == Compression::Deflate && history.as_ref().is_none_or(|history| *history == table) {
            let reason =
                "versions beside the latest items are not compressed: it requires a history table, HISTORY_TABLE_NAME";
            return Err(ConfigError::invalid(COMPRESSION, reason));
        }
        Ok(Self {
            table,
            history,
            attached: attached.transpose()?,
            digits,
            compression,
            ordering: variables.parse("ORDERING")?,
            write: WriteOptions {
                mode: variables.parse("WRITE_MODE")?,
                idempotency: variables.parse("IDEMPOTENCY")?,
                skip_unchanged: variables.parse("SKIP_UNCHANGED")?,
            },
            time_index: variables.parse("TIME_INDEX")?,
            client: client(&variables, ClientSettings::default())?,
        })
    }
}

const STREAM_ARN: &str = "ATTACHED_STREAM_ARN";
const HISTORY_TABLE: &str = "HISTORY_TABLE_NAME";
const IGNORE_ATTRIBUTES: &str = "IGNORE_ATTRIBUTES";
const COMPRESSION: &str = "HISTORY_COMPRESSION";
const MAX_ATTEMPTS: &str = "AWS_MAX_ATTEMPTS";

/// Reads names with commas between them, or a JSON list: a name can contain a comma.
fn ignored(text: &str) -> Result<BTreeSet<String>, ConfigError> {
    if text.trim_start().starts_with('[') {
        let names = json::elements(text).ok();
        let names = names.and_then(|names| names.into_iter().map(json::string).collect());
        return names.ok_or_else(|| ConfigError::invalid(IGNORE_ATTRIBUTES, "it is not a JSON list of names"));
    }
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    Ok(names.map(str::to_owned).collect())
}

/// Reads `AWS_MAX_ATTEMPTS` from the environment. The other settings are those of `defaults`, and so is this one if it is not set.
///
/// # Errors
///
/// Returns [`ConfigError::Invalid`] if the variable is invalid.
pub fn client_settings(defaults: ClientSettings) -> Result<ClientSettings, ConfigError> {
    client(&Variables(&variable), defaults)
}

fn client(variables: &Variables<'_>, defaults: ClientSettings) -> Result<ClientSettings, ConfigError> {
    let Some(text) = variables.text(MAX_ATTEMPTS) else {
        return Ok(defaults);
    };
    let bounds = ClientSettings::ATTEMPTS;
    match text.parse() {
        Ok(max_attempts) if bounds.contains(&max_attempts) => Ok(ClientSettings {
            max_attempts,
            ..defaults
        }),
        _ => {
            let reason = format!("expected a whole number from {} to {}", bounds.start(), bounds.end());
            Err(ConfigError::invalid(MAX_ATTEMPTS, reason))
        }
    }
}

/// Returns the CloudWatch namespace of metrics, `METRICS_NAMESPACE`, and the dimension that distinguishes stacks, `SERVICE_NAME`. `None`
/// if the namespace is empty or missing.
pub fn metrics() -> Option<(String, String)> {
    let variables = Variables(&variable);
    let service = variables.text("SERVICE_NAME");
    Some((
        variables.text("METRICS_NAMESPACE")?,
        service.unwrap_or_else(|| "version-control".to_owned()),
    ))
}

/// Returns the log level, `LOG_LEVEL`.
pub fn log_level() -> Option<String> {
    variable("LOG_LEVEL")
}

/// Returns an environment variable, `None` if it is missing or not Unicode.
#[allow(clippy::disallowed_methods, reason = "this module owns the environment")]
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Variables, by a function that returns their values.
struct Variables<'a>(&'a dyn Fn(&str) -> Option<String>);

impl Variables<'_> {
    /// Returns the value of a variable, `None` if it is missing or empty.
    fn text(&self, name: &str) -> Option<String> {
        (self.0)(name).filter(|value| !value.is_empty())
    }

    fn parse<T: FromStr<Err: fmt::Display> + Default>(&self, name: &'static str) -> Result<T, ConfigError> {
        match self.text(name).map(|value| value.parse()) {
            None => Ok(T::default()),
            Some(value) => value.map_err(|error: T::Err| ConfigError::invalid(name, error.to_string())),
        }
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

impl ConfigError {
    fn invalid(name: &'static str, reason: impl Into<String>) -> Self {
        Self::Invalid {
            name,
            reason: reason.into(),
        }
    }
}

#[cfg(test)]
mod tests;
