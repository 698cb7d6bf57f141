//! Settings of `template.yaml`.

use std::{path::Path, time::Duration};

use local::{mapping::settings::Settings, template::Template};
use shared::config::Config;

use crate::{error::SimulationError, schedule::TABLE};

/// Settings of both functions and their event sources.
#[derive(Debug, Clone)]
pub(super) struct Stack {
    pub(super) config: Config,
    pub(super) stream_timeout: Duration,
    pub(super) mapping: Settings,
}

impl Stack {
    /// Reads the template with the defaults of its parameters.
    pub(super) fn read() -> Result<Self, SimulationError> {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../template.yaml"));
        let template = Template::read(path, &[]).map_err(|_| SimulationError::Template)?;
        let function = |binary: &str| {
            let mut functions = template.functions.iter();
            let function = functions.find(|function| function.binary == binary);
            function.ok_or(SimulationError::Template)
        };
        let (writer, stream) = (function("writer-fn")?, function("stream-fn")?);
        let config = Config::from_variables(|name| match name {
            "TABLE_NAME" => Some(TABLE.to_owned()),
            _ => writer.environment.get(name).cloned(),
        });
        Ok(Self {
            config: config.map_err(|_| SimulationError::Template)?,
            stream_timeout: stream.timeout,
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
        let queue = |property: &str| {
            let value = document.pointer(&format!("/Resources/Updates/Properties/{property}"));
            value.and_then(serde_json::Value::as_u64)
        };
        assert_eq!(
            queue("VisibilityTimeout"),
            Some(queue::VISIBILITY_TIMEOUT_MILLIS / 1000)
        );
        assert_eq!(
            queue("RedrivePolicy/maxReceiveCount"),
            Some(queue::MAX_RECEIVE_COUNT.into())
        );
    }
}
