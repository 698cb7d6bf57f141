//! Repair of records in quarantine. A record whose version is missing, or was put in the meantime, leaves quarantine. The
//! others stay, until an operator deletes them.

use serde_json::{Value, json, value::RawValue};
use shared::{
    domain::{entity::EntityId, quarantine::QuarantinedRecord, repair::Step, version::Version},
    dynamodb::{Store, put::put_version::PutOutcome},
};
use stream_fn::record::{self, Content};

use crate::error::OperationError;

/// Returns a step for each record that can leave quarantine, and the records that stay, with the reason.
pub(super) async fn plan(
    store: &Store,
    entity: &EntityId,
) -> Result<(Vec<(Version, Step)>, Vec<Value>), OperationError> {
    let (mut steps, mut left) = (Vec::new(), Vec::new());
    for record in store.quarantined(entity).await? {
        let raw = RawValue::from_string(record.record.clone()).ok();
        let content = raw.map(|raw| record::parse(&raw, store.digits()).content);
        let Some(Ok(Content::Version(version))) = content else {
            left.push(stays(&record, "it contains no valid version", "--drop-malformed"));
            continue;
        };
        match store.preview_put(&version).await? {
            PutOutcome::Recorded | PutOutcome::AlreadyRecorded => {
                steps.push((version.version(), Step::Release { version, record }));
            }
            PutOutcome::Conflict => {
                left.push(stays(
                    &record,
                    "a different item is stored as its version",
                    "--drop-conflicts",
                ));
            }
        }
    }
    Ok((steps, left))
}

fn stays(record: &QuarantinedRecord, why: &str, option: &str) -> Value {
    let id = record.entity.as_str();
    json!({
        "ID": id, "Step": "None", "Finding": "Quarantined", "SequenceNumber": record.number, "Version": record.version,
        "Why": format!("{why}; vzero redrive quarantine:{id} {option} deletes it"),
    })
}
