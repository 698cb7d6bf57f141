//! What a function's answer says of its batch.
//!
//! Each rule here was recorded on AWS; see the fixture `tests/fixtures/stream-mapping.json`.

use serde_json::Value;
use shared::domain::sequence::SequenceNumber;

use super::record::Record;

/// What an answer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// All records are done.
    Done,
    /// The records from this one on are to be delivered again.
    FailedFrom(usize),
    /// The answer names no record of the batch: all are to be delivered again.
    Failed,
}

/// Reads an answer under `ReportBatchItemFailures`. The lowest sequence number in it decides.
pub fn read(answer: &[u8], batch: &[Record]) -> Verdict {
    let Some(failures) = failures(answer) else {
        return Verdict::Failed;
    };
    let indices: Option<Vec<usize>> = failures.iter().map(|failure| index(failure, batch)).collect();
    match indices.map(|indices| indices.into_iter().min()) {
        None => Verdict::Failed,
        Some(None) => Verdict::Done,
        Some(Some(index)) => Verdict::FailedFrom(index),
    }
}

/// The items that an answer says failed. `None` where it says nothing that can be read.
pub(crate) fn failures(answer: &[u8]) -> Option<Vec<Value>> {
    if answer.is_empty() {
        return Some(Vec::new());
    }
    match serde_json::from_slice(answer) {
        Ok(Value::Null) => Some(Vec::new()),
        Ok(Value::Array(list)) if list.is_empty() => Some(list),
        Ok(Value::Object(mut members)) => match members.remove("batchItemFailures") {
            None | Some(Value::Null) => Some(Vec::new()),
            Some(Value::Array(failures)) => Some(failures),
            Some(_) => None,
        },
        _ => None,
    }
}

fn index(failure: &Value, batch: &[Record]) -> Option<usize> {
    let number = SequenceNumber::new(failure.get("itemIdentifier")?.as_str()?)?;
    batch.iter().position(|record| *record.sequence_number() == number)
}
