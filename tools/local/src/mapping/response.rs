//! The function's response to a batch, under `ReportBatchItemFailures`.
//!
//! Each rule was recorded on AWS; see the fixture `tests/fixtures/stream-mapping.json`.

use serde_json::Value;
use shared::{domain::sequence::SequenceNumber, json};

use super::record::Record;

/// Returns the number of records that are done: those before the lowest sequence number in the response. `None` if the response is
/// invalid or names an unknown record.
pub(super) fn processed(response: &[u8], batch: &[Record]) -> Option<usize> {
    let failures = match json::parse_bytes(response) {
        _ if response.is_empty() => Vec::new(),
        Ok(Value::Null) => Vec::new(),
        Ok(Value::Array(list)) if list.is_empty() => list,
        Ok(Value::Object(mut members)) => match members.remove("batchItemFailures") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(failures)) => failures,
            Some(_) => return None,
        },
        _ => return None,
    };
    let index = |failure: &Value| {
        let number = SequenceNumber::new(failure.get("itemIdentifier")?.as_str()?)?;
        batch.iter().position(|record| *record.sequence_number() == number)
    };
    let indices: Vec<_> = failures.iter().map(index).collect::<Option<_>>()?;
    Some(indices.into_iter().min().unwrap_or(batch.len()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn recorded_responses_succeed_or_fail_the_batch() {
        let recorded: Value = serde_json::from_str(include_str!("../../tests/fixtures/stream-mapping.json")).unwrap();
        let batch = [Record::new(
            SequenceNumber::new("1").unwrap(),
            Duration::ZERO,
            Value::Null,
        )];
        for (answers, expected) in [("success", Some(1)), ("failure_of_the_batch", None)] {
            for answer in recorded["answers"][answers].as_array().unwrap() {
                assert_eq!(processed(answer.to_string().as_bytes(), &batch), expected, "{answer}");
            }
        }
        assert_eq!(processed(b"", &batch), Some(1));
    }
}
