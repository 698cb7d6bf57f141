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

use crate::{
    attached::selection::Selection,
    backfill::{import::ItemOutcome, mapping::Refusal},
    read::paced::Paced,
};
use shared::{
    clock::Deadline,
    domain::{
        Item,
        attached::{decision::Tail, key},
    },
    dynamodb::{
        Store,
        client::error::{ErrorKind, ServiceError},
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

/// Backfill of an attached table.
pub(super) struct AttachedBackfill {
    pub table: Paced,
    pub selection: Selection,
    /// `true` to write nothing.
    pub dry_run: bool,
}

impl AttachedBackfill {
    /// Writes the items of a page.
    pub(super) async fn page(&self, items: Vec<Item>) -> Result<Vec<(Item, ItemOutcome)>, ServiceError> {
        let baselines: Vec<_> = stream::iter(items)
            .map(async |item| {
                let baseline = self.baseline(&item).await?;
                Ok::<_, ServiceError>((item, baseline))
            })
            .buffered(MAX_CONCURRENT_READS)
            .try_collect()
            .await?;
        let appends: Vec<_> = baselines
            .iter()
            .filter_map(|(_, baseline)| baseline.clone().ok())
            .collect();
        let appended = match self.dry_run {
            true => vec![Appended::Recorded; appends.len()],
            false => self.append(&appends).await?,
        };
        let mut appended = appended.into_iter();
        let outcome = |(item, baseline): (Item, Result<Append, ItemOutcome>)| {
            let outcome = match baseline {
                Err(outcome) => outcome,
                Ok(_) if appended.next() == Some(Appended::Recorded) => ItemOutcome::Written,
                Ok(_) => ItemOutcome::AlreadyThere,
            };
            (item, outcome)
        };
        Ok(baselines.into_iter().map(outcome).collect())
    }

    /// Returns the version 1 of an item that has none, or the outcome of another item.
    async fn baseline(&self, item: &Item) -> Result<Result<Append, ItemOutcome>, ServiceError> {
        if !self.selection.has_item(item) {
            return Ok(Err(ItemOutcome::Skipped));
        }
        let refused = || ItemOutcome::Refused(Refusal::Rejected);
        let store = &self.table.store;
        let keyed = store
            .attached_table()
            .and_then(|table| Some((table, key::of_item(table, item).ok()?)));
        let Some((table, entity)) = keyed else {
            return Ok(Err(refused()));
        };
        let newest = async |store: &Store| {
            let mut tail = Tail::default();
            store.extend_tail(&entity, &mut tail, false).await?;
            Ok::<_, ServiceError>(tail.versions)
        };
        if !self.table.send(newest).await?.is_empty() {
            return Ok(Err(ItemOutcome::AlreadyThere));
        }
        // It may not fit into a version item.
        let baseline = Append::baseline(table, &entity, item.clone(), store.now(), store.compression());
        Ok(baseline.map_err(|_| refused()))
    }

    /// Inserts versions, and returns an outcome for each: recorded or taken.
    async fn append(&self, appends: &[Append]) -> Result<Vec<Appended>, ServiceError> {
        let (mut start, mut outcomes) = (0, Vec::new());
        for end in append::batch_ends(appends) {
            let batch = &appends[start..end];
            let settled = RefCell::new(vec![None::<Appended>; batch.len()]);
            let send = async |store: &Store| {
                let is_open = |index: &usize| settled.borrow()[*index].is_none();
                let open: Vec<_> = (0..batch.len()).filter(is_open).collect();
                let versions: Vec<_> = open.iter().map(|index| batch[*index].clone()).collect();
                let deadline = Deadline::after(APPEND_TIMEOUT);
                let mut failure = None::<ServiceError>;
                for (index, appended) in open.into_iter().zip(store.append_versions(&versions, deadline).await) {
                    match appended {
                        Appended::Recorded | Appended::Taken => settled.borrow_mut()[index] = Some(appended),
                        Appended::NotReached => {
                            failure.get_or_insert_with(|| ServiceError::unprocessed("BatchExecuteStatement"));
                        }
                        // Another attempt remedies only throttling.
                        Appended::Failed(PutError(error))
                            if failure.is_none() || error.kind != ErrorKind::Throttled =>
                        {
                            failure = Some(error);
                        }
                        Appended::Failed(_) => {}
                    }
                }
                failure.map_or(Ok(()), Err)
            };
            self.table.send(send).await?;
            outcomes.extend(settled.into_inner().into_iter().flatten());
            start = end;
        }
        Ok(outcomes)
    }
}
