//! The next version in two requests: `UpdateItem` of the latest item, then `PutItem` of the version item.

use aws_sdk_dynamodb::{operation::update_item::builders::UpdateItemInputBuilder, types::ReturnValue};

use super::{
    Store,
    error::ErrorKind,
    record_version::RecordOutcome,
    write::{WriteError, WriteOutcome},
    write_version,
};
use crate::domain::{Item, keys::VersionDigits, update::Update, version::Version, version_item::VersionItem};

/// How often the put is tried. The bump, never: it would count again.
const PUTS: u32 = 3;

impl Store {
    /// Applies an update to the latest item, and puts the version item it makes.
    pub async fn write_inline(&self, update: &Update) -> Result<WriteOutcome, WriteError> {
        let answer = request(update, &self.table, self.digits).send_with(&self.client).await;
        // The item that the answer carries, or that the failed condition brought back.
        let item = match &answer {
            Ok(output) => output.attributes.clone(),
            Err(error) => error.as_service_error().and_then(write_version::stored).cloned(),
        };
        let outcome = write_version::outcome(update, answer)?;
        // After a duplicate too: the first delivery may have stopped between the two requests.
        if let (WriteOutcome::Written { version } | WriteOutcome::Duplicate { version }, Some(item)) = (outcome, item) {
            self.put_version(version, VersionItem::from_image(Item::from(item), self.digits)?)
                .await?;
        }
        Ok(outcome)
    }

    async fn put_version(&self, version: Version, item: VersionItem) -> Result<(), WriteError> {
        let mut tries = 1;
        loop {
            match self.record_version(&item).await {
                Ok(RecordOutcome::Recorded | RecordOutcome::AlreadyRecorded) => return Ok(()),
                Ok(RecordOutcome::Conflict) => return Err(WriteError::Taken { version }),
                Err(error) if tries < PUTS && error.0.kind != ErrorKind::Rejected => tries += 1,
                Err(source) => return Err(WriteError::NotRecorded { version, source }),
            }
        }
    }
}

/// The first request, which brings back the whole item.
pub fn request(update: &Update, table: &str, digits: VersionDigits) -> UpdateItemInputBuilder {
    write_version::request(update, table, digits).return_values(ReturnValue::AllNew)
}
