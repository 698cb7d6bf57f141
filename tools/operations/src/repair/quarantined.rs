//! Repair of records in quarantine. A record whose version is missing, or was put in the meantime, leaves quarantine. The
//! others stay, until an operator deletes them.

use std::collections::{BTreeMap, BTreeSet};

use crate::latest::repair::{MAX_MISSING, Step};
use serde_json::{Value, json};
use shared::{
    domain::{entity::EntityId, quarantine::QuarantinedRecord, version::Version, version_item::VersionItem},
    dynamodb::{Store, put::put_version::PutOutcome},
};
use stream_fn::record::{self, Content};

use crate::{error::OperationError, shell::argument};

/// More than [`MAX_MISSING`] versions are missing before it.
const OUT_OF_REACH: &str = "its version is more than 10000 above the highest one of the entity";
/// Kind of a record whose version item DynamoDB rejected.
const REJECTED: &str = "Rejected";

/// Returns a step for each record that can leave quarantine, and the records that stay, with the reason. `highest` is the highest
/// version that is known of the entity.
pub(super) async fn plan(
    store: &Store,
    entity: &EntityId,
    highest: Version,
) -> Result<(Vec<(Version, Step)>, Vec<Value>), OperationError> {
    let (mut steps, mut left) = (Vec::<(Version, Step)>::new(), Vec::new());
    for record in crate::read::quarantined::quarantined(&store, entity).await? {
        let content = record::parse(&record.record, store.digits()).content;
        let Ok(Content::Version(version)) = content else {
            left.push(stays(&record, "it contains no valid version", "--drop-malformed"));
            continue;
        };
        // The latest item can be behind: the counter is repaired after the versions in quarantine are put.
        if version.version().get() > highest.get().saturating_add(MAX_MISSING) {
            left.push(stays(&record, OUT_OF_REACH, "--drop-conflicts"));
            continue;
        }
        match store.preview_put(&version).await? {
            PutOutcome::Recorded if record.kind == REJECTED => {
                left.push(stays(&record, "DynamoDB rejects its version item", "--drop-malformed"));
            }
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
    let ambiguous = ambiguous(&steps);
    let (released, unclear): (Vec<_>, Vec<_>) =
        steps.into_iter().partition(|(version, _)| !ambiguous.contains(version));
    left.extend(unclear.iter().filter_map(|(_, step)| match step {
        Step::Release { record, .. } => Some(stays(
            record,
            "quarantine contains different items for its version",
            "--drop-conflicts",
        )),
        _ => None,
    }));
    Ok((released, left))
}

/// Returns the versions for which quarantine contains different items.
fn ambiguous(steps: &[(Version, Step)]) -> BTreeSet<Version> {
    let mut found: BTreeMap<Version, &VersionItem> = BTreeMap::new();
    let mut ambiguous = BTreeSet::new();
    for (number, step) in steps {
        let Step::Release { version, .. } = step else { continue };
        let first = found.entry(*number).or_insert(version);
        if !first.is_same_as(version.item()) {
            ambiguous.insert(*number);
        }
    }
    ambiguous
}

fn stays(record: &QuarantinedRecord, why: &str, option: &str) -> Value {
    let id = record.entity.as_str();
    json!({
        "ID": id, "Step": "None", "Finding": "Quarantined", "SequenceNumber": record.number, "Version": record.version,
        "Why": format!("{why}; vzero admin redrive {} {option} deletes it", argument(&format!("quarantine:{id}"))),
    })
}
