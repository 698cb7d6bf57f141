//! Counts updates as writer-fn responds to them, and keeps the latest error of a function.

use std::sync::Mutex;

use serde_json::Value;
use shared::json;

use crate::{feed::WRITER, lambda::InvokeOutput, lock};

#[derive(Debug, Default)]
pub struct Activity(Mutex<Figures>);

#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// Number of updates that writer-fn received.
    pub updates: usize,
    /// Number of updates that writer-fn rejected.
    pub refused: usize,
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
        if binary == WRITER {
            let updates = messages(event);
            // The response to a batch names the failed messages.
            let failed = response["batchItemFailures"].as_array().map_or(0, Vec::len);
            figures.updates += updates;
            figures.refused += if output.is_error { updates } else { failed };
        }
    }
}

/// Counts the updates of an event.
fn messages(event: &[u8]) -> usize {
    let event = std::str::from_utf8(event).ok();
    let event = event.and_then(|event| json::members(event).ok());
    let records = event.and_then(|event| json::elements(event.get("Records")?).ok());
    records.map_or(1, |records| records.len())
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
    fn updates_are_counted() {
        let activity = Activity::default();
        let (one, batch) = (json!({}), json!({"Records": [{}, {}, {}]}));
        for (binary, event, response, is_error, expected) in [
            (
                WRITER,
                &one,
                json!({"ID": "a", "Version": 1, "Outcome": "Written"}),
                false,
                (1, 0),
            ),
            (WRITER, &one, json!({"errorType": "VersionConflict"}), true, (2, 1)),
            // Each message of a batch is an update.
            (
                WRITER,
                &batch,
                json!({"batchItemFailures": [{"itemIdentifier": "m-2"}]}),
                false,
                (5, 2),
            ),
            (WRITER, &batch, json!({"batchItemFailures": []}), false, (8, 2)),
            (WRITER, &batch, json!({"errorType": "Sandbox.Timedout"}), true, (11, 5)),
            // An invalid response.
            (WRITER, &json!(1), json!([]), false, (12, 5)),
            ("stream-fn", &batch, json!({}), true, (12, 5)),
        ] {
            invoke(&activity, binary, (event, response, is_error), "");
            let figures = activity.figures();
            assert_eq!((figures.updates, figures.refused), expected, "{event}");
        }
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
