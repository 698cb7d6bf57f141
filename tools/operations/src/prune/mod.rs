//! Prune: raises the floor of a history, then marks the versions below it for deletion by TTL.
//!
//! [`TablePrune`] prunes the entities of a table. It scans the table with eventually consistent reads, and reads an entity
//! again, consistently, only if versions of it can be removed or are missing. An entity that cannot be pruned because of its
//! items does not stop the run.

pub mod plan;
pub mod requests;

use std::{path::Path, sync::Arc, time::Duration};

use crate::{
    prune::plan::{Keep, Plan, Seen},
    rate_limit::{Consumed, RateLimiter},
    segments::{
        entities::{ItemKey, SeenEntity, SegmentEntities},
        scan::Segment,
    },
};
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
    connection::{Connection, entity_of},
    error::OperationError,
    progress::{Progress, Silent},
    segments::{self, SegmentRun},
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

/// Carries out a plan: marked versions expire at this time since the epoch. Returns the number of versions that were marked.
async fn carry_out(
    store: &Store,
    entity: &EntityId,
    plan: &Plan,
    expires: Duration,
    pace: &RateLimiter,
    progress: &impl Progress,
) -> Result<u64, ServiceError> {
    if plan.floor > plan.before {
        pace.run(async || crate::prune::requests::raise_floor(store, entity, plan.floor).await)
            .await?;
    }
    let mut marks = stream::iter(plan.mark.numbers().filter_map(Version::new))
        .map(|version| async move {
            let mark = pace.run(async || crate::prune::requests::mark_version(store, entity, version, expires).await);
            mark.await
        })
        .buffer_unordered(CONCURRENCY);
    let mut marked = 0;
    while let Some(is_marked) = marks.try_next().await? {
        marked += u64::from(is_marked);
        progress.at(marked);
    }
    Ok(marked)
}

/// Pruning of one entity: what the options remove at the time of the plan.
#[derive(Debug, Clone)]
pub struct EntityPrune {
    store: Store,
    entity: EntityId,
    plan: Plan,
    /// Time at which marked versions expire, since the epoch.
    expires: Duration,
    dry_run: bool,
}

/// Result of the pruning of one entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pruned {
    pub floor: Version,
    /// Versions that were marked, or that a dry run would mark.
    pub marked: u64,
    /// Versions below the floor that are pinned or were marked before.
    pub left: u64,
    /// Versions from the floor on whose time is not known.
    pub undated: u64,
    /// Time at which the marked versions expire, since the epoch.
    pub expires: Duration,
}

impl EntityPrune {
    /// Plans the pruning of an entity.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::NoEntity`] if it does not exist, or the error of a read.
    pub async fn plan(store: &Store, id: &str, options: Options, pace: &RateLimiter) -> Result<Self, OperationError> {
        let (entity, now) = (entity_of(store, id)?, store.clock().now());
        let plan = crate::prune::requests::plan_prune(store, &entity, options.rule.at(now), options.over_gaps, pace);
        let plan = plan.await?.ok_or_else(|| OperationError::NoEntity(id.to_owned()))?;
        Ok(Self {
            store: store.clone(),
            entity,
            plan,
            expires: now + options.grace,
            dry_run: options.dry_run,
        })
    }

    /// Returns the version that is missing, if the floor stays below it.
    pub fn stopped_at(&self) -> Option<Version> {
        self.plan.stopped_at
    }

    /// Returns the number of versions that are not marked yet.
    pub fn unmarked(&self) -> u64 {
        self.plan.mark.len()
    }

    /// Carries out the plan, unless it is a dry run.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails. The pruning can be repeated.
    pub async fn run(&self, pace: &RateLimiter, progress: &impl Progress) -> Result<Pruned, ServiceError> {
        let marked = match self.dry_run {
            true => self.unmarked(),
            false => carry_out(&self.store, &self.entity, &self.plan, self.expires, pace, progress).await?,
        };
        Ok(Pruned {
            floor: self.plan.floor,
            marked,
            left: self.plan.settled,
            undated: self.plan.undated,
            expires: self.expires,
        })
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

impl Counts {
    fn merge(&mut self, other: &Self) {
        self.items += other.items;
        self.entities += other.entities;
        self.pruned += other.pruned;
        self.marked += other.marked;
        self.left += other.left;
        self.undated += other.undated;
        self.stopped += other.stopped;
        self.failed += other.failed;
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

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SegmentProgress {
    /// Last item of the last entity that was processed.
    after: Option<ItemKey>,
    /// `true` if the whole segment was processed.
    done: bool,
    counts: Counts,
}

/// Pruning of a table.
pub struct TablePrune(SegmentRun<Options, SegmentProgress, Vec<FailedEntity>>);

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
            connection,
            options: Some(options),
            segments,
            checkpoint,
        };
        let pruner = Arc::new(Pruner {
            store: connection.store.clone(),
            pace: pace.clone(),
            keep: options.rule.at(connection.store.clock().now()),
            options,
        });
        let run = SegmentRun::new(plan, pace, |segment, progress| {
            let prune = SegmentPrune::new(Arc::clone(&pruner), segment, progress);
            stream::try_unfold(prune, |mut prune| async move {
                let failed = prune.step().await?;
                Ok::<_, OperationError>(failed.map(|failed| ((failed, prune.progress.clone()), prune)))
            })
        });
        Ok(Self(run?))
    }

    /// Prunes the entities of the next page. Returns those that failed, or `None` at the end.
    pub async fn step(&mut self) -> Result<Option<Vec<FailedEntity>>, OperationError> {
        self.0.step().await
    }

    /// Returns the counts so far, including earlier runs.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for progress in self.0.progress() {
            counts.merge(&progress.counts);
        }
        counts
    }

    /// Returns the consumed capacity so far, including earlier runs.
    pub fn consumed(&self) -> Consumed {
        self.0.consumed()
    }
}

struct SegmentPrune {
    pruner: Arc<Pruner>,
    entities: SegmentEntities<Seen>,
    progress: SegmentProgress,
}

impl SegmentPrune {
    fn new(pruner: Arc<Pruner>, segment: Segment, progress: SegmentProgress) -> Self {
        let (store, pace) = (pruner.store.clone(), pruner.pace.clone());
        Self {
            entities: SegmentEntities::new(store, pace, segment, progress.after.as_ref()),
            pruner,
            progress,
        }
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
            let counts = &mut self.progress.counts;
            if let Some(why) = self.pruner.entity(&entity, &summary, counts).await? {
                counts.failed += 1;
                failed.push(FailedEntity { entity, why });
            }
            counts.items += items;
            self.progress.after = Some(last);
        }
        self.progress.done = self.entities.is_read();
        Ok(Some(failed))
    }
}

struct Pruner {
    store: Store,
    pace: RateLimiter,
    keep: Keep,
    options: Options,
}

impl Pruner {
    /// Prunes an entity of which these items were seen. Returns why it cannot be pruned, if its items are the reason.
    async fn entity(
        &self,
        entity: &EntityId,
        seen: &Seen,
        counts: &mut Counts,
    ) -> Result<Option<Cause>, OperationError> {
        let plan = match self.plan(entity, seen).await {
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
        let marked = if self.options.dry_run {
            Ok(plan.mark.len())
        } else {
            let expires = self.store.clock().now() + self.options.grace;
            carry_out(&self.store, entity, &plan, expires, &self.pace, &Silent).await
        };
        let marked = match marked {
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
    async fn plan(&self, entity: &EntityId, seen: &Seen) -> Result<Option<Plan>, ReadError> {
        let (keep, over_gaps) = (self.keep, self.options.over_gaps);
        match seen.plan(keep, over_gaps) {
            Ok(None) => Ok(None),
            Ok(Some(plan)) if plan.is_done() && plan.stopped_at.is_none() => Ok(Some(plan)),
            Ok(Some(_)) | Err(_) => {
                crate::prune::requests::plan_prune(&self.store, entity, keep, over_gaps, &self.pace).await
            }
        }
    }
}
