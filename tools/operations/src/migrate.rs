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
            rate_limit::{Consumed, Limits, RateLimiter},
        },
        read::{query_items::Cursor, scan_segment::Segment},
    },
};
use tokio::time::Instant;

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

/// Part of a migration.
#[derive(Debug)]
pub enum Step {
    /// A page of a pass was moved, except for these items.
    Page(Vec<NotMoved>),
    /// The next step waits this long first, for invocations that started before the deployment.
    Wait(Duration),
}

/// Passes over the table of latest items, until one finds nothing to move.
pub struct Migration<'a> {
    connection: &'a Connection,
    limits: Limits,
    segments: Option<u32>,
    checkpoint: Option<&'a Path>,
    /// Earliest start of the last pass.
    last_pass_from: Instant,
    is_last: bool,
    is_done: bool,
    pass: Option<Pass>,
    /// Totals of the passes that have ended.
    ended: (Counts, Consumed),
}

impl<'a> Migration<'a> {
    /// Prepares a migration, or resumes the pass of the checkpoint. The last pass starts only after `wait`.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::SameTable`] if the table has no history table, and the errors of a checkpoint.
    pub fn new(
        connection: &'a Connection,
        wait: Duration,
        limits: Limits,
        segments: Option<u32>,
        checkpoint: Option<&'a Path>,
    ) -> Result<Self, OperationError> {
        let mut migration = Self {
            connection,
            limits,
            segments,
            checkpoint,
            last_pass_from: Instant::now() + wait,
            is_last: false,
            is_done: false,
            pass: None,
            ended: Default::default(),
        };
        migration.pass = Some(migration.start()?);
        Ok(migration)
    }

    fn start(&self) -> Result<Pass, OperationError> {
        let pace = RateLimiter::new(self.connection.pace_meter.clone(), self.limits);
        Pass::new(self.connection, &pace, self.segments, self.checkpoint)
    }

    /// Carries out the next step. Returns `None` at the end: history is in its own table, except for items that cannot be moved.
    ///
    /// # Errors
    ///
    /// Returns the error of a request or of the checkpoint. The migration can be resumed.
    pub async fn step(&mut self) -> Result<Option<Step>, OperationError> {
        if self.is_done {
            return Ok(None);
        }
        if self.pass.is_none() {
            tokio::time::sleep_until(self.last_pass_from).await;
        }
        let pass = match self.pass.take() {
            Some(pass) => pass,
            None => self.start()?,
        };
        let pass = self.pass.insert(pass);
        if let Some(refused) = pass.0.step().await? {
            return Ok(Some(Step::Page(refused)));
        }
        let ended = pass.counts();
        self.ended = self.totals();
        self.pass = None;
        // Items that cannot be moved do not become movable by another pass.
        self.is_done = (self.is_last && ended.moved == 0) || ended.refused > 0;
        if !self.is_done {
            self.is_last = true;
            return Ok(Some(Step::Wait(
                self.last_pass_from.saturating_duration_since(Instant::now()),
            )));
        }
        let store = &self.connection.store;
        if ended.refused == 0 && store.is_migrating() {
            store.finish_migration().await?;
        }
        Ok(None)
    }

    /// Returns the counts of the current pass.
    pub fn counts(&self) -> Counts {
        self.pass.as_ref().map(Pass::counts).unwrap_or_default()
    }

    /// Returns the counts of all passes, of which `refused` is that of the last one, and their consumed capacity.
    pub fn totals(&self) -> (Counts, Consumed) {
        let (mut counts, mut consumed) = self.ended;
        if let Some(pass) = &self.pass {
            let (current, units) = (pass.counts(), pass.0.consumed());
            counts.items += current.items;
            counts.moved += current.moved;
            counts.refused = current.refused;
            consumed.read += units.read;
            consumed.write += units.write;
        }
        (counts, consumed)
    }
}

/// One pass over the table of latest items.
struct Pass(SegmentRun<(), SegmentProgress, Vec<NotMoved>>);

impl Pass {
    fn new(
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

    /// Returns the counts so far, including those of the runs that this one resumed.
    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for progress in self.0.progress() {
            counts.merge(&progress.counts);
        }
        counts
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
