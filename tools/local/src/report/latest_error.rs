//! The latest error of an invocation: of the response, or of the function's log, because the response to a batch names only
//! the failed records.

use serde_json::Value;
use shared::json;

use crate::lambda::InvokeOutput;

/// Returns the error of an invocation, if it has one. `response` is its parsed payload.
pub(super) fn of(response: &Value, output: &InvokeOutput) -> Option<String> {
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

    fn error(payload: &Value, is_error: bool, log: &str) -> Option<String> {
        let output = InvokeOutput {
            request_id: String::new(),
            payload: Vec::new(),
            is_error,
            log_tail: log.into(),
        };
        of(payload, &output)
    }

    #[test]
    fn a_failed_invocation_has_the_error_of_its_response() {
        let failed = |payload| error(&payload, true, "{\"error\": \"in the log\"}").unwrap();
        assert_eq!(
            failed(json!({"errorType": "VersionConflict", "errorMessage": "the latest version is 3"})),
            "VersionConflict: the latest version is 3"
        );
        assert_eq!(failed(json!({"errorType": "Sandbox.Timedout"})), "Sandbox.Timedout");
        assert_eq!(failed(json!([])), "failed without a response");
    }

    #[test]
    fn a_batch_has_the_last_error_of_its_log() {
        let log = "cut\"}\n{\"outcome\": \"FailedConflict\", \"error\": \"a\"}\n{\"error\": \"b\"}\n{\"message\": \"record\"}\nEND\n";
        assert_eq!(error(&json!({}), false, log), Some("b".to_owned()));
        let log = log.replace("{\"error\": \"b\"}\n", "");
        assert_eq!(error(&json!({}), false, &log), Some("FailedConflict: a".to_owned()));
        assert_eq!(error(&json!({}), false, "START\n{\"message\": \"record\"}\n"), None);
    }
}
