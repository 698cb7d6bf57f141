//! Undo of the selected versions of a whole table: plans of the entities of each page of a scan or of the index, and the runs of plans.

use std::{rc::Rc, sync::Arc};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use shared::{
    domain::{entity::EntityId, version::Version, view::VersionView},
    dynamodb::Store,
};

use super::{
    apply::{Applied, apply},
    options::{Counts, Options},
    plan::{EntityPlan, plan},
    planned::Planned,
    selection::Choice,
    set_file::SetFile,
};
use crate::{
    all_versions::filter::key_words,
    error::OperationError,
    rate_limit::RateLimiter,
    read::paced::Paced,
    segments::{self, SegmentRun, entities::Watched, progress},
    time_index::entities::Entities,
};

/// Number of entities that are planned, or carried out, at the same time.
const CONCURRENCY: usize = 8;

type SegmentProgress = progress::Progress<Counts>;

/// Plan of a table. A step returns the plans of the entities of a page that have selected versions, or can have them.
pub type TablePlan = SegmentRun<Counts, (), Vec<EntityPlan>>;

impl TablePlan {
    /// Prepares the plan for the entities whose id begins with one of these prefixes, or for all if there is none.
    ///
    /// # Errors
    ///
    /// As [`SegmentRun::step`].
    pub fn new(run: segments::Plan<'_>, options: Options, prefixes: Vec<String>) -> Result<Self, OperationError> {
        let (options, prefixes) = (Arc::new(options), Arc::new(prefixes));
        Self::begin(run, "undo", (), |segment, progress: &SegmentProgress| {
            let (table, options, prefixes) = (Paced::new(run.store, run.pace), options.clone(), prefixes.clone());
            let chosen = options.clone();
            let watched: Watched = Rc::new(move |view: &VersionView| chosen.selection.choose(view) != Choice::Other);
            let mut entities = Entities::new(table.clone(), run.source, segment, progress, Some(watched));
            async move |progress: &mut SegmentProgress| {
                if progress.done {
                    return Ok(None);
                }
                let (mut selected, items) = entities.next_page(progress).await?;
                progress.counts.items += items;
                selected.retain(|(entity, _)| has_prefix(&table.store, entity, &prefixes));
                let mut plans = plan_all(&table, selected, &options).await?;
                for plan in &plans {
                    progress.counts.add(&plan.counts);
                }
                plans.retain(EntityPlan::is_concerned);
                Ok(Some(plans))
            }
        })
    }
}

/// Plans these entities. One that does not exist has no plan.
///
/// # Errors
///
/// Returns the error of a service that fails.
pub async fn plan_listed(
    store: &Store,
    limiter: &RateLimiter,
    entities: &[EntityId],
    options: &Options,
) -> Result<Vec<EntityPlan>, OperationError> {
    let entities = entities.iter().map(|entity| (entity.clone(), None));
    plan_all(&Paced::new(store, limiter), entities.collect(), options).await
}

/// Plans entities, each with the first version that can be selected, if it is known. One that does not exist any more has no plan.
/// One whose latest item is not valid has a conflict.
async fn plan_all(
    table: &Paced,
    entities: Vec<(EntityId, Option<Version>)>,
    options: &Options,
) -> Result<Vec<EntityPlan>, OperationError> {
    let plans = stream::iter(entities).map(async |(entity, first)| {
        let mut options = options.clone();
        options.selection.first = first;
        match table.send(async |store| plan(store, &entity, &options).await).await {
            Err(OperationError::NoEntity(_)) => Ok(None),
            planned => EntityPlan::or_refused(planned, &table.store, &entity).map(Some),
        }
    });
    plans
        .buffered(CONCURRENCY)
        .try_filter_map(async |plan| Ok(plan))
        .try_collect()
        .await
}

/// Returns `true` if the key of an entity begins with one of the prefixes, see [`key_words`], or there is none.
pub fn has_prefix(store: &Store, entity: &EntityId, prefixes: &[String]) -> bool {
    let key = key_words(store, entity.as_str()).join(" ");
    prefixes.is_empty() || prefixes.iter().any(|prefix| key.starts_with(prefix))
}

/// Plans entities again and carries the plans out, a few at a time and at the rate of a limiter. `done` gets each result.
///
/// # Errors
///
/// Returns the error of a service that fails, that of `entities`, or that of `done`. The run can be repeated.
pub async fn apply_all<E: From<OperationError>>(
    store: &Store,
    limiter: &RateLimiter,
    entities: impl IntoIterator<Item = Result<Planned, OperationError>>,
    options: &Options,
    done: impl FnMut(Applied) -> Result<(), E>,
) -> Result<(), E> {
    apply_into(store, limiter, entities, (options, None), done).await
}

/// As [`apply_all`]. The set gets the writes of an attached table.
///
/// # Errors
///
/// As [`apply_all`], and that of the file of the set.
pub async fn apply_into<E: From<OperationError>>(
    store: &Store,
    limiter: &RateLimiter,
    entities: impl IntoIterator<Item = Result<Planned, OperationError>>,
    (options, set): (&Options, Option<&SetFile>),
    mut done: impl FnMut(Applied) -> Result<(), E>,
) -> Result<(), E> {
    let table = Paced::new(store, limiter);
    let results = stream::iter(entities).map(async |planned| -> Result<_, OperationError> {
        let Planned { entity, first, seen } = planned?;
        let mut options = options.clone();
        options.selection.first = first;
        if let Some((_, versions)) = &seen {
            options.selection.versions = Some(versions.iter().copied().collect());
        }
        let planned = table.send(async |store| plan(store, &entity, &options).await).await;
        let planned = EntityPlan::or_refused(planned, store, &entity)?;
        let seen = seen.as_ref().map(|(newest, _)| *newest);
        let carry_out = async |store: &Store| apply(store, planned.clone(), seen, &options, set).await;
        table.send(carry_out).await
    });
    let mut results = results.buffered(CONCURRENCY).boxed_local();
    while let Some(applied) = results.try_next().await? {
        done(applied)?;
    }
    Ok(())
}
