//! Versions that the entity's latest item does not count, which are not put from a failure document or from quarantine.
//!
//! A record of the stream comes from a write of the latest item, so its version is counted. A document can be edited, or come
//! from before a purge or from a table that was restored: a version above the latest one would block the number for the update
//! that reaches it. A version that is stored already is not a failure.

use std::collections::{BTreeSet, HashMap};

use shared::{
    clock::Deadline,
    domain::{entity::EntityId, version::Version, version_item::VersionItem},
    dynamodb::{Store, put::put_version::PutOutcome},
};

use crate::{
    error::RecordFailure,
    purged::{in_time, not_read},
    record::Record,
    response::Outcome,
};

/// Adds the outcomes of records that have none, and whose version is not counted, or whose latest item could not be read.
pub(crate) async fn add_outcomes(
    store: &Store,
    records: &[Record],
    outcomes: &mut [Option<Outcome>],
    deadline: Deadline,
) {
    let entities: BTreeSet<_> = records
        .iter()
        .filter_map(Record::version)
        .map(VersionItem::entity)
        .collect();
    let entities: Vec<_> = entities.into_iter().cloned().collect();
    let latest = in_time(store.latest_versions(&entities, true), deadline).await;
    for (record, outcome) in records.iter().zip(outcomes) {
        if let (None, Some(version)) = (&outcome, record.version()) {
            *outcome = match &latest {
                Ok(latest) => outcome_of(store, version, latest).await,
                Err(failed) => Some(not_read(failed.clone()).into()),
            };
        }
    }
}

/// Returns the outcome of a version that the latest item does not count: it was recorded before, or is not put. `None` for a version that
/// is counted.
async fn outcome_of(store: &Store, version: &VersionItem, latest: &HashMap<EntityId, Version>) -> Option<Outcome> {
    let failure = match latest.get(version.entity()) {
        Some(latest) if version.version() <= *latest => return None,
        Some(latest) => RecordFailure::AboveLatest(*latest),
        None => RecordFailure::NoLatestItem,
    };
    Some(match store.preview_put(version).await {
        Ok(PutOutcome::Recorded) => failure.into(),
        stored => stored.into(),
    })
}
