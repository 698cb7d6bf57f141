//! Requests after the update of the latest item: the removal of what a deletion has left of the state, and in the write mode `inline`
//! the `PutItem` of the version item.

use shared::{
    config::WriteMode,
    domain::{
        Item,
        version::Version,
        version_item::{VersionItem, latest_of},
    },
    dynamodb::{Store, client::error::ErrorKind, put::put_version::PutOutcome},
};

use crate::{
    counter::{
        ended_state::remove_ended_state,
        outcome::{WriteError, WriteOutcome},
    },
    update::Update,
};

/// Maximum number of attempts for the put. The update is not retried here: it would count again.
const MAX_PUT_ATTEMPTS: u32 = 3;

/// Completes the version that an update created, and returns the outcome. `latest` is the latest item after the update, if it is known.
///
/// # Errors
///
/// Returns [`WriteError`] if a request fails.
pub(super) async fn complete(
    store: &Store,
    update: &Update,
    mode: WriteMode,
    outcome: WriteOutcome,
    latest: Option<Item>,
) -> Result<WriteOutcome, WriteError> {
    // Also after a duplicate: the first delivery may have stopped between the requests.
    if let (WriteOutcome::Written { version } | WriteOutcome::Duplicate { version }, Some(latest)) = (outcome, latest) {
        end_state(store, update, version, &latest).await?;
        // The image of an older version is not available.
        if mode == WriteMode::Inline && latest_of(&latest).ok() == Some(version) {
            put_with_retries(store, version, VersionItem::from_image(latest, store.digits())?).await?;
        }
    }
    Ok(outcome)
}

/// Removes what a deletion has left of the state.
pub(super) async fn end_state(
    store: &Store,
    update: &Update,
    version: Version,
    latest: &Item,
) -> Result<(), WriteError> {
    if update.deleted {
        let removed = remove_ended_state(store, &update.entity, latest).await;
        removed.map_err(|source| WriteError::StateRemains { version, source })?;
    }
    Ok(())
}

pub(super) async fn put_with_retries(store: &Store, version: Version, item: VersionItem) -> Result<(), WriteError> {
    let mut tries = 1;
    loop {
        match store.put_version(&item).await {
            Ok(PutOutcome::Recorded | PutOutcome::AlreadyRecorded) => return Ok(()),
            Ok(PutOutcome::Conflict) => return Err(WriteError::Taken { version }),
            Err(error) if tries < MAX_PUT_ATTEMPTS && error.kind != ErrorKind::Rejected => tries += 1,
            Err(source) => return Err(WriteError::NotRecorded { version, source }),
        }
    }
}
