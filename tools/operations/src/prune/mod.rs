//! Prune: raises the floor of a history, then marks the versions below it for deletion by TTL.
//!
//! [`TablePrune`] prunes the entities of a table. It scans the table with eventually consistent reads, and reads an entity
//! again, consistently, only if versions of it can be removed or are missing. An entity that cannot be pruned because of its
//! items does not stop the run.

pub mod plan;
pub mod requests;

use std::{iter::Sum, path::Path, time::Duration};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};
use shared::{
    domain::{entity::EntityId, recorded_at::RecordedAt, version::Version, version_item::InvalidImage},
    dynamodb::{
        Store,
        client::error::{ErrorKind, ServiceError},
        read::versions::ReadError,
    },
};
use thiserror::Error;

use crate::{
    audit::collection::Collection,
    connection::{Connection, entity_of},
    error::OperationError,
    progress::{Progress, Silent},
    prune::{
        plan::{Keep, Plan, plan},
        requests::{Mark, mark_version, plan_prune, raise_floor},
    },
    rate_limit::RateLimiter,
    read::paced::Paced,
    segments::{
        self, SegmentRun, Work,
        entities::{ItemKey, SeenEntity, SegmentEntities},
    },
};

const CONCURRENCY: usize = 16;

/// Rule for the versions to keep, from the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rule {
    /// This number of newest versions.
    Keep(u64),
    /// The versions that were the latest at some time within this age.
    OlderThan(Duration),
}

impl Rule {
    /// Returns the rule at a time since the epoch.
    pub fn at(self, now: Duration) -> Keep {
        match self {
            Self::Keep(count) => Keep::Newest(count),
            Self::OlderThan(age) => Keep::Since(RecordedAt::since_epoch(now.saturating_sub(age))),
        }
    }
}

/// Options of a pruning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Options {
    pub rule: Rule,
    /// Period in which marked versions can still be read.
    pub grace: Duration,
    pub over_gaps: bool,
    pub dry_run: bool,
}

/// Table that is pruned, and the rule at the time of the start.
#[derive(Debug, Clone)]
struct Pruner {
    table: Paced,
    keep: Keep,
    options: Options,
}

impl Pruner {
    fn new(store: &Store, options: Options, pace: &RateLimiter) -> Self {
        Self {
            table: Paced::new(store, pace),
            keep: options.rule.at(store.clock().now()),
            options,
        }
    }

    async fn plan(&self, entity: &EntityId) -> Result<Option<Plan>, ReadError> {
        let Paced { store, limiter } = &self.table;
        plan_prune(store, entity, self.keep, self.options.over_gaps, limiter).await
    }

    /// Returns the time at which versions expire that are marked now, since the epoch.
    fn expires(&self) -> Duration {
        self.table.store.clock().now() + self.options.grace
    }

    /// Carries out a plan. Returns the number of versions that were marked, or that a dry run would mark.
    async fn carry_out(
        &self,
        entity: &EntityId,
        plan: &Plan,
        expires: Duration,
        progress: &impl Progress,
    ) -> Result<u64, ServiceError> {
        if self.options.dry_run {
            return Ok(plan.mark.len());
        }
        if plan.floor > plan.before {
            let raise = async |store: &Store| raise_floor(store, entity, plan.floor).await;
            self.table.send(raise).await?;
        }
        let mut marks = stream::iter(plan.mark.numbers().filter_map(Version::new))
            .map(|version| async move {
                let mark = async |store: &Store| mark_version(store, entity, version, Mark::Expires(expires)).await;
                self.table.send(mark).await
            })
            .buffer_unordered(CONCURRENCY);
        let mut marked = 0;
        while let Some(is_marked) = marks.try_next().await? {
            marked += u64::from(is_marked);
            progress.at(marked);
        }
        Ok(marked)
    }
}

/// Pruning of one entity.
#[derive(Debug, Clone)]
pub struct EntityPrune {
    pruner: Pruner,
    entity: EntityId,
    /// What the options remove at the time of the plan.
    pub plan: Plan,
    /// Time at which marked versions expire, since the epoch.
    pub expires: Duration,
}

impl EntityPrune {
    /// Plans the pruning of an entity.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::NoEntity`] if it does not exist, or the error of a read.
    pub async fn plan(store: &Store, id: &str, options: Options, pace: &RateLimiter) -> Result<Self, OperationError> {
        let (entity, pruner) = (entity_of(store, id)?, Pruner::new(store, options, pace));
        let plan = pruner.plan(&entity).await?;
        Ok(Self {
            plan: plan.ok_or_else(|| OperationError::NoEntity(id.to_owned()))?,
            expires: pruner.expires(),
            pruner,
            entity,
        })
    }

    /// Carries out the plan. Returns the number of versions that were marked, or that a dry run would mark.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails. The pruning can be repeated.
    pub async fn run(&self, progress: &impl Progress) -> Result<u64, ServiceError> {
        let (entity, plan) = (&self.entity, &self.plan);
        self.pruner.carry_out(entity, plan, self.expires, progress).await
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Counts {
    /// Items read, of all kinds.
    pub items: u64,
    /// Entities with a latest item.
    pub entities: u64,
    /// Entities whose floor was raised, or of which versions were marked.
    pub pruned: u64,
    /// Versions that were marked.
    pub marked: u64,
    /// Versions below the floor that are pinned or were marked before.
    pub left: u64,
    /// Versions from the floor on whose time is not known.
    pub undated: u64,
    /// Entities whose floor stays below a missing version.
    pub stopped: u64,
    /// Entities that cannot be pruned because of their items.
    pub failed: u64,
}

impl<'a> Sum<&'a Self> for Counts {
    fn sum<I: Iterator<Item = &'a Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, counts| Self {
            items: sum.items + counts.items,
            entities: sum.entities + counts.entities,
            pruned: sum.pruned + counts.pruned,
            marked: sum.marked + counts.marked,
            left: sum.left + counts.left,
            undated: sum.undated + counts.undated,
            stopped: sum.stopped + counts.stopped,
            failed: sum.failed + counts.failed,
        })
    }
}

/// Entity that cannot be pruned because of its items.
#[derive(Debug)]
pub struct FailedEntity {
    pub entity: EntityId,
    pub why: Cause,
}

/// Reason why an entity cannot be pruned.
#[derive(Debug, Error)]
pub enum Cause {
    #[error(transparent)]
    Latest(InvalidImage),
    /// DynamoDB rejects a change of an item, for example because the item would be too large.
    #[error(transparent)]
    Rejected(ServiceError),
}

type SegmentProgress = segments::Progress<ItemKey, Counts>;

/// Pruning of a table. A step prunes the entities of a page, and returns those that failed.
pub type TablePrune = SegmentRun<Options, SegmentProgress, Vec<FailedEntity>>;

impl TablePrune {
    /// Prepares a run in this number of segments, or resumes the run of the checkpoint.
    pub fn new(
        connection: &Connection,
        options: Options,
        pace: &RateLimiter,
        segments: Option<u32>,
        checkpoint: Option<&Path>,
    ) -> Result<Self, OperationError> {
        let plan = segments::Plan {
            command: "prune",
            store: &connection.store,
            options: Some(options),
            segments,
            checkpoint,
            pace,
        };
        let pruner = Pruner::new(&connection.store, options, pace);
        Self::begin(plan, |segment, progress: SegmentProgress| SegmentPrune {
            entities: SegmentEntities::new(pruner.table.clone(), segment, progress.after.as_ref()),
            pruner: pruner.clone(),
            progress,
        })
    }
}

struct SegmentPrune {
    pruner: Pruner,
    entities: SegmentEntities,
    progress: SegmentProgress,
}

impl Work for SegmentPrune {
    type Progress = SegmentProgress;
    type Found = Vec<FailedEntity>;

    fn progress(&self) -> &SegmentProgress {
        &self.progress
    }

    async fn step(&mut self) -> Result<Option<Vec<FailedEntity>>, OperationError> {
        if self.progress.done {
            return Ok(None);
        }
        let mut failed = Vec::new();
        for SeenEntity {
            entity,
            summary,
            items,
            last,
        } in self.entities.next_page().await?
        {
            if let Some(why) = self.entity(&entity, &summary).await? {
                self.progress.counts.failed += 1;
                failed.push(FailedEntity { entity, why });
            }
            self.progress.counts.items += items;
            self.progress.after = Some(last);
        }
        self.progress.done = self.entities.is_read();
        Ok(Some(failed))
    }
}

impl SegmentPrune {
    /// Prunes an entity of which these items were seen. Returns why it cannot be pruned, if its items are the reason.
    async fn entity(&mut self, entity: &EntityId, seen: &Collection) -> Result<Option<Cause>, OperationError> {
        let plan = self.plan(entity, seen).await;
        let counts = &mut self.progress.counts;
        let plan = match plan {
            Ok(Some(plan)) => plan,
            // Versions without a latest item are a finding of the audit.
            Ok(None) => return Ok(None),
            Err(ReadError::Latest(why)) => {
                counts.entities += 1;
                return Ok(Some(Cause::Latest(why)));
            }
            Err(error) => return Err(error.into()),
        };
        counts.entities += 1;
        let expires = self.pruner.expires();
        let marked = match self.pruner.carry_out(entity, &plan, expires, &Silent).await {
            Ok(marked) => marked,
            Err(error) if error.kind == ErrorKind::Rejected => return Ok(Some(Cause::Rejected(error))),
            Err(error) => return Err(error.into()),
        };
        counts.pruned += u64::from(plan.floor > plan.before || marked > 0);
        counts.marked += marked;
        counts.left += plan.settled;
        counts.undated += plan.undated;
        counts.stopped += u64::from(plan.stopped_at.is_some());
        Ok(None)
    }

    /// Plans from the seen items, which may be outdated. If there is something to do or to report, reads them again.
    async fn plan(&self, entity: &EntityId, seen: &Collection) -> Result<Option<Plan>, ReadError> {
        match plan(seen, self.pruner.keep, self.pruner.options.over_gaps) {
            Ok(None) => Ok(None),
            Ok(Some(plan)) if plan.is_done() && plan.stopped_at.is_none() => Ok(Some(plan)),
            Ok(Some(_)) | Err(_) => self.pruner.plan(entity).await,
        }
    }
}
