//! Moves the history of a table to its own table, while functions write.
//!
//! Passes over the table of latest items move its items of history, until a pass finds none. Then the migration is finished, and
//! reads no longer use that table for history. The last pass starts only after invocations of functions with the earlier layout
//! have ended.

use std::{path::Path, time::Duration};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};
use shared::{
    domain::{
        Item,
        keys::{partition_key_of, sort_key_of},
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        maintain::{
            move_history::{MoveOutcome, Refusal},
            rate_limit::{Consumed, RateLimiter},
        },
        read::{query_items::Cursor, scan_segment::Segment},
    },
};

use crate::{
    connection::Connection,
    error::OperationError,
    segments::{self, SegmentRun},
};

const CONCURRENCY: usize = 16;
/// Maximum duration of an invocation that started before the deployment, in `template.yaml` that of stream-fn.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Counts {
    /// Items read, of all kinds.
    pub items: u64,
    /// Items of history that were moved.
    pub moved: u64,
    /// Items of history that cannot be moved.
    pub refused: u64,
}

impl Counts {
    fn merge(&mut self, other: &Self) {
        self.items += other.items;
        self.moved += other.moved;
        self.refused += other.refused;
    }
}

/// Item that was not moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotMoved {
    pub partition_key: String,
    pub sort_key: String,
    pub why: Refusal,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SegmentProgress {
    /// Last item of the last completed page.
    after: Option<Item>,
    /// `true` if the whole segment was read.
    done: bool,
    counts: Counts,
}

/// One pass over the table of latest items.
pub struct Pass(SegmentRun<(), SegmentProgress, Vec<NotMoved>>);

impl Pass {
    /// Prepares a pass in this number of segments, or resumes the one of the checkpoint.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::SameTable`] if the table has no history table, and the errors of a checkpoint.
    pub fn new(
        connection: &Connection,
        pace: &RateLimiter,
        segments: Option<u32>,
        checkpoint: Option<&Path>,
    ) -> Result<Self, OperationError> {
        if !connection.store.has_own_history() {
            return Err(OperationError::SameTable(connection.table.clone()));
        }
        let plan = segments::Plan {
            command: "migrate",
            connection,
            options: None,
            segments,
            checkpoint,
        };
        let (store, limiter) = (connection.store.clone(), pace.clone());
        let run = SegmentRun::new(plan, pace, |segment, progress| {
            let state = (store.clone(), limiter.clone(), progress);
            stream::try_unfold(state, move |(store, limiter, mut progress)| async move {
                let refused = step(&store, &limiter, segment, &mut progress).await?;
                let moved = refused.map(|refused| ((refused, progress.clone()), (store, limiter, progress)));
                Ok::<_, ServiceError>(moved)
            })
        });
        Ok(Self(run?))
    }

    /// Moves the history of the next page. Returns the items that cannot be moved, or `None` at the end.
    ///
    /// # Errors
    ///
    /// Returns the error of a request. The pass can be resumed.
    pub async fn step(&mut self) -> Result<Option<Vec<NotMoved>>, OperationError> {
        self.0.step().await
    }

    /// Returns the counts so far, including those of the runs that this one resumed.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for progress in self.0.progress() {
            counts.merge(&progress.counts);
        }
        counts
    }

    /// Returns the consumed capacity so far, including that of the runs that this one resumed.
    pub fn consumed(&self) -> Consumed {
        self.0.consumed()
    }
}

async fn step(
    store: &Store,
    limiter: &RateLimiter,
    segment: Segment,
    progress: &mut SegmentProgress,
) -> Result<Option<Vec<NotMoved>>, ServiceError> {
    if progress.done {
        return Ok(None);
    }
    let start: Option<Cursor> = progress.after.clone().map(Cursor::from);
    let limit = limiter.page_limit();
    let page = limiter.run(async || {
        let start = start.clone();
        store
            .scan_segment(store.latest_table(), segment, start, limit, true)
            .await
    });
    let (items, next) = page.await?;
    // A page is complete when all its items are, so that a resumed run does not skip one.
    let mut counts = progress.counts;
    counts.items += items.len() as u64;
    let mut outcomes = stream::iter(items)
        .map(async |item| {
            let keys = (
                partition_key_of(&item).map(str::to_owned),
                sort_key_of(&item).map(str::to_owned),
            );
            Ok::<_, ServiceError>((store.move_to_history(item, limiter).await?, keys))
        })
        .buffer_unordered(CONCURRENCY);
    let mut refused = Vec::new();
    while let Some((outcome, (partition_key, sort_key))) = outcomes.try_next().await? {
        match outcome {
            MoveOutcome::Skipped => {}
            MoveOutcome::Moved => counts.moved += 1,
            MoveOutcome::Refused(why) => {
                counts.refused += 1;
                refused.push(NotMoved {
                    partition_key: partition_key.unwrap_or_default(),
                    sort_key: sort_key.unwrap_or_default(),
                    why,
                });
            }
        }
    }
    drop(outcomes);
    progress.counts = counts;
    progress.done = next.is_none();
    progress.after = next.map(Item::from);
    Ok(Some(refused))
}
