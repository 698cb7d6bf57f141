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
    dynamodb::{Store, client::error::ServiceError, put::put_version::PutOutcome},
};

use crate::{
    error::RecordFailure,
    purged::{in_time, not_read},
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
    /// Returns [`ServiceError`] if a request fails.
    pub async fn read<'a>(
        store: &Store,
        entities: impl IntoIterator<Item = &'a EntityId>,
    ) -> Result<Self, ServiceError> {
        let entities: BTreeSet<_> = entities.into_iter().cloned().collect();
        let entities: Vec<_> = entities.into_iter().collect();
        store.latest_versions(&entities, true).await.map(Self)
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
    let entities = versions.iter().flatten().map(|version| version.entity());
    let latest = in_time(LatestVersions::read(store, entities), deadline).await;
    stream::iter(versions)
        .then(async |version| match &latest {
            Ok(latest) => latest.outcome(store, version?).await,
            Err(failed) => version.map(|_| not_read(failed.clone()).into()),
        })
        .collect()
        .await
}

fn version_of(record: &Record) -> Option<&VersionItem> {
    match &record.content {
        Ok(Content::Version(version)) => Some(version),
        _ => None,
    }
}
