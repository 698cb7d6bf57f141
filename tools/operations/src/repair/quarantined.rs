//! Repair of records in quarantine. A record whose version is missing, or was put in the meantime, leaves quarantine. The
//! others stay, until an operator deletes them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json, value::RawValue};
use shared::{
    domain::{
        entity::EntityId, quarantine::QuarantinedRecord, repair::Step, version::Version, version_item::VersionItem,
    },
    dynamodb::{Store, put::put_version::PutOutcome},
};
use stream_fn::{
    counted::LatestVersions,
    record::{self, Content},
};

use crate::error::OperationError;

/// Kind of a record whose version item DynamoDB rejected.
const REJECTED: &str = "Rejected";

/// Returns a step for each record that can leave quarantine, and the records that stay, with the reason.
pub(super) async fn plan(
    store: &Store,
    entity: &EntityId,
) -> Result<(Vec<(Version, Step)>, Vec<Value>), OperationError> {
    let (mut steps, mut left) = (Vec::<(Version, Step)>::new(), Vec::new());
    let latest = LatestVersions::read(store, [entity]).await?;
    for record in store.quarantined(entity).await? {
        let raw = RawValue::from_string(record.record.clone()).ok();
        let content = raw.map(|raw| record::parse(&raw, store.digits()).content);
        let Some(Ok(Content::Version(version))) = content else {
            left.push(stays(&record, "it contains no valid version", "--drop-malformed"));
            continue;
        };
        if let Err(failure) = latest.check(&version) {
            left.push(stays(&record, &failure.to_string(), "--drop-conflicts"));
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

/// Returns the text as one word of a POSIX shell.
fn quoted(text: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "#:._-/@%+=,".contains(character);
    match text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

fn stays(record: &QuarantinedRecord, why: &str, option: &str) -> Value {
    let id = record.entity.as_str();
    json!({
        "ID": id, "Step": "None", "Finding": "Quarantined", "SequenceNumber": record.number, "Version": record.version,
        "Why": format!("{why}; vzero redrive {} {option} deletes it", quoted(&format!("quarantine:{id}"))),
    })
}
