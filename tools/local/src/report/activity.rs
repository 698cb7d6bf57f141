//! Counts updates and stream records as the functions and the mapping report them, and measures the lag of history.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use serde_json::Value;
use shared::{
    domain::{names, quarantine, update::ID},
    json,
};

use super::{latest_error, rate::Rate};
use crate::{
    feed::WRITER,
    lambda::{InvocationObserver, InvokeOutput},
    mapping::{self, record::Record},
};

/// Maximum number of writes whose time is kept until their version is in history. Beyond it, the lag is measured from the
/// creation time of the stream record.
const MAX_WRITES: usize = 10_000;
/// Maximum length of an outcome's name.
const MAX_NAME_LENGTH: usize = 40;

#[derive(Debug)]
pub struct Activity {
    /// Clock: the time since 1970.
    clock: fn() -> Duration,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    applied: BTreeMap<String, u64>,
    rejected: BTreeMap<String, u64>,
    /// Time of the response to each write, by entity and version.
    written: HashMap<(String, String), Duration>,
    /// Write time of each record in flight, by sequence number.
    waiting: HashMap<String, Duration>,
    done: u64,
    /// Number of records that were put into quarantine, and of those that left it.
    quarantined: u64,
    released: u64,
    failed: u64,
    lag: Option<Duration>,
    update_rate: Rate,
    version_rate: Rate,
    error: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// Number of updates that writer-fn accepted, by outcome.
    pub applied: BTreeMap<String, u64>,
    /// Number of updates that writer-fn rejected, by error type.
    pub rejected: BTreeMap<String, u64>,
    /// Number of versions in history after processing by stream-fn.
    pub versions: u64,
    /// Number of records in flight to stream-fn.
    pub waiting: u64,
    /// Number of records in quarantine.
    pub quarantined: u64,
    /// Number of records in failure documents.
    pub failed: u64,
    /// Time from a write to its version in history: of the last version, or of the oldest record in flight if that is more.
    pub lag: Option<Duration>,
    /// Number of updates within the last seconds.
    pub recent_updates: u64,
    /// Number of records that became versions within the last seconds.
    pub recent_versions: u64,
    /// Latest error of a function, with the function's name.
    pub error: Option<String>,
}

impl Activity {
    pub fn new(clock: fn() -> Duration) -> Self {
        Self {
            clock,
            counts: Mutex::default(),
        }
    }

    pub fn figures(&self) -> Figures {
        let now = (self.clock)();
        let counts = self.counts();
        let oldest = counts
            .waiting
            .values()
            .min()
            .map(|written| now.saturating_sub(*written));
        Figures {
            applied: counts.applied.clone(),
            rejected: counts.rejected.clone(),
            versions: counts.done.saturating_sub(counts.quarantined),
            waiting: counts.waiting.len() as u64,
            quarantined: counts.quarantined.saturating_sub(counts.released),
            failed: counts.failed,
            lag: counts.lag.max(oldest),
            recent_updates: counts.update_rate.count(now),
            recent_versions: counts.version_rate.count(now),
            error: counts.error.clone(),
        }
    }

    fn counts(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InvocationObserver for Activity {
    fn invoked(&self, binary: &str, event: &[u8], output: &InvokeOutput) {
        let response = json::parse_bytes(&output.payload).unwrap_or_default();
        let now = (self.clock)();
        let mut counts = self.counts();
        if let Some(error) = latest_error::of(&response, output) {
            counts.error = Some(format!("{binary}: {error}"));
        }
        if binary != WRITER {
            return;
        }
        counts.update_rate.add(now, messages(event));
        if output.is_error {
            *counts.rejected.entry(name(&response["errorType"])).or_default() += messages(event);
        } else if let Some(failures) = response["batchItemFailures"].as_array() {
            // The response to a batch names only the failed messages.
            let failed = failures.len() as u64;
            let taken = messages(event).saturating_sub(failed);
            if taken > 0 {
                *counts.applied.entry("Accepted".to_owned()).or_default() += taken;
            }
            if failed > 0 {
                *counts.rejected.entry("Failed".to_owned()).or_default() += failed;
            }
        } else {
            let outcome = name(&response["Outcome"]);
            if let (Some(entity), "Written") = (response[ID].as_str(), outcome.as_str()) {
                if counts.written.len() >= MAX_WRITES {
                    counts.written.clear();
                }
                let version = response["Version"].to_string();
                counts.written.insert((entity.to_owned(), version), now);
            }
            *counts.applied.entry(outcome).or_default() += 1;
        }
    }
}

impl mapping::RecordObserver for Activity {
    /// Counts changes of quarantine, which stream-fn makes in the same table.
    fn filtered(&self, record: &Record) {
        let key = record.json().pointer("/dynamodb/Keys/SK/S").and_then(Value::as_str);
        if key.is_some_and(quarantine::is_first) {
            let mut counts = self.counts();
            match record.json()["eventName"].as_str() {
                Some("INSERT") => counts.quarantined += 1,
                Some("REMOVE") => counts.released += 1,
                _ => {}
            }
        }
    }

    fn queued(&self, records: &[&Record]) {
        let mut counts = self.counts();
        for record in records {
            let written = version(record).and_then(|version| counts.written.get(&version).copied());
            let written = written.unwrap_or_else(|| record.created());
            counts.waiting.insert(key(record), written);
        }
    }

    fn done(&self, records: &[Record]) {
        let now = (self.clock)();
        let mut counts = self.counts();
        for record in records {
            // The response may arrive after the record.
            let responded = version(record).and_then(|version| counts.written.remove(&version));
            let taken = counts.waiting.remove(&key(record));
            let written = responded.or(taken).unwrap_or_else(|| record.created());
            counts.lag = Some(now.saturating_sub(written));
        }
        counts.done += records.len() as u64;
        counts.version_rate.add(now, records.len() as u64);
    }

    fn failed(&self, records: &[Record]) {
        self.dropped(records);
        self.counts().failed += records.len() as u64;
    }

    fn dropped(&self, records: &[Record]) {
        let mut counts = self.counts();
        for record in records {
            counts.waiting.remove(&key(record));
        }
    }
}

fn key(record: &Record) -> String {
    record.sequence_number().as_str().to_owned()
}

/// Returns the entity and version number of a record.
fn version(record: &Record) -> Option<(String, String)> {
    let image = record.json().pointer("/dynamodb/NewImage")?;
    let text = |name: &str, kind: &str| Some(image.get(name)?.get(kind)?.as_str()?.to_owned());
    Some((text(names::PK, "S")?, text(names::LATEST, "N")?))
}

/// Counts the updates of an event.
fn messages(event: &[u8]) -> u64 {
    let event = std::str::from_utf8(event)
        .ok()
        .and_then(|event| json::members(event).ok());
    let records = event.and_then(|event| json::elements(event.get("Records")?).ok());
    records.map_or(1, |records| records.len() as u64)
}

/// Returns the name of an outcome or error as one word.
fn name(value: &Value) -> String {
    let word = value.as_str().unwrap_or("Answered");
    let kept = word
        .chars()
        .filter(|letter| letter.is_ascii_alphanumeric() || *letter == '.');
    kept.take(MAX_NAME_LENGTH).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use shared::domain::sequence::SequenceNumber;

    use super::*;
    use crate::mapping::RecordObserver as _;

    fn now() -> Duration {
        Duration::from_millis(1_700_000_000_500)
    }

    fn invoke(activity: &Activity, event: Value, response: Value, is_error: bool) {
        let invoked = InvokeOutput {
            request_id: String::new(),
            payload: response.to_string().into_bytes(),
            is_error,
            log_tail: Vec::new(),
        };
        activity.invoked("writer-fn", event.to_string().as_bytes(), &invoked);
    }

    fn written(activity: &Activity, version: usize) {
        let response = json!({"ID": "a", "Version": version, "Outcome": "Written"});
        invoke(activity, json!({}), response, false);
    }

    fn record(number: u64, entity: &str, version: &str, created: u64) -> Record {
        let image = json!({"PK": {"S": entity}, "SK": {"S": "v0"}, "Latest": {"N": version}});
        let number = SequenceNumber::new(number.to_string()).unwrap();
        Record::new(
            number,
            Duration::from_secs(created),
            json!({"dynamodb": {"NewImage": image}}),
        )
    }

    fn counted(counts: &BTreeMap<String, u64>) -> Vec<(&str, u64)> {
        counts.iter().map(|(name, count)| (name.as_str(), *count)).collect()
    }

    #[test]
    fn quarantined_records_are_no_versions() {
        let activity = Activity::new(now);
        let change = |event: &str, key: &str| {
            let number = SequenceNumber::new("9").unwrap();
            let change = json!({"eventName": event, "dynamodb": {"Keys": {"PK": {"S": "a"}, "SK": {"S": key}}}});
            activity.filtered(&Record::new(number, Duration::ZERO, change));
        };
        activity.done(&[record(1, "a", "1", 0), record(2, "a", "2", 0), record(3, "a", "x", 0)]);
        let figures = || (activity.figures().versions, activity.figures().quarantined);
        for (event, key, expected) in [
            ("INSERT", "v1", (3, 0)),
            ("INSERT", "quarantine#2", (2, 1)),
            ("INSERT", "quarantine#2#2", (2, 1)),
            ("INSERT", "quarantine#3", (1, 2)),
            ("REMOVE", "quarantine#3", (1, 1)),
        ] {
            change(event, key);
            assert_eq!(figures(), expected, "{event} {key}");
        }
    }

    #[test]
    fn updates_are_counted_by_outcome() {
        let activity = Activity::new(now);
        let batch = json!({"Records": [{}, {}, {}]});
        for (event, response, is_error) in [
            (json!({}), json!({"ID": "a", "Version": 1, "Outcome": "Written"}), false),
            (
                json!({}),
                json!({"ID": "a", "Version": 1, "Outcome": "Duplicate"}),
                false,
            ),
            (
                json!({}),
                json!({"errorType": "VersionConflict", "errorMessage": "no"}),
                true,
            ),
            (
                batch.clone(),
                json!({"batchItemFailures": [{"itemIdentifier": "m-2"}]}),
                false,
            ),
            (batch.clone(), json!({"batchItemFailures": []}), false),
            (batch, json!({"errorType": "Sandbox.Timedout"}), true),
            // An invalid response, and an invalid name.
            (json!(1), json!([]), false),
            (json!({}), json!({"errorType": "a b\u{1b}[2J".repeat(20)}), true),
        ] {
            invoke(&activity, event, response, is_error);
        }
        let other = InvokeOutput {
            request_id: String::new(),
            payload: b"{}".to_vec(),
            is_error: true,
            log_tail: Vec::new(),
        };
        activity.invoked("stream-fn", b"{}", &other);
        let figures = activity.figures();
        // Each message of a batch is an update.
        assert_eq!((figures.recent_updates, figures.recent_versions), (14, 0));
        assert_eq!(
            counted(&figures.applied),
            [("Accepted", 5), ("Answered", 1), ("Duplicate", 1), ("Written", 1)]
        );
        let long = "ab2J".repeat(10);
        assert_eq!(
            counted(&figures.rejected),
            [
                ("Failed", 1),
                ("Sandbox.Timedout", 3),
                ("VersionConflict", 1),
                (&long, 1)
            ]
        );
    }

    #[test]
    fn the_lag_is_from_the_response_to_the_version_and_grows_while_a_record_waits() {
        let activity = Activity::new(now);
        assert_eq!(activity.figures().lag, None);
        // The response is current, although the stream has a resolution of seconds.
        written(&activity, 1);
        let (ours, other) = (record(1, "a", "1", 1_700_000_000), record(2, "b", "1", 1_699_999_990));
        activity.queued(&[&ours]);
        assert_eq!(
            (activity.figures().waiting, activity.figures().lag),
            (1, Some(Duration::ZERO))
        );
        activity.done(&[ours]);
        assert_eq!(
            (activity.figures().versions, activity.figures().lag),
            (1, Some(Duration::ZERO))
        );
        // Written by another client ten seconds ago, and not done yet.
        activity.queued(&[&other]);
        assert_eq!(activity.figures().lag, Some(Duration::from_millis(10_500)));
        activity.failed(&[other]);
        let figures = activity.figures();
        assert_eq!((figures.waiting, figures.failed, figures.versions), (0, 1, 1));
        assert_eq!(figures.lag, Some(Duration::ZERO));
    }

    #[test]
    fn writes_that_never_become_history_are_dropped() {
        let activity = Activity::new(now);
        for number in 0..=MAX_WRITES {
            written(&activity, number);
        }
        assert_eq!(activity.counts().written.len(), 1);
    }
}
