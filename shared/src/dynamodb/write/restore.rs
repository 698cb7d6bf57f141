//! Restore of an old version, deletion, and reversal of a deletion. Each creates a new version.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::{
    domain::{
        attribution,
        entity::EntityId,
        request_id::RequestId,
        time::EpochMillis,
        update::{Change, ExpectedVersion, Update, nested},
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

/// Maximum number of attempts for a restore, if concurrent updates win.
const MAX_ATTEMPTS: u32 = 5;

/// Options of a restore, a deletion or its reversal.
#[derive(Clone, Default)]
pub struct ChangeOptions {
    /// Version that must be the latest.
    pub expected: Option<ExpectedVersion>,
    /// Time of the change, if updates are ordered by time.
    pub timestamp: Option<EpochMillis>,
    /// Earliest time at which the request can have been sent before.
    pub sent_at: Option<EpochMillis>,
    /// Additional changes, and author, reason and time of the new version. They override the restored attributes.
    pub changes: BTreeMap<String, Change>,
}

impl Store {
    /// Creates a new version with the state of an old one, including whether it is a tombstone. Newer attributes are removed.
    /// Author, reason and time of the old version are not restored: they describe that version only.
    ///
    /// # Errors
    ///
    /// Returns [`RestoreError::NotFound`] if the entity or the version does not exist, [`RestoreError::Read`] or
    /// [`RestoreError::Write`] if a request fails.
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
            let latest = self.latest(entity, true).await?;
            // The attributes to remove are known only for this version.
            let expected = latest
                .as_ref()
                .map_or(ExpectedVersion::Absent, |latest| ExpectedVersion::Is(latest.version));
            let update = Update {
                entity: entity.clone(),
                request_id: request_id.clone(),
                expected: change.expected.or(Some(expected)),
                deleted: old.deleted,
                expires: None,
                timestamp: change.timestamp,
                changes: changes(&old, latest.as_ref(), &change),
                request_payload: Some(Update::restore_payload(version, &change.changes)),
                sent_at: change.sent_at,
                sender: None,
                restored_from: Some(version),
            };
            match self.write(&update, options).await? {
                WriteOutcome::Conflict { .. } if change.expected.is_none() => {}
                outcome => return Ok(outcome),
            }
        }
        Err(WriteError::Contended { attempts: MAX_ATTEMPTS }.into())
    }

    /// Creates a tombstone, or reverses it. `None` if nothing has to change.
    ///
    /// # Errors
    ///
    /// Returns [`RestoreError::NotFound`] if the entity does not exist, [`RestoreError::Read`] or
    /// [`RestoreError::Write`] if a request fails.
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
            expires: None,
            timestamp: change.timestamp,
            changes: change.changes,
            request_payload: None,
            sent_at: change.sent_at,
            sender: None,
            restored_from: None,
        };
        Ok(Some(self.write(&update, options).await?))
    }
}

fn changes(old: &VersionView, latest: Option<&VersionView>, change: &ChangeOptions) -> BTreeMap<String, Change> {
    let is_state = |name: &&String| !attribution::OF_CLIENT.contains(&name.as_str());
    let removed = latest.into_iter().flat_map(|latest| latest.attributes.keys());
    let removed = removed.filter(|name| !old.attributes.contains_key(*name));
    let removed = removed.filter(is_state).map(|name| (name.clone(), Change::Remove));
    let restored = old.attributes.iter().filter(|(name, _)| is_state(name));
    let restored = restored.map(|(name, value)| (name.clone(), Change::Set(value.clone())));
    let mut changes: BTreeMap<_, _> = removed.chain(restored).collect();
    for (name, change) in change.changes.clone() {
        match (changes.get_mut(&name), change) {
            // The restored map, and not the one of the latest item.
            (Some(Change::Set(value)), Change::Update(members)) => nested::apply(value, &members),
            (_, change) => {
                changes.insert(name, change);
            }
        }
    }
    changes
}

/// Reason why a version was not restored.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RestoreError {
    /// The entity or the version does not exist.
    #[error("there is no such version")]
    NotFound,
    /// A version could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The new version could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}
