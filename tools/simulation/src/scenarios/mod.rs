//! Scenarios: single runs of the mapping in virtual time, at the scale and with the settings of production.
//!
//! Unlike schedules they are not random. Each prints its figures as one JSON object, and fails if a guarantee is violated.

pub(crate) mod outages;
pub(crate) mod shards;

use std::path::Path;

use local::{mapping::settings::Settings, template::Template};
use shared::config::Config;

use crate::{error::SimulationError, schedule::TABLE};

/// Result of a scenario.
pub(crate) struct Outcome {
    pub(crate) figures: serde_json::Value,
    /// Descriptions of the violated guarantees.
    pub(crate) violations: Vec<String>,
}

/// Settings of `template.yaml`: of writer-fn, and of the event source mapping.
struct Stack {
    config: Config,
    mapping: Settings,
}

impl Stack {
    /// Reads the template with the defaults of its parameters.
    fn read() -> Result<Self, SimulationError> {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../template.yaml"));
        let template = Template::read(path, &[]).map_err(|_| SimulationError::Template)?;
        let mut functions = template.functions.iter();
        let writer = functions.find(|function| function.binary == "writer-fn");
        let environment = &writer.ok_or(SimulationError::Template)?.environment;
        let config = Config::from_variables(|name| match name {
            "TABLE_NAME" => Some(TABLE.to_owned()),
            _ => environment.get(name).cloned(),
        });
        Ok(Self {
            config: config.map_err(|_| SimulationError::Template)?,
            mapping: template.mapping,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

    use local::template::yaml;

    use super::*;
    use crate::{functions, queue};

    #[test]
    fn the_functions_and_the_queue_have_the_settings_of_the_template() {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../template.yaml"));
        let text = std::fs::read_to_string(path).unwrap();
        let template = Template::parse(&text, &[]).unwrap();
        for (binary, timeout) in [
            ("writer-fn", functions::WRITER_TIMEOUT),
            ("stream-fn", functions::STREAM_TIMEOUT),
        ] {
            let mut functions = template.functions.iter();
            let function = functions.find(|function| function.binary == binary).unwrap();
            assert_eq!(function.timeout, timeout, "{binary}");
        }
        let document = yaml::parse(&text).unwrap();
        for (property, number) in [
            ("VisibilityTimeout", queue::VISIBILITY_TIMEOUT_MILLIS / 1000),
            ("RedrivePolicy/maxReceiveCount", queue::MAX_RECEIVE_COUNT.into()),
        ] {
            let value = document.pointer(&format!("/Resources/Updates/Properties/{property}"));
            assert_eq!(value.and_then(serde_json::Value::as_u64), Some(number), "{property}");
        }
    }
}
