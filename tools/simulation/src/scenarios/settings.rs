//! Settings of `template.yaml`.

use std::{path::Path, time::Duration};

use local::{
    mapping::settings::Settings,
    template::{Template, yaml},
};
use serde_json::Value;
use shared::{config::Config, dynamodb::client::ClientSettings};

use crate::{error::SimulationError, schedule::TABLE};

/// Settings of both functions and their event sources.
#[derive(Debug, Clone)]
pub(super) struct Stack {
    pub(super) config: Config,
    pub(super) writer_timeout: Duration,
    pub(super) stream_timeout: Duration,
    pub(super) mapping: Settings,
    pub(super) visibility_timeout: Duration,
    /// Number of times that a message is received before it moves to the dead-letter queue.
    pub(super) max_receives: u64,
}

impl Stack {
    /// Reads the template with the defaults of its parameters.
    pub(super) fn read() -> Result<Self, SimulationError> {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../template.yaml"));
        let text = std::fs::read_to_string(path).map_err(|_| SimulationError::Template)?;
        let template = Template::parse(&text, &[]).map_err(|_| SimulationError::Template)?;
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
        let document = yaml::parse(&text).map_err(|_| SimulationError::Template)?;
        let queue = |property: &str| {
            let value = document.pointer(&format!("/Resources/Updates/Properties/{property}"));
            value.and_then(Value::as_u64).ok_or(SimulationError::Template)
        };
        Ok(Self {
            config: config.map_err(|_| SimulationError::Template)?,
            writer_timeout: writer.timeout,
            stream_timeout: stream.timeout,
            mapping: template.mapping,
            visibility_timeout: Duration::from_secs(queue("VisibilityTimeout")?),
            max_receives: queue("RedrivePolicy/maxReceiveCount")?,
        })
    }

    pub(super) fn client(&self) -> ClientSettings {
        self.config.client
    }
}
