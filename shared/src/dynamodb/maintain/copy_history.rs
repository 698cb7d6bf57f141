//! Copies the items of a history table into another one, as they are stored: conditional `PutItem` requests, in passes.
//!
//! An item that is there already must be equal, so a copy can be interrupted and repeated. Passes follow until one finds all
//! items of the first table in the other one. That pass proves that the copy is complete.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use thiserror::Error;

use crate::{
    domain::Item,
    dynamodb::{
        Store,
        client::error::ServiceError,
        put::put_version::{self, PutError},
        read::{history_owner::is_owner, scan_items},
    },
};

/// Number of concurrent requests.
const CONCURRENCY: usize = 16;

impl Store {
    /// Copies the items of this store's table, a history table, into that of another store. Returns their number.
    pub(crate) async fn copy_history(&self, to: &Self) -> Result<u64, CopyError> {
        loop {
            let (items, copied) = self.copy_pass(to).await?;
            if copied == 0 {
                return Ok(items);
            }
        }
    }

    /// Returns the number of items, and how many of them were put into the other table.
    async fn copy_pass(&self, to: &Self) -> Result<(u64, u64), CopyError> {
        let (mut items, mut copied) = (0, 0);
        let mut start = None;
        loop {
            let output = scan_items::request(&self.table, start).send_with(&self.client).await;
            let page = output.map_err(|error| ServiceError::new("Scan", &error))?;
            let found = page.items.unwrap_or_default().into_iter().map(Item::from);
            let mut puts = stream::iter(found.filter(|item| !is_owner(item)))
                .map(|item| to.copy_item(item))
                .buffer_unordered(CONCURRENCY);
            while let Some(is_new) = puts.try_next().await? {
                (items, copied) = (items + 1, copied + u64::from(is_new));
            }
            start = page.last_evaluated_key.filter(|key| !key.is_empty());
            if start.is_none() {
                return Ok((items, copied));
            }
        }
    }

    /// Returns `false` if the table has the item already.
    async fn copy_item(&self, item: Item) -> Result<bool, CopyError> {
        let output = put_version::request(&item, &self.table).send_with(&self.client).await;
        match put_version::stored_of(output)?.map(Item::from) {
            None => Ok(true),
            Some(stored) if stored == item => Ok(false),
            Some(_) => Err(CopyError::Conflict {
                table: self.table.clone(),
            }),
        }
    }
}

/// Reason why a history was not copied.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CopyError {
    /// The other table has a different item under the same key.
    #[error("the table {table} has a different item under the key of one that would be copied: name a new table")]
    Conflict {
        /// Table.
        table: String,
    },
    /// An item was not put.
    #[error("an item of history was not copied: repeat the command")]
    Put(#[from] PutError),
    /// A request failed.
    #[error(transparent)]
    Service(#[from] ServiceError),
}
