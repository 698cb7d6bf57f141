//! Repair of records in quarantine. A record whose version is missing, or was put in the meantime, leaves quarantine. The
//! others stay, until an operator deletes them.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use shared::{
    domain::{entity::EntityId, quarantine::QuarantinedRecord, version::Version, version_item::VersionItem},
    dynamodb::{Store, put::put_version::PutOutcome},
};
use stream_fn::record::{self, Content};

use attach::shell::argument;

use super::entity::MAX_MISSING;
use crate::{error::OperationError, quarantine::quarantined};

/// More than [`MAX_MISSING`] versions are missing before it.
const OUT_OF_REACH: &str = "its version is more than 10000 above the highest one of the entity";
const AMBIGUOUS: &str = "quarantine contains different items for its version";
const DROP_CONFLICTS: &str = "--drop-conflicts";
const DROP_MALFORMED: &str = "--drop-malformed";
/// Kind of a record whose version item DynamoDB rejected.
const REJECTED: &str = "Rejected";

/// Returns the records that can leave quarantine with their versions, and the records that stay, with the reason. `highest` is the
/// highest version that is known of the entity.
pub(super) async fn plan(
    store: &Store,
    entity: &EntityId,
    highest: Version,
) -> Result<(Vec<(VersionItem, QuarantinedRecord)>, Vec<Value>), OperationError> {
    let (mut found, mut left) = (BTreeMap::<Version, Vec<_>>::new(), Vec::new());
    for record in quarantined(store, entity).await? {
        match releasable(store, &record, highest).await? {
            Ok(version) => found.entry(version.version()).or_default().push((version, record)),
            Err((why, option)) => left.push(stays(&record, why, option)),
        }
    }
    let is_clear = |records: &Vec<(VersionItem, _)>| {
        let (first, _) = &records[0];
        records.iter().all(|(version, _)| version.is_same_as(first.item()))
    };
    let (clear, ambiguous): (Vec<_>, Vec<_>) = found.into_values().partition(is_clear);
    let ambiguous = ambiguous.iter().flatten();
    left.extend(ambiguous.map(|(_, record)| stays(record, AMBIGUOUS, DROP_CONFLICTS)));
    Ok((clear.into_iter().flatten().collect(), left))
}

/// Returns the version of a record that can leave quarantine. Otherwise the reason why it stays, and the option that deletes it.
async fn releasable(
    store: &Store,
    record: &QuarantinedRecord,
    highest: Version,
) -> Result<Result<VersionItem, (&'static str, &'static str)>, OperationError> {
    let Ok(Content::Version(version)) = record::parse(&record.record, store.digits()).content else {
        return Ok(Err(("it contains no valid version", DROP_MALFORMED)));
    };
    // The latest item can be behind: the counter is repaired after the versions in quarantine are put.
    if version.version().get() > highest.get().saturating_add(MAX_MISSING) {
        return Ok(Err((OUT_OF_REACH, DROP_CONFLICTS)));
    }
    Ok(match store.preview_put(&version).await? {
        PutOutcome::Recorded if record.kind == REJECTED => Err(("DynamoDB rejects its version item", DROP_MALFORMED)),
        PutOutcome::Recorded | PutOutcome::AlreadyRecorded => Ok(version),
        PutOutcome::Conflict => Err(("a different item is stored as its version", DROP_CONFLICTS)),
    })
}

fn stays(record: &QuarantinedRecord, why: &str, option: &str) -> Value {
    let id = record.entity.as_str();
    json!({
        "ID": id, "Step": "None", "Finding": "Quarantined", "SequenceNumber": record.number, "Version": record.version,
        "Why": format!("{why}; vzero admin redrive {} {option} deletes it", argument(&format!("quarantine:{id}"))),
    })
}
