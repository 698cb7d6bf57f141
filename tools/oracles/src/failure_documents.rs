//! The parser of failure documents, and the code of the event source mapping that creates them.

use std::time::Duration;

use local::mapping::{
    Identity,
    failure::{Failure, Reason},
    record::Record,
};
use operations::failures::{
    document::{Batch, Document, parse},
    table_id::TableId,
};
use serde_json::Value;
use shared::json;

use crate::errors;

/// Parses the input as a failure document. It must contain records or their position in the stream, and a document that the
/// mapping creates from it must parse to the same content.
pub fn failure_documents(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let _ = TableId::of_arn(text);
    match parse(text) {
        Err(error) => errors::check(&error, ""),
        Ok(document) => {
            let is_empty = document.batch.is_none() && document.records.is_none();
            assert!(!is_empty, "a document without records and position");
            if let Some(batch) = &document.batch {
                assert!(batch.first <= batch.last && batch.size > 0);
                if let Some(table) = TableId::of_arn(&batch.stream_arn) {
                    assert!(!table.name.is_empty() && batch.stream_arn.contains(&table.name));
                }
            }
            check_created_document(&document);
        }
    }
}

fn check_created_document(document: &Document) {
    let (Some(batch), Some(records)) = (&document.batch, &document.records) else {
        return;
    };
    // Raw JSON can be nested too deeply, or contain numbers too large, for a JSON value.
    let parsed: Result<Vec<Value>, _> = records.iter().map(|raw| json::parse(raw)).collect();
    let Some(parsed) = parsed.ok().filter(|parsed| !parsed.is_empty()) else {
        return;
    };
    let last = parsed.len() - 1;
    let written = parsed.iter().enumerate().map(|(index, json)| {
        let number = if index == last { &batch.last } else { &batch.first };
        Record::new(number.clone(), Duration::ZERO, json.clone())
    });
    let identity = Identity {
        uuid: "mapping".to_owned(),
        function_arn: "function".to_owned(),
        stream_arn: batch.stream_arn.clone(),
    };
    let failure = Failure {
        records: written.collect(),
        request_id: "r".to_owned(),
        invoke_count: 1,
        reason: Reason::RecordAgeExceeded,
    };
    let created = failure.document(&identity, &batch.shard, Duration::ZERO);
    let again = parse(&created.body.to_string());
    let (Some(found), Some(records)) = again.map(|again| (again.batch, again.records)).unwrap_or_default() else {
        panic!("the document of the mapping is rejected")
    };
    let records: Vec<Value> = records.iter().filter_map(|raw| json::parse(raw).ok()).collect();
    assert!(records == parsed, "different records");
    let position = |batch: &Batch| (batch.stream_arn.clone(), batch.shard.clone(), batch.last.clone());
    assert!(position(&found) == position(batch) && (last == 0 || found.first == batch.first));
}
