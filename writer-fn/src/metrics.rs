//! What an invocation reports.

use std::time::Duration;

use shared::metrics::{self, Tally, Unit};

use crate::{error::Error, response::Answer};

const LATENCY: &str = "Latency";
const MESSAGES: &str = "Messages";

/// All that writer-fn reports, and in what unit.
const UNITS: &[(&str, Unit)] = &[
    ("Written", Unit::Count),
    ("Duplicate", Unit::Count),
    ("Stale", Unit::Count),
    ("Unchanged", Unit::Count),
    ("Conflict", Unit::Count),
    ("Invalid", Unit::Count),
    ("Throttled", Unit::Count),
    ("Internal", Unit::Count),
    (LATENCY, Unit::Milliseconds),
    (MESSAGES, Unit::Count),
];

/// Sets up the metrics of writer-fn.
pub(crate) fn init() {
    metrics::init("writer-fn", UNITS);
}

/// One update that was tried: what it came to, and how long it took with all its requests.
pub(crate) fn update(tally: &Tally, answer: &Result<Answer, Error>, took: Duration) {
    tally.count(answer.as_ref().map_or_else(failure, Answer::outcome));
    tally.measure(LATENCY, took.as_secs_f64() * 1000.0);
}

/// Something that holds no update.
pub(crate) fn refused(tally: &Tally, error: &Error) {
    tally.count(failure(error));
}

/// A batch of a queue.
#[allow(clippy::cast_precision_loss, reason = "a batch has 10,000 messages at most")]
pub(crate) fn batch(tally: &Tally, messages: usize) {
    tally.measure(MESSAGES, messages as f64);
}

fn failure(error: &Error) -> &'static str {
    match error {
        Error::InvalidEvent(_) => "Invalid",
        Error::VersionConflict { .. } => "Conflict",
        Error::Throttled(_) => "Throttled",
        Error::Internal(_) => "Internal",
    }
}

#[cfg(test)]
mod tests {
    use shared::{domain::entity::EntityId, domain::version::Version, dynamodb::write::WriteOutcome};

    use super::*;
    use crate::error::InvalidEvent;

    #[test]
    fn every_outcome_has_a_metric_of_its_own() {
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
            update(&tally, &Answer::of(&entity, outcome), Duration::from_micros(1500));
        }
        refused(&tally, &InvalidEvent::NotJson.into());
        batch(&tally, 3);
        let counts = tally.counts();
        assert_eq!(
            counts.keys().copied().collect::<Vec<_>>(),
            ["Conflict", "Duplicate", "Invalid", "Stale", "Unchanged", "Written"]
        );
        assert!(counts.values().all(|count| *count == 1));
        assert_eq!(tally.values()[LATENCY], [1.5; 5]);
        let known = |name: &str| UNITS.iter().any(|(unit, _)| *unit == name);
        assert!(counts.keys().chain(tally.values().keys()).all(|name| known(name)));
    }
}
