//! Counts updates and stream records as the functions and the mapping report them.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Mutex, PoisonError},
};

use serde_json::Value;
use shared::{domain::quarantine, json};

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
        if let Some(error) = latest_error(&response, output) {
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

/// Returns the error of an invocation, if it has one: of the response, or the last one of the function's log, because the response
/// to a batch names only the failed records. `response` is the parsed payload.
fn latest_error(response: &Value, output: &InvokeOutput) -> Option<String> {
    if output.is_error {
        let text = |name: &str| response[name].as_str().unwrap_or_default();
        return Some(match (text("errorType"), text("errorMessage")) {
            ("", "") => "failed without a response".to_owned(),
            (kind, "") => kind.to_owned(),
            (kind, message) => format!("{kind}: {message}"),
        });
    }
    let lines = output.log_tail.split(|byte| *byte == b'\n').rev();
    let mut entries = lines.filter_map(|line| json::parse_bytes(line).ok());
    entries.find_map(|entry| {
        let error = entry["error"].as_str()?;
        let outcome = entry["outcome"].as_str().map(|outcome| format!("{outcome}: "));
        Some(format!("{}{error}", outcome.unwrap_or_default()))
    })
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

    fn invoke(activity: &Activity, binary: &str, (event, response, is_error): (&Value, Value, bool), log: &str) {
        let output = InvokeOutput {
            request_id: String::new(),
            payload: response.to_string().into_bytes(),
            is_error,
            log_tail: log.into(),
        };
        activity.invoked(binary, event.to_string().as_bytes(), &output);
    }

    fn record(number: u64, json: Value) -> Record {
        Record::new(SequenceNumber::new(number.to_string()).unwrap(), Duration::ZERO, json)
    }

    #[test]
    fn quarantined_records_are_no_versions() {
        let activity = Activity::default();
        activity.done(&[1, 2, 3].map(|number| record(number, json!({}))));
        for (event, key, versions, quarantined) in [
            ("INSERT", "v1", 3, 0),
            ("INSERT", "quarantine#2", 2, 1),
            ("INSERT", "quarantine#2#2", 2, 1),
            ("INSERT", "quarantine#3", 1, 2),
            ("REMOVE", "quarantine#3", 1, 1),
        ] {
            let change = json!({"eventName": event, "dynamodb": {"Keys": {"PK": {"S": "a"}, "SK": {"S": key}}}});
            activity.filtered(&record(9, change));
            let figures = activity.figures();
            let found = (figures.versions, figures.quarantined);
            assert_eq!(found, (versions, quarantined), "{event} {key}");
        }
    }

    #[test]
    fn updates_are_counted_by_outcome() {
        let activity = Activity::default();
        let (one, batch) = (json!({}), json!({"Records": [{}, {}, {}]}));
        for invoked in [
            (&one, json!({"ID": "a", "Version": 1, "Outcome": "Written"}), false),
            (&one, json!({"ID": "a", "Version": 1, "Outcome": "Duplicate"}), false),
            (
                &one,
                json!({"errorType": "VersionConflict", "errorMessage": "no"}),
                true,
            ),
            (&batch, json!({"batchItemFailures": [{"itemIdentifier": "m-2"}]}), false),
            (&batch, json!({"batchItemFailures": []}), false),
            (&batch, json!({"errorType": "Sandbox.Timedout"}), true),
            // An invalid response, and an invalid name.
            (&json!(1), json!([]), false),
            (&one, json!({"errorType": "a b\u{1b}[2J".repeat(20)}), true),
        ] {
            invoke(&activity, WRITER, invoked, "");
        }
        invoke(&activity, "stream-fn", (&one, json!({}), true), "");
        // Each message of a batch is an update.
        let figures = activity.figures();
        let counted = |counts: &BTreeMap<String, u64>| {
            counts
                .iter()
                .map(|(name, count)| format!("{name}={count}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            counted(&figures.applied),
            ["Accepted=5", "Answered=1", "Duplicate=1", "Written=1"]
        );
        let long = format!("{}=1", "ab2J".repeat(10));
        assert_eq!(
            counted(&figures.rejected),
            ["Failed=1", "Sandbox.Timedout=3", "VersionConflict=1", &long]
        );
    }

    #[test]
    fn a_record_waits_until_the_mapping_is_done_with_it() {
        let activity = Activity::default();
        let records = [1, 2, 3].map(|number| record(number, json!({})));
        let figures = || (activity.figures().waiting, activity.figures().versions);
        activity.queued(&records.each_ref());
        assert_eq!(figures(), (3, 0));
        activity.done(&records[..1]);
        assert_eq!(figures(), (2, 1));
        activity.failed(&records[1..2]);
        activity.dropped(&records[2..]);
        assert_eq!(figures(), (0, 1));
    }

    #[test]
    fn the_latest_error_is_that_of_the_response_or_the_last_of_the_log() {
        let activity = Activity::default();
        let named = json!({"errorType": "VersionConflict", "errorMessage": "the latest version is 3"});
        for (response, is_error, log, expected) in [
            (
                named,
                true,
                "{\"error\": \"in the log\"}",
                "VersionConflict: the latest version is 3",
            ),
            (json!({"errorType": "Sandbox.Timedout"}), true, "", "Sandbox.Timedout"),
            (json!([]), true, "", "failed without a response"),
            (
                json!({}),
                false,
                "cut\"}\n{\"outcome\": \"Failed\", \"error\": \"a\"}\n{\"error\": \"b\"}\n{\"message\": \"record\"}\nEND\n",
                "b",
            ),
            (
                json!({}),
                false,
                "{\"outcome\": \"Failed\", \"error\": \"a\"}\n{\"message\": \"record\"}\n",
                "Failed: a",
            ),
            // The error before stays.
            (json!({}), false, "START\n{\"message\": \"record\"}\n", "Failed: a"),
        ] {
            invoke(&activity, "f", (&json!({}), response, is_error), log);
            assert_eq!(activity.figures().error, Some(format!("f: {expected}")), "{log}");
        }
    }
}
