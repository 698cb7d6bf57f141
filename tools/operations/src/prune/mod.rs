//! Prune: raises the floor of a history, then marks the versions below it for deletion by TTL.
//!
//! An interrupted run can be repeated: it marks the versions below the floor that are not marked yet.
//!
//! [`TablePrune`] prunes the entities of a table. It scans the table with eventually consistent reads, and reads an entity
//! again, consistently, only if versions of it can be removed or are missing. An entity that cannot be pruned because of its
//! items does not stop the run.

pub mod plan;
pub mod requests;

use std::{path::Path, time::Duration};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::{Deserialize, Serialize};
use shared::{
    domain::{
        entity::EntityId,
        keys::{FLOOR_KEY, LATEST_KEY},
        recorded_at::RecordedAt,
        version::Version,
    },
    dynamodb::{
        Store,
        client::error::{ErrorKind, ServiceError},
        read::versions::ReadError,
    },
};

use crate::{
    audit::collection::Collection,
    connection::{Connection, entity_of},
    error::OperationError,
    progress::{Progress, Silent},
    prune::{
        plan::{Keep, Plan, plan},
        requests::{Mark, mark_version, raise_floor},
    },
    rate_limit::RateLimiter,
    read::paced::Paced,
    segments::{
        self, SegmentRun, Work, counts,
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
        let now = store.clock().now();
        Self {
            table: Paced::new(store, pace),
            keep: match options.rule {
                Rule::Keep(count) => Keep::Newest(count),
                Rule::OlderThan(age) => Keep::Since(RecordedAt::since_epoch(now.saturating_sub(age))),
            },
            options,
        }
    }

    /// Reads an entity, and plans its pruning. `None` if the entity does not exist.
    async fn plan(&self, entity: &EntityId) -> Result<Option<Plan>, ReadError> {
        let (store, mut seen) = (&self.table.store, Collection::default());
        // In a table without a history of its own, the latest item is among the versions.
        let has_latest_item = store.has_own_history() && store.attached_table().is_none();
        for key in [FLOOR_KEY].into_iter().chain(has_latest_item.then_some(LATEST_KEY)) {
            if let Some(item) = self.table.get(entity, key).await? {
                seen.add(item, store);
            }
        }
        self.table.each_version(entity, |item| seen.add(item, store)).await?;
        Ok(plan(&seen, self.keep, self.options.over_gaps)?)
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

counts! {
    /// Counts of the pruning of a table.
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
}

/// Entities that cannot be pruned because of their items, each with the reason.
pub type Failed = Vec<(EntityId, String)>;

type SegmentProgress = segments::Progress<ItemKey, Counts>;

/// Pruning of a table. A step prunes the entities of a page, and returns those that failed.
pub type TablePrune = SegmentRun<Options, SegmentProgress, Failed>;

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
    type Found = Failed;

    fn progress(&self) -> &SegmentProgress {
        &self.progress
    }

    async fn step(&mut self) -> Result<Option<Failed>, OperationError> {
        if self.progress.done {
            return Ok(None);
        }
        let mut failed = Vec::new();
        for seen in self.entities.next_page().await? {
            if let Some(why) = self.entity(&seen).await? {
                self.progress.counts.failed += 1;
                failed.push((seen.entity, why));
            }
            self.progress.counts.items += seen.items;
            self.progress.after = Some(seen.last);
        }
        self.progress.done = self.entities.is_read();
        Ok(Some(failed))
    }
}

impl SegmentPrune {
    /// Prunes an entity of which these items were seen. Returns why it cannot be pruned, if its items are the reason.
    async fn entity(
        &mut self,
        SeenEntity { entity, summary, .. }: &SeenEntity,
    ) -> Result<Option<String>, OperationError> {
        let counts = &mut self.progress.counts;
        // The seen items may be outdated. If there is something to do or to report, they are read again.
        let planned = match plan(summary, self.pruner.keep, self.pruner.options.over_gaps) {
            Ok(plan)
                if plan
                    .as_ref()
                    .is_none_or(|plan| plan.is_done() && plan.stopped_at.is_none()) =>
            {
                Ok(plan)
            }
            _ => self.pruner.plan(entity).await,
        };
        let plan = match planned {
            Ok(Some(plan)) => plan,
            // Versions without a latest item are a finding of the audit.
            Ok(None) => return Ok(None),
            Err(ReadError::Latest(why)) => {
                counts.entities += 1;
                return Ok(Some(why.to_string()));
            }
            Err(error) => return Err(error.into()),
        };
        counts.entities += 1;
        let expires = self.pruner.expires();
        let marked = match self.pruner.carry_out(entity, &plan, expires, &Silent).await {
            Ok(marked) => marked,
            // An item would be too large, for example.
            Err(error) if error.kind == ErrorKind::Rejected => return Ok(Some(error.to_string())),
            Err(error) => return Err(error.into()),
        };
        counts.pruned += u64::from(plan.floor > plan.before || marked > 0);
        counts.marked += marked;
        counts.left += plan.settled;
        counts.undated += plan.undated;
        counts.stopped += u64::from(plan.stopped_at.is_some());
        Ok(None)
    }
}
