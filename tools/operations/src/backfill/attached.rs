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
    backfill::{
        import::{Counts, Refused},
        mapping::Refusal,
    },
    rate_limit::RateLimiter,
};
use shared::{
    clock::Deadline,
    domain::{
        Item,
        attached::{decision::Tail, key, selection::Selection},
        entity::EntityId,
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
#[derive(Debug, Clone)]
pub struct AttachedBackfill {
    pub(super) store: Store,
    selection: Selection,
    pub(super) limiter: RateLimiter,
    dry_run: bool,
}

impl AttachedBackfill {
    /// Creates the backfill of an attached table. A dry run writes nothing.
    pub fn new(store: Store, limiter: RateLimiter, dry_run: bool) -> Self {
        Self {
            selection: store.attached_table().map(Selection::new).unwrap_or_default(),
            store,
            limiter,
            dry_run,
        }
    }

    /// Writes the items of a page, and returns the refused ones with the reasons.
    pub(super) async fn page(&self, items: Vec<Item>, counts: &mut Counts) -> Result<Refused, ServiceError> {
        let read = items.len();
        let selected: Vec<_> = items.into_iter().filter(|item| self.selection.has_item(item)).collect();
        counts.skipped += (read - selected.len()) as u64;
        let (mut appends, mut refused) = (Vec::new(), Vec::new());
        for item in self.without_history(selected, &mut counts.already_there).await? {
            match self.baseline(&item) {
                Some(append) => appends.push(append),
                None => refused.push((item, Refusal::Rejected)),
            }
        }
        counts.refused += refused.len() as u64;
        if self.dry_run {
            counts.written += appends.len() as u64;
        } else {
            for appended in self.append(&appends).await? {
                match appended {
                    Appended::Recorded => counts.written += 1,
                    _ => counts.already_there += 1,
                }
            }
        }
        Ok(refused)
    }

    /// Returns the items that have no version, and counts the others.
    async fn without_history(&self, items: Vec<Item>, others: &mut u64) -> Result<Vec<Item>, ServiceError> {
        let read = items.len();
        let found: Vec<_> = stream::iter(items)
            .map(async |item| {
                let Some(entity) = self.entity(&item) else {
                    return Ok(Some(item));
                };
                let tail = self.limiter.run(async || {
                    let mut tail = Tail::default();
                    self.store.extend_tail(&entity, &mut tail, false).await?;
                    Ok::<_, ServiceError>(tail)
                });
                Ok::<_, ServiceError>(tail.await?.versions.is_empty().then_some(item))
            })
            .buffered(MAX_CONCURRENT_READS)
            .try_collect()
            .await?;
        let without: Vec<_> = found.into_iter().flatten().collect();
        *others += (read - without.len()) as u64;
        Ok(without)
    }

    fn entity(&self, item: &Item) -> Option<EntityId> {
        key::of_item(self.store.attached_table()?, item).ok()
    }

    /// Returns the version 1 of an item. `None` if it does not fit into a version item.
    fn baseline(&self, item: &Item) -> Option<Append> {
        let entity = self.entity(item)?;
        Append::baseline(
            self.store.attached_table()?,
            &entity,
            item.clone(),
            self.store.now(),
            self.store.compression(),
        )
        .ok()
    }

    /// Inserts versions, and returns an outcome for each: recorded or taken.
    async fn append(&self, appends: &[Append]) -> Result<Vec<Appended>, ServiceError> {
        let mut start = 0;
        let mut outcomes = Vec::new();
        for end in append::batch_ends(appends) {
            let batch = &appends[start..end];
            let settled = RefCell::new(vec![None::<Appended>; batch.len()]);
            let sent = self.limiter.run(async || {
                let open: Vec<_> = (0..batch.len())
                    .filter(|index| settled.borrow()[*index].is_none())
                    .collect();
                let versions: Vec<_> = open.iter().map(|index| batch[*index].clone()).collect();
                let appended = self
                    .store
                    .append_versions(&versions, Deadline::after(APPEND_TIMEOUT))
                    .await;
                let mut failure = None;
                for (index, appended) in open.into_iter().zip(appended) {
                    match appended {
                        Appended::Recorded | Appended::Taken => settled.borrow_mut()[index] = Some(appended),
                        Appended::NotReached => {
                            failure.get_or_insert_with(|| ServiceError::unprocessed("BatchExecuteStatement"));
                        }
                        Appended::Failed(PutError(error)) => {
                            // Another attempt cannot remedy any other failure.
                            let is_first = failure.is_none() || error.kind != ErrorKind::Throttled;
                            if is_first {
                                failure = Some(error);
                            }
                        }
                    }
                }
                failure.map_or(Ok(()), Err)
            });
            sent.await?;
            outcomes.extend(settled.into_inner().into_iter().flatten());
            start = end;
        }
        Ok(outcomes)
    }
}
