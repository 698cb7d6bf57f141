//! Versions that the entity's latest item does not count, which are not put from a failure document or from quarantine.
//!
//! A record of the stream comes from a write of the latest item, so its version is counted. A document can be edited, or come
//! from before a purge or from a table that was restored: a version above the latest one would block the number for the update
//! that reaches it. A version that is stored already is not a failure.

use std::collections::{BTreeSet, HashMap};

use futures::{StreamExt as _, stream};
use shared::{
    clock::Deadline,
    domain::{entity::EntityId, version::Version, version_item::VersionItem},
    dynamodb::{
        Store,
        put::put_version::{PutError, PutOutcome},
    },
};

use crate::{
    error::RecordFailure,
    record::{Content, Record},
    response::Outcome,
};

/// Latest versions of entities, as their latest items count them.
#[derive(Debug, Default)]
pub struct LatestVersions(HashMap<EntityId, Version>);

impl LatestVersions {
    /// Reads the latest items of these entities, with consistent reads.
    ///
    /// # Errors
    ///
    /// Returns [`PutError`] if a request fails.
    pub async fn read<'a>(store: &Store, entities: impl IntoIterator<Item = &'a EntityId>) -> Result<Self, PutError> {
        let entities: BTreeSet<_> = entities.into_iter().cloned().collect();
        let entities: Vec<_> = entities.into_iter().collect();
        store.latest_versions(&entities, true).await.map(Self).map_err(PutError)
    }

    /// Returns the outcome of a version that the latest item does not count: it was recorded before, or is not put. `None` for a
    /// version that is counted.
    pub async fn outcome(&self, store: &Store, version: &VersionItem) -> Option<Outcome> {
        let failure = match self.0.get(version.entity()) {
            Some(latest) if version.version() <= *latest => return None,
            Some(latest) => RecordFailure::AboveLatest(*latest),
            None => RecordFailure::NoLatestItem,
        };
        Some(match store.preview_put(version).await {
            Ok(PutOutcome::Recorded) => failure.into(),
            stored => stored.into(),
        })
    }
}

/// Returns, for each record, the outcome of one whose version is not counted, or whose latest item could not be read.
pub(crate) async fn outcomes(store: &Store, records: &[Record], deadline: Deadline) -> Vec<Option<Outcome>> {
    let versions: Vec<_> = records.iter().map(version_of).collect();
    let latest = read(
        store,
        versions.iter().flatten().map(|version| version.entity()),
        deadline,
    )
    .await;
    stream::iter(versions)
        .then(async |version| outcome(store, &latest, version?).await)
        .collect()
        .await
}

/// Returns `None` for a version that is counted.
async fn outcome(
    store: &Store,
    latest: &Result<LatestVersions, Option<PutError>>,
    version: &VersionItem,
) -> Option<Outcome> {
    match latest {
        Ok(latest) => latest.outcome(store, version).await,
        Err(None) => Some(RecordFailure::NotReached.into()),
        Err(Some(error)) => Some(RecordFailure::of_read(error.clone()).into()),
    }
}

fn version_of(record: &Record) -> Option<&VersionItem> {
    match &record.content {
        Ok(Content::Version(version)) => Some(version),
        _ => None,
    }
}

/// Reads the latest versions. The error is `None` if there is no time left.
async fn read<'a>(
    store: &Store,
    entities: impl Iterator<Item = &'a EntityId>,
    deadline: Deadline,
) -> Result<LatestVersions, Option<PutError>> {
    if !deadline.allows_start() {
        return Err(None);
    }
    let read = tokio::time::timeout_at(deadline.finish_by, LatestVersions::read(store, entities)).await;
    read.map_err(|_| None)?.map_err(Some)
}
