//! A version brought back as a new one, a deletion, and its undoing.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::{
    domain::{
        entity::EntityId,
        names,
        request_id::RequestId,
        time::EpochMillis,
        update::{Change, ExpectedVersion, Update},
        version::Version,
        view::VersionView,
    },
    dynamodb::{
        Store,
        read::versions::ReadError,
        write::{
            modes::WriteOptions,
            outcome::{WriteError, WriteOutcome},
        },
    },
};

/// How often a restore is tried again when another update comes in between.
const MAX_ATTEMPTS: u32 = 5;

/// What a restore, a deletion or its undoing is told besides the entity.
#[derive(Clone, Default)]
pub struct ChangeOptions {
    /// The version that must be the latest.
    pub expected: Option<ExpectedVersion>,
    /// Its time, where updates are ordered by time.
    pub timestamp: Option<EpochMillis>,
    /// Further changes, such as who does it and why. They go before what is restored.
    pub changes: BTreeMap<String, Change>,
}

impl Store {
    /// Makes a new version with the attributes of an old one: what has come since is taken away, what was there is
    /// brought back, and so is being deleted or not.
    pub async fn restore(
        &self,
        entity: &EntityId,
        version: Version,
        request_id: RequestId,
        change: ChangeOptions,
        options: WriteOptions,
    ) -> Result<WriteOutcome, RestoreError> {
        let old = self
            .version(entity, version, true)
            .await?
            .ok_or(RestoreError::NotFound)?;
        for _ in 0..MAX_ATTEMPTS {
            let latest = self.latest(entity, true).await?.ok_or(RestoreError::NotFound)?;
            let update = Update {
                entity: entity.clone(),
                request_id: request_id.clone(),
                // What is to be taken away is known for this version only.
                expected: change.expected.or(Some(ExpectedVersion::Is(latest.version))),
                deleted: old.deleted,
                timestamp: change.timestamp,
                changes: changes(&old, &latest, &change),
                request_payload: Some(Update::restore_payload(version, &change.changes)),
            };
            match self.write(&update, options).await? {
                WriteOutcome::Conflict { .. } if change.expected.is_none() => {}
                outcome => return Ok(outcome),
            }
        }
        Err(WriteError::Contended { attempts: MAX_ATTEMPTS }.into())
    }

    /// Makes a tombstone, or undoes it. `None` where the entity is so already.
    pub async fn set_deleted(
        &self,
        entity: &EntityId,
        deleted: bool,
        request_id: RequestId,
        change: ChangeOptions,
        options: WriteOptions,
    ) -> Result<Option<WriteOutcome>, RestoreError> {
        let latest = self.latest(entity, true).await?.ok_or(RestoreError::NotFound)?;
        let is_repeated = latest.request_id.as_deref() == Some(request_id.as_str());
        if latest.deleted == deleted && !is_repeated {
            return Ok(None);
        }
        let update = Update {
            entity: entity.clone(),
            request_id,
            expected: change.expected,
            deleted,
            timestamp: change.timestamp,
            changes: change.changes,
            request_payload: None,
        };
        Ok(Some(self.write(&update, options).await?))
    }
}

fn changes(old: &VersionView, latest: &VersionView, change: &ChangeOptions) -> BTreeMap<String, Change> {
    let gone = latest
        .attributes
        .keys()
        .filter(|name| !old.attributes.contains_key(*name));
    let gone = gone.map(|name| (name.clone(), Change::Remove));
    let back = old
        .attributes
        .iter()
        .map(|(name, value)| (name.clone(), Change::Set(value.clone())));
    let mut changes: BTreeMap<_, _> = gone.chain(back).collect();
    changes.extend(change.changes.clone());
    if change.timestamp.is_some() {
        // The time that orders updates is that of the restore.
        changes.remove(names::TIMESTAMP);
    }
    changes
}

/// Why a version was not restored.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RestoreError {
    /// There is no such entity, or no such version of it.
    #[error("there is no such version")]
    NotFound,
    /// It could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}
