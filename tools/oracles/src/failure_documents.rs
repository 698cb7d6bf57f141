//! The failure documents of the event source mapping.

use std::time::Duration;

use local::mapping::{
    Identity,
    failure::{Failure, Reason},
    record::Record,
};
use serde_json::Value;
use shared::domain::sequence::SequenceNumber;

/// A document, or any JSON with a payload of records: what the mapping writes of its records has them as they were, and
/// says where they were.
pub fn failure_documents(input: &[u8]) {
    let Ok(document) = serde_json::from_slice::<Value>(input) else {
        return;
    };
    let Some(Value::Array(records)) = document.pointer("/payload/Records") else {
        return;
    };
    let number = |record: &Value| {
        let number = record.pointer("/dynamodb/SequenceNumber").and_then(Value::as_str);
        SequenceNumber::new(number.unwrap_or("1"))
    };
    let numbered = records
        .iter()
        .filter_map(|json| Some(Record::new(number(json)?, Duration::ZERO, json.clone())));
    let written: Vec<_> = numbered.collect();
    let failure = Failure {
        identity: &Identity {
            uuid: "mapping".to_owned(),
            function_arn: "function".to_owned(),
            stream_arn: "stream".to_owned(),
        },
        shard: "shard",
        records: &written,
        reason: Reason::RecordAgeExceeded {
            request_id: None,
            invoke_count: 1,
        },
        now: Duration::ZERO,
        id: "id".to_owned(),
    };
    let body = failure.document().body;
    let again: Value = serde_json::from_str(&body.to_string()).unwrap_or_default();
    assert_eq!(again, body, "a document that does not come back from its own print");
    let kept: Vec<_> = written.iter().map(|record| record.json().clone()).collect();
    assert_eq!(
        again["payload"]["Records"],
        Value::Array(kept),
        "its records come back different"
    );
    let bound = |name: &str| again["DDBStreamBatchInfo"][name].as_str().map(str::to_owned);
    assert_eq!(
        bound("startSequenceNumber"),
        written
            .first()
            .map(|record| record.sequence_number().as_str().to_owned())
    );
    assert_eq!(
        bound("endSequenceNumber"),
        written
            .last()
            .map(|record| record.sequence_number().as_str().to_owned())
    );
}
