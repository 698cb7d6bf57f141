//! Write mode `inline`: `UpdateItem` of the latest item, then `PutItem` of the version item.

use aws_sdk_dynamodb::types::ReturnValue;
use shared::{
    config::Window,
    domain::{
        version::Version,
        version_item::{VersionItem, latest_of},
    },
    dynamodb::{Store, client::error::ErrorKind, put::put_version::PutOutcome},
};

use crate::{
    counter::{
        outcome::{WriteError, WriteOutcome},
        update_item::bump,
    },
    update::Update,
};

/// Maximum number of attempts for the put. The update is not retried here: it would count again.
const MAX_PUT_ATTEMPTS: u32 = 3;

/// Applies an update to the latest item, and puts the version item.
///
/// # Errors
///
/// Returns [`WriteError`], see its variants.
pub(super) async fn write(store: &Store, update: &Update, window: Window) -> Result<WriteOutcome, WriteError> {
    let (outcome, item) = bump(store, update, window, ReturnValue::AllNew).await?;
    // Also after a duplicate: the first delivery may have stopped between the two requests.
    if let (WriteOutcome::Written { version } | WriteOutcome::Duplicate { version }, Some(item)) = (outcome, item)
        // The image of an older version is not available.
        && latest_of(&item)? == version
    {
        put_with_retries(store, version, VersionItem::from_image(item, store.digits())?).await?;
    }
    Ok(outcome)
}

pub(crate) async fn put_with_retries(store: &Store, version: Version, item: VersionItem) -> Result<(), WriteError> {
    let mut tries = 1;
    loop {
        match store.put_version(&item).await {
            Ok(PutOutcome::Recorded | PutOutcome::AlreadyRecorded) => return Ok(()),
            Ok(PutOutcome::Conflict) => return Err(WriteError::Taken { version }),
            Err(error) if tries < MAX_PUT_ATTEMPTS && error.0.kind != ErrorKind::Rejected => tries += 1,
            Err(source) => return Err(WriteError::NotRecorded { version, source }),
        }
    }
}
