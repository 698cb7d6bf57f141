//! Counts updates and stream records as the functions and the mapping report them.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Mutex,
};

use serde_json::Value;
use shared::{domain::quarantine, json};

use crate::{
    feed::WRITER,
    lambda::{InvocationObserver, InvokeOutput},
    lock,
    mapping::{Progress, RecordObserver, record::Record},
};

/// Maximum length of an outcome's name.
const MAX_NAME_LENGTH: usize = 40;

#[derive(Debug, Default)]
pub struct Activity(Mutex<Figures>);

#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// Number of updates that writer-fn accepted, by outcome.
    pub applied: BTreeMap<String, u64>,
    /// Number of updates that writer-fn rejected, by error type.
    pub rejected: BTreeMap<String, u64>,
    /// Latest error of a function, with the function's name.
    pub error: Option<String>,
    /// Sequence numbers of the records in flight.
    waiting: HashSet<String>,
    done: u64,
    /// Number of records that were put into quarantine, and of those that left it.
    quarantined: u64,
    released: u64,
}

impl Figures {
    /// Returns the number of versions in history after processing by stream-fn.
    pub fn versions(&self) -> u64 {
        self.done.saturating_sub(self.quarantined)
    }

    /// Returns the number of records in flight to stream-fn.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the number of records in quarantine.
    pub fn quarantined(&self) -> u64 {
        self.quarantined.saturating_sub(self.released)
    }
}

impl Activity {
    pub fn figures(&self) -> Figures {
        lock(&self.0).clone()
    }
}

impl InvocationObserver for Activity {
    fn invoked(&self, binary: &str, event: &[u8], output: &InvokeOutput) {
        let response = json::parse_bytes(&output.payload).unwrap_or_default();
        let mut figures = lock(&self.0);
        if let Some(error) = latest_error(&response, output) {
            figures.error = Some(format!("{binary}: {error}"));
        }
        if binary != WRITER {
            return;
        }
        let (mut applied, mut rejected) = ((String::new(), 0), (String::new(), 0));
        if output.is_error {
            rejected = (name(&response["errorType"]), messages(event));
        } else if let Some(failures) = response["batchItemFailures"].as_array() {
            // The response to a batch names only the failed messages.
            let failed = failures.len() as u64;
            applied = ("Accepted".to_owned(), messages(event).saturating_sub(failed));
            rejected = ("Failed".to_owned(), failed);
        } else {
            applied = (name(&response["Outcome"]), 1);
        }
        let Figures {
            applied: all_applied,
            rejected: all_rejected,
            ..
        } = &mut *figures;
        for (all, (name, count)) in [(all_applied, applied), (all_rejected, rejected)] {
            if count > 0 {
                *all.entry(name).or_default() += count;
            }
        }
    }
}

impl RecordObserver for Activity {
    fn observe(&self, progress: Progress, records: &[Record]) {
        let mut figures = lock(&self.0);
        for record in records {
            let number = record.sequence_number().as_str();
            match progress {
                Progress::Filtered => figures.filtered(record.json()),
                Progress::Queued => {
                    figures.waiting.insert(number.to_owned());
                }
                Progress::Done | Progress::Failed | Progress::Dropped => {
                    figures.waiting.remove(number);
                    figures.done += u64::from(progress == Progress::Done);
                }
            }
        }
    }
}

impl Figures {
    /// Counts changes of quarantine, which stream-fn makes in the same table.
    fn filtered(&mut self, record: &Value) {
        let key = record.pointer("/dynamodb/Keys/SK/S").and_then(Value::as_str);
        match record["eventName"].as_str() {
            Some("INSERT") if key.is_some_and(quarantine::is_first) => self.quarantined += 1,
            Some("REMOVE") if key.is_some_and(quarantine::is_first) => self.released += 1,
            _ => {}
        }
    }
}

/// Counts the updates of an event.
fn messages(event: &[u8]) -> u64 {
    let event = std::str::from_utf8(event).ok();
    let event = event.and_then(|event| json::members(event).ok());
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
    let letters = value.as_str().unwrap_or("Answered").chars();
    let kept = letters.filter(|letter| letter.is_ascii_alphanumeric() || *letter == '.');
    kept.take(MAX_NAME_LENGTH).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use shared::domain::sequence::SequenceNumber;

    use super::*;

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
    fn records_wait_until_the_mapping_is_done_with_them_and_quarantined_ones_are_no_versions() {
        let activity = Activity::default();
        let records = [1, 2, 3, 4, 5].map(|number| record(number, json!({})));
        let check = |versions, waiting, quarantined| {
            let figures = activity.figures();
            let found = (figures.versions(), figures.waiting(), figures.quarantined());
            assert_eq!(found, (versions, waiting, quarantined));
        };
        activity.observe(Progress::Queued, &records);
        check(0, 5, 0);
        activity.observe(Progress::Done, &records[..3]);
        check(3, 2, 0);
        activity.observe(Progress::Failed, &records[3..4]);
        activity.observe(Progress::Dropped, &records[4..]);
        check(3, 0, 0);
        for (event, key, versions, quarantined) in [
            ("INSERT", "v1", 3, 0),
            ("INSERT", "quarantine#2", 2, 1),
            ("INSERT", "quarantine#2#2", 2, 1),
            ("INSERT", "quarantine#3", 1, 2),
            ("REMOVE", "quarantine#3", 1, 1),
        ] {
            let change = json!({"eventName": event, "dynamodb": {"Keys": {"PK": {"S": "a"}, "SK": {"S": key}}}});
            activity.observe(Progress::Filtered, &[record(9, change)]);
            check(versions, 0, quarantined);
        }
    }

    #[test]
    fn updates_are_counted_by_outcome() {
        let activity = Activity::default();
        let (one, batch) = (json!({}), json!({"Records": [{}, {}, {}]}));
        for invoked in [
            (&one, json!({"ID": "a", "Version": 1, "Outcome": "Written"}), false),
            (&one, json!({"ID": "a", "Version": 1, "Outcome": "Duplicate"}), false),
            (&one, json!({"errorType": "VersionConflict"}), true),
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
            let counts = counts.iter().map(|(name, count)| format!("{name}={count}"));
            counts.collect::<Vec<_>>().join(" ")
        };
        let applied = "Accepted=5 Answered=1 Duplicate=1 Written=1";
        assert_eq!(counted(&figures.applied), applied);
        let long = "ab2J".repeat(10);
        let rejected = format!("Failed=1 Sandbox.Timedout=3 VersionConflict=1 {long}=1");
        assert_eq!(counted(&figures.rejected), rejected);
    }

    #[test]
    fn the_latest_error_is_that_of_the_response_or_the_last_of_the_log() {
        let activity = Activity::default();
        let named = json!({"errorType": "VersionConflict", "errorMessage": "the latest version is 3"});
        let failed = r#"{"outcome": "Failed", "error": "a"}"#;
        for (response, is_error, log, expected) in [
            (
                named,
                true,
                r#"{"error": "in the log"}"#,
                "VersionConflict: the latest version is 3",
            ),
            (json!({"errorType": "Sandbox.Timedout"}), true, "", "Sandbox.Timedout"),
            (json!([]), true, "", "failed without a response"),
            (
                json!({}),
                false,
                &format!("cut\"}}\n{failed}\n{{\"error\": \"b\"}}\n{{\"message\": \"record\"}}\nEND\n"),
                "b",
            ),
            (
                json!({}),
                false,
                &format!("{failed}\n{{\"message\": \"record\"}}\n"),
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
