//! The failure documents of the event source mapping.

use std::time::Duration;

use local::mapping::{
    Identity,
    failure::{Failure, Reason},
    record::Record,
};
use operations::failures::document::{Document, parse, table_of};
use serde_json::Value;

/// A document is refused by name, or it names records or where they were. What it names comes back from a document that the
/// mapping writes of it.
pub fn failure_documents(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let _ = table_of(text);
    match parse(text) {
        Err(error) => crate::check_error(&error, &format!("{error:?}"), ""),
        Ok(document) => {
            assert!(
                document.batch.is_some() || document.records.is_some(),
                "a document of nothing"
            );
            if let Some(batch) = &document.batch {
                assert!(batch.first <= batch.last && batch.size > 0);
                if let Some(table) = table_of(&batch.stream_arn) {
                    assert!(!table.is_empty() && batch.stream_arn.contains(table));
                }
            }
            written_again(&document);
        }
    }
}

fn written_again(document: &Document) {
    let (Some(batch), Some(records)) = (&document.batch, &document.records) else {
        return;
    };
    if records.is_empty() {
        return;
    }
    // Numbers that are too deep, or too long, are no JSON values.
    let parsed: Result<Vec<Value>, _> = records.iter().map(|raw| serde_json::from_str(raw.get())).collect();
    let Ok(parsed) = parsed else { return };
    let last = parsed.len() - 1;
    let written = parsed.iter().enumerate().map(|(index, json)| {
        let number = if index == last { &batch.last } else { &batch.first };
        Record::new(number.clone(), Duration::ZERO, json.clone())
    });
    let failure = Failure {
        identity: &Identity {
            uuid: "mapping".to_owned(),
            function_arn: "function".to_owned(),
            stream_arn: batch.stream_arn.clone(),
        },
        shard: &batch.shard,
        records: &written.collect::<Vec<_>>(),
        reason: Reason::RecordAgeExceeded {
            request_id: None,
            invoke_count: 1,
        },
        now: Duration::ZERO,
        id: "id".to_owned(),
    };
    let Ok(again) = parse(&failure.document().body.to_string()) else {
        panic!("what the mapping writes is refused")
    };
    assert_eq!(again.context.condition.as_deref(), Some("RecordAgeExceeded"));
    let texts = |records: &[Box<serde_json::value::RawValue>]| -> Vec<Value> {
        records
            .iter()
            .filter_map(|raw| serde_json::from_str(raw.get()).ok())
            .collect()
    };
    assert!(
        again.records.is_some_and(|again| texts(&again) == parsed),
        "its records come back different"
    );
    let (Some(found), single) = (again.batch, records.len() == 1) else {
        panic!("where it was is lost")
    };
    assert_eq!(
        (found.stream_arn, found.shard),
        (batch.stream_arn.clone(), batch.shard.clone())
    );
    assert!(
        found.last == batch.last && (single || found.first == batch.first),
        "its bounds come back different"
    );
}
