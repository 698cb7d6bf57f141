//! Puts one version item: `PutItem` on condition that the key is free. An existing item is never overwritten.

use crate::{
    domain::{
        Item,
        layout::{self, IMAGE_DEFLATE},
        version_item::VersionItem,
    },
    dynamodb::{
        Store,
        client::error::{ErrorKind, ServiceError},
        write::Write,
    },
};

/// Outcome of a put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutOutcome {
    /// The item was written.
    Recorded,
    /// An equal item exists, ignoring marks: a previous delivery of the same record wrote it.
    AlreadyRecorded,
    /// A different item exists, and was not changed.
    Conflict,
}

impl Store {
    /// Puts a version item, unless its key is taken.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if the request fails.
    pub async fn put_version(&self, version: &VersionItem) -> Result<PutOutcome, ServiceError> {
        let items = self.stored(version).await?;
        let outcome = self.put_stored(version, &items).await;
        match outcome {
            // DynamoDB counts a value differently.
            Err(error) if error.kind == ErrorKind::Rejected && !items[0].contains_key(IMAGE_DEFLATE) => {
                let item = self.indexed(version.item()).await?;
                self.put_stored(version, &layout::compact(&item)).await
            }
            outcome => outcome,
        }
    }

    /// Puts the items of a version, unless its key is taken.
    async fn put_stored(&self, version: &VersionItem, items: &[Item]) -> Result<PutOutcome, ServiceError> {
        let is_put = match items {
            // The only write to a table of history that IAM can restrict to new items.
            [item] if self.has_own_history() => self.insert_one(item, self.history_table()).await?,
            [item] => match Write::insert(&self.table, item.clone()).send(&self.client).await? {
                Ok(_) => true,
                Err(failed) => {
                    let flat = self.flat_all(failed.stored, &self.table).await?.pop();
                    return Ok(flat.map_or(PutOutcome::Conflict, |stored| PutOutcome::of_existing(&stored, version)));
                }
            },
            items => self.put_together(items).await?,
        };
        if is_put {
            return Ok(PutOutcome::Recorded);
        }
        Ok(match self.preview_put(version).await? {
            // The item was deleted in the meantime.
            PutOutcome::Recorded => PutOutcome::Conflict,
            outcome => outcome,
        })
    }

    /// Returns the outcome that [`Self::put_version`] would have now. Nothing is written.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if the request fails.
    pub async fn preview_put(&self, version: &VersionItem) -> Result<PutOutcome, ServiceError> {
        let key = self.digits.version_key(version.version());
        let stored = self.get(version.entity(), &key, true).await?;
        Ok(stored.map_or(PutOutcome::Recorded, |stored| PutOutcome::of_existing(&stored, version)))
    }
}

impl PutOutcome {
    /// Returns the outcome of a put whose key has the stored item.
    pub(crate) fn of_existing(stored: &Item, version: &VersionItem) -> Self {
        match version.is_same_as(stored) {
            true => Self::AlreadyRecorded,
            false => Self::Conflict,
        }
    }
}
