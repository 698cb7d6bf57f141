//! Counts updates as the functions report them.

use std::{collections::BTreeMap, sync::Mutex};

use serde_json::Value;
use shared::json;

use crate::{feed::WRITER, lambda::InvokeOutput, lock};

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
}

impl Activity {
    pub fn figures(&self) -> Figures {
        lock(&self.0).clone()
    }

    /// Counts the updates of an invocation.
    pub(crate) fn invoked(&self, binary: &str, event: &[u8], output: &InvokeOutput) {
        let response = json::parse_bytes(&output.payload).unwrap_or_default();
        let mut figures = lock(&self.0);
        if let Some(error) = latest_error(&response, output) {
            figures.error = Some(format!("{binary}: {error}"));
        }
        if binary != WRITER {
            return;
        }
        let mut count = |is_applied, name, count| {
            let Figures { applied, rejected, .. } = &mut *figures;
            if count > 0 {
                let counts = if is_applied { applied } else { rejected };
                *counts.entry(name).or_default() += count;
            }
        };
        if output.is_error {
            count(false, name(&response["errorType"]), messages(event));
        } else if let Some(failures) = response["batchItemFailures"].as_array() {
            // The response to a batch names only the failed messages.
            let failed = failures.len() as u64;
            count(true, "Accepted".to_owned(), messages(event).saturating_sub(failed));
            count(false, "Failed".to_owned(), failed);
        } else {
            count(true, name(&response["Outcome"]), 1);
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
    use serde_json::json;

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
        let (failed, record) = (r#"{"outcome": "Failed", "error": "a"}"#, r#"{"message": "record"}"#);
        let several = format!("cut\"}}\n{failed}\n{{\"error\": \"b\"}}\n{record}\nEND\n");
        for (response, is_error, log, expected) in [
            (&named, true, failed, "VersionConflict: the latest version is 3"),
            (&json!({"errorType": "Sandbox.Timedout"}), true, "", "Sandbox.Timedout"),
            (&json!([]), true, "", "failed without a response"),
            (&json!({}), false, &several, "b"),
            (&json!({}), false, failed, "Failed: a"),
            // The error before stays.
            (&json!({}), false, record, "Failed: a"),
        ] {
            invoke(&activity, "f", (&json!({}), response.clone(), is_error), log);
            assert_eq!(activity.figures().error, Some(format!("f: {expected}")), "{log}");
        }
    }
}
