//! Prune: raises the floor of a history, then marks the versions below it for deletion by TTL.
//!
//! An interrupted run can be repeated: it marks the versions below the floor that are not marked yet.
//!
//! [`TablePrune`] prunes the entities of a table. It scans the table with eventually consistent reads, and reads an entity
//! again, consistently, only if versions of it can be removed or are missing. An entity that cannot be pruned because of its
//! items does not stop the run.

pub mod plan;
pub mod requests;

use std::{mem, time::Duration};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use shared::{
    domain::{entity::EntityId, version::Version, version_item::InvalidImage},
    dynamodb::{Store, client::error::ErrorKind, read::versions::ReadError},
};

pub use self::plan::{Options, Rule};
use crate::{
    audit::collection::Collection,
    connection::entity_of,
    error::OperationError,
    hold::{self, Hold},
    progress::{Progress, Silent},
    prune::{
        plan::{Plan, plan},
        requests::{Mark, mark_version, raise_floor_unless_held},
    },
    rate_limit::RateLimiter,
    read::paced::Paced,
    sealed::{Kind, Record},
    segments::{
        self, SegmentRun,
        entities::{SeenEntity, SegmentEntities},
        progress::{self, counts},
    },
};

const CONCURRENCY: usize = 16;
/// Number of versions that are marked without another read of the hold.
const MARKED_TOGETHER: usize = 100;

/// Table that is pruned, with the options and the time of the start, since the epoch.
#[derive(Debug, Clone)]
struct Pruner {
    table: Paced,
    options: Options,
    now: Duration,
    record: Option<Record>,
}

impl Pruner {
    fn new(store: &Store, options: Options, pace: &RateLimiter) -> Self {
        Self {
            table: Paced::new(store, pace),
            options,
            now: store.clock().now(),
            record: None,
        }
    }

    /// Plans the pruning of an entity of which these items were seen. `None` if the entity does not exist.
    fn plan(&self, seen: &Collection) -> Result<Option<Plan>, InvalidImage> {
        plan(seen, &self.options, self.now)
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
    ) -> Result<u64, OperationError> {
        if self.options.dry_run {
            return Ok(plan.mark.len());
        }
        if let Some(record) = &self.record {
            for versions in plan.mark.ranges() {
                record.add(&self.table.store, Kind::Prune, entity, versions).await?;
            }
        }
        let mut is_checked = plan.floor > plan.before;
        if is_checked {
            let raise = async |store: &Store| raise_floor_unless_held(store, entity, plan.floor).await;
            self.table.send(raise).await?;
        }
        let versions: Vec<_> = plan.mark.numbers().filter_map(Version::new).collect();
        let mut marked = 0;
        for versions in versions.chunks(MARKED_TOGETHER) {
            if !mem::take(&mut is_checked) {
                self.table.send(async |store| hold::check(store, entity).await).await?;
            }
            let mut marks = stream::iter(versions)
                .map(|version| async move {
                    let mark =
                        async |store: &Store| mark_version(store, entity, *version, Mark::Expires(expires)).await;
                    self.table.send(mark).await
                })
                .buffer_unordered(CONCURRENCY);
            while let Some(is_marked) = marks.try_next().await? {
                marked += u64::from(is_marked);
                progress.at(marked);
            }
        }
        Ok(marked)
    }

    /// Prunes an entity of which these items were seen, and counts it. Returns why it cannot be pruned, if its items are the reason.
    async fn entity(&self, seen: &SeenEntity, counts: &mut Counts) -> Result<Option<Left>, OperationError> {
        let entity = &seen.entity;
        if let Some(hold) = &seen.summary.hold {
            counts.entities += 1;
            counts.held += 1;
            return Ok(Some(Left::Held(hold.clone())));
        }
        let is_done = |plan: &Plan| plan.is_done() && plan.stopped_at.is_none();
        // The seen items may be outdated. If there is something to do or to report, they are read again.
        let planned = match self.plan(&seen.summary) {
            Ok(plan) if plan.as_ref().is_none_or(is_done) => Ok(plan),
            _ => self.plan(&Collection::read(&self.table, entity).await?),
        };
        let plan = match planned {
            Ok(Some(plan)) => plan,
            // Versions without a latest item are a finding of the audit.
            Ok(None) => return Ok(None),
            Err(why) => {
                counts.entities += 1;
                counts.failed += 1;
                return Ok(Some(Left::Failed(why.to_string())));
            }
        };
        counts.entities += 1;
        let marked = match self.carry_out(entity, &plan, self.expires(), &Silent).await {
            Ok(marked) => marked,
            // An item would be too large, for example.
            Err(OperationError::Service(error)) if error.kind == ErrorKind::Rejected => {
                counts.failed += 1;
                return Ok(Some(Left::Failed(error.to_string())));
            }
            // It was set after the scan.
            Err(OperationError::Held(hold)) => {
                counts.held += 1;
                return Ok(Some(Left::Held(hold)));
            }
            Err(error) => return Err(error),
        };
        counts.pruned += u64::from(plan.floor > plan.before || marked > 0);
        counts.marked += marked;
        counts.left += plan.settled;
        counts.undated += plan.undated;
        counts.stopped += u64::from(plan.stopped_at.is_some());
        Ok(None)
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
    /// Returns [`OperationError::NoEntity`] if it does not exist, [`OperationError::Held`] if it is on hold, or the error of a read.
    pub async fn plan(store: &Store, id: &str, options: Options, pace: &RateLimiter) -> Result<Self, OperationError> {
        let (entity, pruner) = (entity_of(store, id)?, Pruner::new(store, options, pace));
        let seen = Collection::read(&pruner.table, &entity).await?;
        if let Some(hold) = seen.hold {
            return Err(OperationError::Held(hold));
        }
        let plan = pruner.plan(&seen).map_err(ReadError::Latest)?;
        Ok(Self {
            plan: plan.ok_or_else(|| OperationError::NoEntity(id.to_owned()))?,
            expires: pruner.expires(),
            pruner,
            entity,
        })
    }

    /// Records what is removed from a table whose versions are sealed.
    #[must_use]
    pub fn with_record(mut self, record: Option<Record>) -> Self {
        self.pruner.record = record;
        self
    }

    /// Carries out the plan. Returns the number of versions that were marked, or that a dry run would mark.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::Held`] if a hold was set since, or the error of a request. The pruning can be repeated.
    pub async fn run(&self, progress: &impl Progress) -> Result<u64, OperationError> {
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
        /// Entities on hold.
        pub held: u64,
        /// Entities that cannot be pruned because of their items.
        pub failed: u64,
    }
}

/// Reason why an entity is not pruned.
pub enum Left {
    Held(Hold),
    /// Its items.
    Failed(String),
}

type SegmentProgress = progress::Progress<Counts>;

/// Pruning of a table. A step prunes the entities of a page, and returns those that it leaves as they are.
pub type TablePrune = SegmentRun<Counts, (), Vec<(EntityId, Left)>>;

impl TablePrune {
    /// Prepares a run, or resumes the run of the checkpoint. With a record, it is one of a table whose versions are sealed.
    pub fn new(plan: segments::Plan<'_>, options: Options, record: Option<Record>) -> Result<Self, OperationError> {
        let mut pruner = Pruner::new(plan.store, options, plan.pace);
        pruner.record = record;
        Self::begin(plan, "prune", options, |segment, progress: &SegmentProgress| {
            let pruner = pruner.clone();
            let mut entities = SegmentEntities::new(pruner.table.clone(), segment, progress, None);
            async move |progress: &mut SegmentProgress| {
                if progress.done {
                    return Ok(None);
                }
                let mut left = Vec::new();
                for seen in entities.next_page(progress).await? {
                    let counts = &mut progress.counts;
                    counts.items += seen.items;
                    left.extend(pruner.entity(&seen, counts).await?.map(|why| (seen.entity, why)));
                }
                Ok(Some(left))
            }
        })
    }
}
