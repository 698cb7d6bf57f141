//! Scenarios: single runs of the functions and the mapping in virtual time, at the scale and with the settings of production.
//!
//! Unlike schedules they are not random. Each prints its figures as one JSON object, and fails if a guarantee is violated.

pub(crate) mod outages;
mod settings;
pub(crate) mod shards;

/// Result of a scenario.
pub(crate) struct Outcome {
    pub(crate) figures: serde_json::Value,
    /// Descriptions of the violated guarantees.
    pub(crate) violations: Vec<String>,
}
