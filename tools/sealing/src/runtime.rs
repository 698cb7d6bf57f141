//! Start of the function, and its response.

use std::time::Duration;

use lambda_runtime::{Diagnostic, LambdaEvent, service_fn};
use serde_json::{Value, json};
use shared::{
    clock::{self, Deadline},
    config,
    domain::{recorded_at::RecordedAt, time_index},
    dynamodb::client::{self, ClientSettings},
    event::Event,
    logging::{self, chain, variant},
    metrics::{self, Tally, Unit},
};
use tokio::sync::OnceCell;

use crate::{
    error::SealError,
    sealer::{Sealed, Sealer},
    settings::Settings,
};

const UNITS: &[(Unit, &str)] = &[
    (Unit::Count, "VersionsSealed SealContradictions"),
    (Unit::Seconds, "OldestUnsealedAge CheckpointAge"),
];

/// Configures the function from the environment and serves invocations until the process ends.
pub async fn run() -> Result<(), lambda_runtime::Error> {
    logging::init();
    metrics::init("seal-fn", UNITS);
    let settings = Settings::from_variables(config::variable);
    let settings = settings.inspect_err(|error| tracing::error!(error = chain(error), "not started"))?;
    let client = client::from_env(&ClientSettings::default()).await;
    let sdk = client::sdk_defaults().load().await;
    let sealer = OnceCell::new();
    lambda_runtime::run(service_fn(async |event: LambdaEvent<Event>| {
        let deadline = Deadline::at_epoch_millis(event.context.deadline);
        let sealer: &Sealer = sealer.get_or_try_init(|| settings.sealer(&sdk, &client)).await?;
        let (mut sealed, tally) = (Sealed::default(), Tally::default());
        let outcome = sealer.run(deadline.start_by, &mut sealed).await;
        measure(&tally, &sealed, outcome.as_ref().err());
        tally.emit(&event.context.request_id);
        outcome.inspect_err(|error| tracing::error!(error = chain(error), "not sealed"))?;
        Ok::<Value, SealError>(json!({"Sealed": sealed.leaves, "Size": sealed.size, "Oldest": sealed.oldest}))
    }))
    .await
}

#[allow(clippy::cast_precision_loss, reason = "a metric")]
fn measure(tally: &Tally, sealed: &Sealed, error: Option<&SealError>) {
    let now = clock::since_epoch();
    let age = |time: Option<RecordedAt>| time.map_or(Duration::ZERO, |time| now.saturating_sub(time.to_duration()));
    let oldest = sealed
        .oldest
        .as_deref()
        .and_then(time_index::parse)
        .map(|(inserted, _)| inserted);
    tally.measure("VersionsSealed", sealed.leaves as f64);
    tally.measure("OldestUnsealedAge", age(oldest).as_secs_f64());
    tally.measure(
        "CheckpointAge",
        age(sealed.sealed_at.filter(|_| oldest.is_some())).as_secs_f64(),
    );
    if let Some(SealError::Contradiction(_) | SealError::Missing(_)) = error {
        tally.count("SealContradictions");
    }
}

impl From<SealError> for Diagnostic {
    fn from(error: SealError) -> Self {
        Self {
            error_type: variant(&error),
            error_message: chain(&error),
        }
    }
}
