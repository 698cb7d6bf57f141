//! Write mode `inline`: `UpdateItem` of the latest item, then `PutItem` of the version item.

use aws_sdk_dynamodb::types::ReturnValue;

use crate::{
    domain::{
        recent_requests::Window,
        update::Update,
        version::Version,
        version_item::{VersionItem, latest_of},
    },
    dynamodb::{
        Store,
        client::error::ErrorKind,
        put::put_version::PutOutcome,
        write::outcome::{WriteError, WriteOutcome},
    },
};

/// Maximum number of attempts for the put. The update is not retried here: it would count again.
const MAX_PUT_ATTEMPTS: u32 = 3;

impl Store {
    /// Applies an update to the latest item, and puts the version item.
    ///
    /// # Errors
    ///
    /// Returns [`WriteError`], see its variants.
    pub async fn write_inline(&self, update: &Update, window: Window) -> Result<WriteOutcome, WriteError> {
        let (outcome, item) = self.bump(update, window, ReturnValue::AllNew).await?;
        // Also after a duplicate: the first delivery may have stopped between the two requests.
        if let (WriteOutcome::Written { version } | WriteOutcome::Duplicate { version }, Some(item)) = (outcome, item)
            // The image of an older version is not available.
            && latest_of(&item)? == version
        {
            self.put_with_retries(version, VersionItem::from_image(item, self.digits)?)
                .await?;
        }
        Ok(outcome)
    }

    pub(crate) async fn put_with_retries(&self, version: Version, item: VersionItem) -> Result<(), WriteError> {
        let mut tries = 1;
        loop {
            match self.put_version(&item).await {
                Ok(PutOutcome::Recorded | PutOutcome::AlreadyRecorded) => return Ok(()),
                Ok(PutOutcome::Conflict) => return Err(WriteError::Taken { version }),
                Err(error) if tries < MAX_PUT_ATTEMPTS && error.0.kind != ErrorKind::Rejected => tries += 1,
                Err(source) => return Err(WriteError::NotRecorded { version, source }),
            }
        }
    }
}
