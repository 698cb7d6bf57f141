//! The metrics of an invocation.

#![cfg_attr(
    not(feature = "runtime"),
    allow(dead_code, reason = "the program initializes metrics")
)]

use std::time::Duration;

use shared::metrics::{self, Tally, Unit};

use crate::{error::Error, response::UpdateResponse};

const LATENCY: &str = "Latency";

const UNITS: &[(Unit, &str)] = &[
    (
        Unit::Count,
        "Written Duplicate Stale Unchanged Conflict Invalid Throttled Internal Messages",
    ),
    (Unit::Milliseconds, LATENCY),
];

pub(crate) fn init() {
    metrics::init("writer-fn", UNITS);
}

/// Counts each update by its outcome, and a change set that failed once. Measures the latency including all requests.
pub(crate) fn update(tally: &Tally, response: &Result<UpdateResponse, Error>, latency: Duration) {
    match response {
        Ok(response) => response.versions().for_each(|_| tally.count(response.outcome())),
        Err(error) => tally.count(failure(error)),
    }
    tally.measure(LATENCY, latency.as_secs_f64() * 1000.0);
}

/// Counts an event or a message that contains no valid update.
pub(crate) fn rejected(tally: &Tally, error: &Error) {
    tally.count(failure(error));
}

#[allow(clippy::cast_precision_loss, reason = "a batch has 10,000 messages at most")]
pub(crate) fn batch(tally: &Tally, messages: usize) {
    tally.measure("Messages", messages as f64);
}

fn failure(error: &Error) -> &'static str {
    match error {
        Error::InvalidEvent(_) => "Invalid",
        Error::VersionConflict { .. } => "Conflict",
        Error::Stale { .. } => "Stale",
        Error::OfEntity { source, .. } => failure(source),
        Error::Throttled(_) => "Throttled",
        Error::Undecided(_) | Error::Internal(_) | Error::Layout(_) | Error::Panicked(_) | Error::NotInTime => {
            "Internal"
        }
    }
}

#[cfg(test)]
mod tests {
    use shared::domain::{entity::EntityId, version::Version};

    use super::*;
    use crate::{counter::WriteOutcome, error::InvalidEvent};

    #[test]
    fn every_outcome_has_its_own_metric() {
        let entity = EntityId::new("E").unwrap();
        let version = Version::FIRST;
        let (expected, latest) = (1, 2);
        let outcomes = [
            WriteOutcome::Written { version },
            WriteOutcome::Duplicate { version },
            WriteOutcome::Stale { version },
            WriteOutcome::Unchanged { version },
            WriteOutcome::Conflict { expected, latest },
        ];
        let tally = Tally::default();
        for outcome in outcomes {
            update(
                &tally,
                &UpdateResponse::new(&entity, outcome),
                Duration::from_micros(1500),
            );
        }
        rejected(&tally, &InvalidEvent::NotJson.into());
        batch(&tally, 3);
        let counts = tally.counts();
        assert_eq!(
            counts.keys().collect::<Vec<_>>(),
            ["Conflict", "Duplicate", "Invalid", "Stale", "Unchanged", "Written"]
        );
        assert!(counts.values().all(|count| *count == 1));
        assert_eq!(tally.values()[LATENCY], [1.5; 5]);
        let known = |name: &str| metrics::each_name(UNITS).any(|(_, known)| known == name);
        assert!(counts.keys().all(|name| known(name)) && tally.values().keys().all(|name| known(name)));
    }
}
