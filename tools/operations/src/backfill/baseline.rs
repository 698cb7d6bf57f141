//! Backfill of an attached table: items that have no history get their present state as version 1.
//!
//! ```text
//! page of items ─▶ those that the filter selects ─▶ those without a version (Query) ─▶ INSERT of version 1
//! ```
//!
//! Writers and stream-fn can run meanwhile. An `INSERT` never overwrites: if the record of a change makes version 1 first, the item
//! has a history already. If the baseline is first, stream-fn knows which changes it contains, see
//! [`decision`](shared::domain::attached::decision).

use std::{cell::RefCell, time::Duration};

use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::{Backfill, ItemOutcome, Outcome, mapping::Refusal};
use shared::{
    clock::Deadline,
    domain::{
        Item,
        attached::{AttachedTable, key},
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        put::{
            append::{self, Append, Appended},
            put_version::PutError,
        },
    },
};

/// Maximum number of concurrent reads of a segment.
const MAX_CONCURRENT_READS: usize = 16;
/// Time limit of one request with its retries.
const APPEND_TIMEOUT: Duration = Duration::from_secs(30);

impl Backfill {
    /// Writes the items of a page of an attached table.
    pub(super) async fn baselines(
        &self,
        table: &AttachedTable,
        items: Vec<Item>,
    ) -> Result<Vec<(Item, Outcome)>, ServiceError> {
        let baselines: Vec<_> = stream::iter(items)
            .map(async |item| {
                let baseline = self.baseline(table, &item).await?;
                Ok::<_, ServiceError>((item, baseline))
            })
            .buffered(MAX_CONCURRENT_READS)
            .try_collect()
            .await?;
        let appends = baselines.iter().filter_map(|(_, baseline)| baseline.clone().ok());
        let appends: Vec<_> = appends.collect();
        let mut recorded = match self.dry_run {
            true => vec![true; appends.len()],
            false => self.append(&appends).await?,
        }
        .into_iter();
        let outcome = |(item, baseline): (Item, Result<Append, Outcome>)| match baseline {
            Err(outcome) => (item, outcome),
            Ok(_) if recorded.next() == Some(true) => (item, Ok(ItemOutcome::Written)),
            Ok(_) => (item, Ok(ItemOutcome::AlreadyThere)),
        };
        Ok(baselines.into_iter().map(outcome).collect())
    }

    /// Returns the version 1 of an item that has none, or the outcome of another item.
    async fn baseline(&self, table: &AttachedTable, item: &Item) -> Result<Result<Append, Outcome>, ServiceError> {
        if !self.selection.has_item(item) {
            return Ok(Err(Ok(ItemOutcome::Skipped)));
        }
        let Ok(entity) = key::of_item(table, item) else {
            return Ok(Err(Err(Refusal::Rejected)));
        };
        let newest = async |store: &Store| store.attached_newest(&entity, false).await;
        if self.target.send(newest).await?.is_some() {
            return Ok(Err(Ok(ItemOutcome::AlreadyThere)));
        }
        let store = &self.target.store;
        // It may not fit into a version item.
        let baseline = Append::baseline(table, &entity, item.clone(), store.now(), store.compression());
        Ok(baseline.map_err(|_| Err(Refusal::Rejected)))
    }

    /// Inserts versions, and returns for each `true` if it was recorded, `false` if its number was taken.
    async fn append(&self, appends: &[Append]) -> Result<Vec<bool>, ServiceError> {
        let (mut start, mut all) = (0, Vec::new());
        for end in append::batch_ends(appends) {
            let batch = &appends[start..end];
            // A version that one attempt recorded is taken in the next one.
            let recorded = RefCell::new(vec![false; batch.len()]);
            let send = async |store: &Store| {
                let outcomes = store.append_versions(batch, Deadline::after(APPEND_TIMEOUT)).await;
                let mut done = Ok(());
                for (recorded, outcome) in recorded.borrow_mut().iter_mut().zip(outcomes) {
                    match outcome {
                        Appended::Recorded => *recorded = true,
                        Appended::Taken => {}
                        Appended::NotReached => done = Err(ServiceError::unprocessed("BatchExecuteStatement")),
                        Appended::Failed(PutError(error)) => done = Err(error),
                    }
                }
                done
            };
            self.target.send(send).await?;
            all.extend(recorded.into_inner());
            start = end;
        }
        Ok(all)
    }
}
