//! Backfill of an attached table: an item that has no history gets its present state as version 1.
//!
//! ```text
//! item ─▶ does the filter select it? ─▶ has it no version (Query)? ─▶ INSERT of version 1
//! ```
//!
//! Writers and stream-fn can run meanwhile. An `INSERT` never overwrites: if the record of a change makes version 1 first, the item
//! has a history already. If the baseline is first, stream-fn knows which changes it contains, see
//! [`decision`](shared::domain::attached::decision).

use std::{slice, time::Duration};

use super::{Backfill, ItemOutcome, Stop, mapping::Refusal};
use shared::{
    clock::Deadline,
    domain::{
        Item,
        attached::{AttachedTable, key},
    },
    dynamodb::{Store, client::error::ServiceError, put::append::Append},
};

/// Time limit of one request with its retries.
const APPEND_TIMEOUT: Duration = Duration::from_secs(30);

impl Backfill {
    /// Inserts version 1 of an item of an attached table.
    pub(super) async fn baseline(&self, table: &AttachedTable, item: &Item) -> Result<ItemOutcome, Stop> {
        if !self.selection.has_item(item) {
            return Ok(ItemOutcome::Skipped);
        }
        let entity = key::of_item(table, item).map_err(|_| Refusal::Rejected)?;
        let newest = async |store: &Store| store.attached_newest(&entity, false).await;
        if self.target.send(newest).await?.is_some() {
            return Ok(ItemOutcome::AlreadyThere);
        }
        let store = &self.target.store;
        // It may not fit into a version item.
        let baseline = Append::baseline(table, &entity, item.clone(), store.now(), store.compression());
        let baseline = baseline.map_err(|_| Refusal::Rejected)?;
        if self.dry_run {
            return Ok(ItemOutcome::Written);
        }
        let append = async |store: &Store| {
            let deadline = Deadline::after(APPEND_TIMEOUT);
            let mut outcomes = store.append_versions(slice::from_ref(&baseline), deadline).await;
            match outcomes.pop().flatten() {
                Some(Ok(true)) => Ok(ItemOutcome::Written),
                Some(Ok(false)) => Ok(ItemOutcome::AlreadyThere),
                Some(Err(error)) => Err(error),
                None => Err(ServiceError::unprocessed("BatchExecuteStatement")),
            }
        };
        Ok(self.target.send(append).await?)
    }
}
