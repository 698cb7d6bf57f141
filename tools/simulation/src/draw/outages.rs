//! Outages of writes: those of stream-fn, or those of writer-fn, fail for seconds to hours, with the settings of the template.
//!
//! One update a minute arrives, in turn by a queue, asynchronously and directly.

use serde_json::json;
use shared::config::{Config, Idempotency};

use crate::{
    draw::script::{MINUTE, SECOND},
    error::SimulationError,
    mapping::template,
    schedule::{Origin, Schedule, Scope, Settings, StepKind, TABLE},
};

/// Durations of the outages in seconds. The last one is longer than the maximum age of a record.
const SECONDS: [u64; 4] = [5, 300, 18_000, 46_800];
/// Seconds from the start until the outage. Updates arrive at full minutes.
const BEFORE: u64 = 119;
/// Seconds after an outage in which updates arrive.
const AFTER: u64 = 600;
const ENTITIES: u64 = 7;
/// Number of sources of the updates, so that none waits for another one.
const SOURCES: u64 = 250;

impl Schedule {
    /// Returns the outages of each function, the short ones first.
    pub(crate) fn outages() -> Result<Vec<Self>, SimulationError> {
        let settings = settings()?;
        let mut outages = Vec::new();
        for lasts in SECONDS {
            for fails in [Scope::StreamFunctionFails, Scope::WriterFails] {
                let mut outage = Self {
                    seed: 1,
                    settings: settings.clone(),
                    ..Self::default()
                };
                outage.add_updates((BEFORE + lasts + AFTER) / 60);
                outage.window(BEFORE * SECOND, u8::MAX, fails, lasts * SECOND);
                outages.push(outage);
            }
        }
        Ok(outages)
    }

    fn add_updates(&mut self, minutes: u64) {
        for number in 0..=minutes {
            let origin = [Origin::Message, Origin::Invocation, Origin::TimedClient];
            let origin = origin[usize::try_from(number % 3).unwrap_or_default()];
            let entity = format!("e{}", number % ENTITIES);
            let update = self.update(&entity, origin, json!({"Value": number}));
            let delivery = match origin {
                Origin::Message => StepKind::Sqs(vec![update]),
                Origin::Invocation => StepKind::Asynchronous(update),
                _ => StepKind::Direct(update),
            };
            let source = u8::try_from(number % SOURCES).unwrap_or_default();
            self.step(number * MINUTE, source, delivery);
        }
    }
}

/// Returns the settings of `template.yaml` with the defaults of its parameters.
fn settings() -> Result<Settings, SimulationError> {
    let template = template()?;
    let mut functions = template.functions.iter();
    let writer = functions.find(|function| function.binary == "writer-fn");
    let environment = &writer.ok_or(SimulationError::Template)?.environment;
    let config = Config::from_variables(|name| match name {
        "TABLE_NAME" => Some(TABLE.to_owned()),
        _ => environment.get(name).cloned(),
    });
    let (config, mapping) = (config.map_err(|_| SimulationError::Template)?, template.mapping);
    Ok(Settings {
        write_mode: format!("{:?}", config.write.mode).to_lowercase(),
        window: match config.write.idempotency {
            Idempotency::Recent(window) => u8::try_from(window.get()).ok(),
            Idempotency::Ledger => None,
        },
        skip_unchanged: config.write.skip_unchanged,
        digits: config.digits.get(),
        batch_size: mapping.batch_size,
        batching_window: mapping.batching_window.as_secs(),
        parallelization_factor: mapping.parallelization_factor,
        bisect: mapping.bisect_on_function_error,
        maximum_retry_attempts: mapping.maximum_retry_attempts,
        maximum_record_age: mapping.maximum_record_age.map(|age| age.as_secs()),
        shards: 1,
        queue_batch_size: 1,
        own_history: config.history.is_some(),
        clock_offsets: vec![0],
        ..Settings::default()
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test, a panic is the message")]

    use local::template::yaml;

    use super::*;
    use crate::{functions, queue};

    #[test]
    fn the_functions_and_the_queue_have_the_settings_of_the_template() {
        let template = template().unwrap();
        for (binary, timeout) in [
            ("writer-fn", functions::WRITER_TIMEOUT),
            ("stream-fn", functions::STREAM_TIMEOUT),
        ] {
            let mut functions = template.functions.iter();
            let function = functions.find(|function| function.binary == binary).unwrap();
            assert_eq!(function.timeout, timeout, "{binary}");
        }
        let document = yaml::parse(include_str!("../../../../template.yaml")).unwrap();
        for (property, number) in [
            ("VisibilityTimeout", queue::VISIBILITY_TIMEOUT_MILLIS / 1000),
            ("RedrivePolicy/maxReceiveCount", queue::MAX_RECEIVE_COUNT.into()),
        ] {
            let value = document.pointer(&format!("/Resources/Updates/Properties/{property}"));
            assert_eq!(value.and_then(serde_json::Value::as_u64), Some(number), "{property}");
        }
    }
}
