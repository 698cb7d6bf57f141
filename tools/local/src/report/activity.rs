//! Counts updates and stream records as the functions and the mapping report them.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Mutex, PoisonError},
};

use serde_json::Value;
use shared::{domain::quarantine, json};

use super::latest_error;
use crate::{
    feed::WRITER,
    lambda::{InvocationObserver, InvokeOutput},
    mapping::{self, record::Record},
};

/// Maximum length of an outcome's name.
const MAX_NAME_LENGTH: usize = 40;

#[derive(Debug, Default)]
pub struct Activity(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    applied: BTreeMap<String, u64>,
    rejected: BTreeMap<String, u64>,
    /// Sequence numbers of the records in flight.
    waiting: HashSet<String>,
    done: u64,
    /// Number of records that were put into quarantine, and of those that left it.
    quarantined: u64,
    released: u64,
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
    /// Latest error of a function, with the function's name.
    pub error: Option<String>,
}

impl Activity {
    pub fn figures(&self) -> Figures {
        let counts = self.counts();
        Figures {
            applied: counts.applied.clone(),
            rejected: counts.rejected.clone(),
            versions: counts.done.saturating_sub(counts.quarantined),
            waiting: counts.waiting.len() as u64,
            quarantined: counts.quarantined.saturating_sub(counts.released),
            error: counts.error.clone(),
        }
    }

    fn counts(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InvocationObserver for Activity {
    fn invoked(&self, binary: &str, event: &[u8], output: &InvokeOutput) {
        let response = json::parse_bytes(&output.payload).unwrap_or_default();
        let mut counts = self.counts();
        if let Some(error) = latest_error::of(&response, output) {
            counts.error = Some(format!("{binary}: {error}"));
        }
        if binary != WRITER {
            return;
        }
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
            *counts.applied.entry(name(&response["Outcome"])).or_default() += 1;
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
        self.counts().waiting.extend(records.iter().map(|record| key(record)));
    }

    fn done(&self, records: &[Record]) {
        let mut counts = self.counts();
        counts.forget(records);
        counts.done += records.len() as u64;
    }

    fn failed(&self, records: &[Record]) {
        self.counts().forget(records);
    }

    fn dropped(&self, records: &[Record]) {
        self.counts().forget(records);
    }
}

impl Counts {
    fn forget(&mut self, records: &[Record]) {
        for record in records {
            self.waiting.remove(&key(record));
        }
    }
}

fn key(record: &Record) -> String {
    record.sequence_number().as_str().to_owned()
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
    use std::time::Duration;

    use serde_json::json;
    use shared::domain::sequence::SequenceNumber;

    use super::*;
    use crate::mapping::RecordObserver as _;

    fn invoke(activity: &Activity, event: Value, response: Value, is_error: bool) {
        let invoked = InvokeOutput {
            request_id: String::new(),
            payload: response.to_string().into_bytes(),
            is_error,
            log_tail: Vec::new(),
        };
        activity.invoked("writer-fn", event.to_string().as_bytes(), &invoked);
    }

    fn record(number: u64) -> Record {
        let number = SequenceNumber::new(number.to_string()).unwrap();
        Record::new(number, Duration::ZERO, json!({"dynamodb": {}}))
    }

    fn counted(counts: &BTreeMap<String, u64>) -> Vec<(&str, u64)> {
        counts.iter().map(|(name, count)| (name.as_str(), *count)).collect()
    }

    #[test]
    fn quarantined_records_are_no_versions() {
        let activity = Activity::default();
        let change = |event: &str, key: &str| {
            let number = SequenceNumber::new("9").unwrap();
            let change = json!({"eventName": event, "dynamodb": {"Keys": {"PK": {"S": "a"}, "SK": {"S": key}}}});
            activity.filtered(&Record::new(number, Duration::ZERO, change));
        };
        activity.done(&[1, 2, 3].map(record));
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
        let activity = Activity::default();
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
    fn a_record_waits_until_the_mapping_is_done_with_it() {
        let activity = Activity::default();
        let records = [1, 2, 3].map(record);
        let figures = || (activity.figures().waiting, activity.figures().versions);
        activity.queued(&records.each_ref());
        assert_eq!(figures(), (3, 0));
        activity.done(&records[..1]);
        assert_eq!(figures(), (2, 1));
        activity.failed(&records[1..2]);
        activity.dropped(&records[2..]);
        assert_eq!(figures(), (0, 1));
    }
}
