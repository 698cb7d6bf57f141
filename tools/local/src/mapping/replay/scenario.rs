//! The input of a replay, with Lambda's names and defaults.

use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;

use crate::mapping::{
    filter::Filters,
    settings::{InvalidSettings, Settings, StartingPosition},
};

/// Settings, records, and the behaviour of the function and the destination.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    #[serde(default)]
    pub settings: MappingSettings,
    /// Records in stream order.
    pub records: Vec<StreamRecord>,
    pub function: Function,
    /// `None`: records that fail are dropped.
    #[serde(default)]
    pub destination: Option<DestinationKind>,
    /// Seconds from the start of the mapping to its first read.
    #[serde(default)]
    pub startup: u32,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StreamRecord {
    /// `true` if the function cannot process the record.
    pub bad: bool,
    /// Age in seconds at the start of the mapping.
    pub age: u32,
    /// Seconds from the start of the mapping until the record is put.
    pub at: u32,
    /// Item that the record changes. Without it, an item that no other record changes.
    pub item: Option<String>,
    /// Number of bytes that the record has in addition.
    pub padding: u32,
}

/// Behaviour of the function with a batch that contains a bad record. It processes all other batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Function {
    /// It fails.
    Raise,
    /// It returns the bad records as batch item failures.
    Partial,
    /// It returns a batch item failure with an empty `itemIdentifier`.
    EmptyIdentifier,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DestinationKind {
    /// Documents contain the records.
    S3,
    /// Documents contain only the position of the records.
    Sqs,
    /// Every document is refused.
    Denied,
}

/// Settings of a mapping by Lambda's names. -1 is unlimited.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields, default)]
pub struct MappingSettings {
    batch_size: usize,
    maximum_batching_window_in_seconds: u64,
    parallelization_factor: usize,
    bisect_batch_on_function_error: bool,
    maximum_retry_attempts: i64,
    maximum_record_age_in_seconds: i64,
    function_response_types: Vec<ResponseType>,
    /// Short for the only value of `FunctionResponseTypes`.
    report_batch_item_failures: bool,
    filter_criteria: FilterCriteria,
    starting_position: Position,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum ResponseType {
    ReportBatchItemFailures,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum Position {
    TrimHorizon,
    Latest,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct FilterCriteria {
    #[serde(default)]
    filters: Vec<Filter>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Filter {
    pattern: String,
}

impl Default for MappingSettings {
    fn default() -> Self {
        Self {
            batch_size: 100,
            maximum_batching_window_in_seconds: 0,
            parallelization_factor: 1,
            bisect_batch_on_function_error: false,
            maximum_retry_attempts: -1,
            maximum_record_age_in_seconds: -1,
            function_response_types: Vec::new(),
            report_batch_item_failures: false,
            filter_criteria: FilterCriteria::default(),
            starting_position: Position::TrimHorizon,
        }
    }
}

#[derive(Debug, Error)]
pub enum InvalidScenario {
    #[error("it is no scenario")]
    Json(#[from] serde_json::Error),
    #[error("invalid settings")]
    Settings(#[from] InvalidSettings),
}

impl Scenario {
    /// Parses a scenario.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidScenario`] for unknown names, values of a wrong type, and values outside Lambda's bounds.
    pub fn parse(text: &str) -> Result<Self, InvalidScenario> {
        let scenario: Self = serde_json::from_str(text)?;
        scenario.settings()?;
        Ok(scenario)
    }

    /// Returns the settings of the mapping.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidSettings`] for values outside Lambda's bounds.
    pub fn settings(&self) -> Result<Settings, InvalidSettings> {
        let given = &self.settings;
        let limit = |name, value: i64| match value {
            -1 => Ok(None),
            value => u64::try_from(value)
                .map(Some)
                .map_err(|_| InvalidSettings::OutOfBounds(name)),
        };
        let attempts = limit("MaximumRetryAttempts", given.maximum_retry_attempts)?;
        let age = limit("MaximumRecordAgeInSeconds", given.maximum_record_age_in_seconds)?;
        let patterns = given
            .filter_criteria
            .filters
            .iter()
            .map(|filter| filter.pattern.as_str());
        let reports = given
            .function_response_types
            .contains(&ResponseType::ReportBatchItemFailures);
        let settings = Settings {
            batch_size: given.batch_size,
            batching_window: Duration::from_secs(given.maximum_batching_window_in_seconds),
            parallelization_factor: given.parallelization_factor,
            bisect_on_function_error: given.bisect_batch_on_function_error,
            report_batch_item_failures: reports || given.report_batch_item_failures,
            maximum_retry_attempts: attempts.map(|attempts| u32::try_from(attempts).unwrap_or(u32::MAX)),
            maximum_record_age: age.map(Duration::from_secs),
            filters: Filters::parse(patterns)?,
            starting_position: match given.starting_position {
                Position::TrimHorizon => StartingPosition::TrimHorizon,
                Position::Latest => StartingPosition::Latest,
            },
            startup: Duration::from_secs(self.startup.into()),
            ..Settings::default()
        };
        settings.checked()
    }
}
