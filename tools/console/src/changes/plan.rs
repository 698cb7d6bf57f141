//! Plan of an undo, which is kept on disk under its id, and its run.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU64,
    sync::{Arc, Mutex},
};

use operations::{
    connection::Connection,
    error::OperationError,
    rate_limit::Limits,
    segments,
    undo::{
        apply::Applied,
        options::{Counts, Options},
        plan::{EntityPlan, plan},
        table::{TablePlan, apply_all},
    },
    value_file::ValueFile,
};
use shared::domain::{entity::EntityId, version::Version};
use uuid::Uuid;

use super::{
    cost::Cost,
    entity::{Entity, OUTCOMES},
    filter::Filter,
    scan::Scan,
};
use crate::{
    job::{Job, Progress, limited},
    lock::lock,
};

/// Entities of a page, and of a step of the run.
pub(super) const PAGE: usize = 20;

/// Selection to undo.
pub(super) enum Of {
    Versions(BTreeMap<EntityId, BTreeSet<Version>>),
    Table(Filter),
}

/// The last result and the last undo of a table.
#[derive(Default)]
pub(crate) struct Changes {
    pub(super) scan: Mutex<Option<Arc<Scan>>>,
    pub(super) undo: Mutex<Option<Arc<Undo>>>,
}

/// Selection, limit and rate of an undo.
pub(super) struct Request {
    pub(super) of: Of,
    /// The selection in words.
    pub(super) what: String,
    /// Address of the page that plans the same undo.
    pub(super) again: String,
    /// Command of the same undo, if there is one.
    pub(super) command: Option<String>,
    pub(super) options: Options,
    /// Maximum number of entities that change.
    pub(super) limit: Option<NonZeroU64>,
    pub(super) limits: Limits,
}

pub(super) struct Undo {
    pub(super) id: String,
    pub(super) request: Arc<Request>,
    pub(super) planning: Job,
    pub(super) planned: Arc<Mutex<Entities>>,
    /// The run, if the plan was carried out.
    pub(super) run: Mutex<Option<Arc<Job>>>,
    pub(super) applied: Arc<Mutex<Entities>>,
}

/// Entities of a plan or of its run, with their counts.
#[derive(Default)]
pub(super) struct Entities {
    file: Option<ValueFile<Entity>>,
    pub(super) total: u64,
    /// Versions that are undone in them. The counts have those of other entities, too.
    pub(super) versions: u64,
    /// Entities that change.
    pub(super) changing: u64,
    pub(super) conflicts: u64,
    pub(super) write_units: u64,
    pub(super) counts: Counts,
    /// Numbers of entities by their outcomes.
    pub(super) outcomes: [u64; OUTCOMES.len()],
}

impl Entities {
    fn push(&mut self, entity: &Entity) -> Result<(), OperationError> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(ValueFile::new()?),
        };
        self.total += 1;
        if let Some(outcome) = entity.outcome {
            self.outcomes[outcome] += 1;
        }
        file.push(entity)
    }

    fn is_full(&self, limit: Option<NonZeroU64>) -> bool {
        limit.is_some_and(|limit| self.changing >= limit.get())
    }

    /// Adds a plan that changes something or has a conflict, up to a number of entities that change.
    fn plan(&mut self, plan: &EntityPlan, limit: Option<NonZeroU64>) -> Result<(), OperationError> {
        if !plan.is_concerned() || self.is_full(limit) {
            return Ok(());
        }
        self.versions += plan.versions.len() as u64;
        self.conflicts += u64::from(plan.has_conflicts());
        self.write_units += plan.write_units;
        let entity = Entity::planned(plan);
        self.changing += u64::from(entity.to_apply().is_some());
        self.push(&entity)
    }

    /// Reads entities, and the position after them.
    pub(super) fn read(&mut self, position: u64, skip: usize) -> Result<(Vec<Entity>, u64), OperationError> {
        let mut read = (Vec::new(), position);
        if let Some(file) = &mut self.file {
            for entity in file.read_from(position)?.skip(skip).take(PAGE) {
                let (entity, after) = entity?;
                read.0.push(entity);
                read.1 = after;
            }
        }
        Ok(read)
    }
}

impl Undo {
    /// Starts the plan.
    pub(super) fn start(connection: Connection, request: Request) -> Self {
        let (planned, request) = (Arc::new(Mutex::new(Entities::default())), Arc::new(request));
        let (target, wanted) = (Arc::clone(&planned), Arc::clone(&request));
        let planning = Job::start(async move |progress| match &wanted.of {
            Of::Versions(versions) => plan_versions(&connection, versions, &wanted, &target).await,
            Of::Table(filter) => plan_table(&connection, filter, &wanted, &target, &progress).await,
        });
        Self {
            id: Uuid::new_v4().to_string(),
            request,
            planning,
            planned,
            run: Mutex::default(),
            applied: Arc::default(),
        }
    }

    /// Carries the plan out, unless it has already started.
    pub(super) fn apply(&self, connection: Connection) {
        let mut run = lock(&self.run);
        if run.is_some() {
            return;
        }
        let (planned, applied, request) = (
            Arc::clone(&self.planned),
            Arc::clone(&self.applied),
            Arc::clone(&self.request),
        );
        *run = Some(Arc::new(Job::start(async move |progress| {
            let (store, pace) = limited(&connection, request.limits);
            let all = lock(&planned).total;
            let mut position = 0;
            loop {
                let (entities, after) = lock(&planned).read(position, 0)?;
                if entities.is_empty() {
                    return Ok(());
                }
                position = after;
                let mut to_apply = Vec::new();
                for mut entity in entities {
                    if let Some(entity) = entity.to_apply() {
                        to_apply.push(entity);
                    } else {
                        entity.stay();
                        lock(&applied).push(&entity)?;
                    }
                }
                let done = |entity: Applied| -> Result<(), OperationError> {
                    let mut applied = lock(&applied);
                    applied.push(&Entity::applied(&entity))?;
                    progress.set(applied.total, all);
                    Ok(())
                };
                apply_all(&store, &pace, to_apply.into_iter().map(Ok), &request.options, done).await?;
                connection.clear_meters();
            }
        })));
    }
}

async fn plan_versions(
    connection: &Connection,
    versions: &BTreeMap<EntityId, BTreeSet<Version>>,
    request: &Request,
    planned: &Mutex<Entities>,
) -> Result<(), OperationError> {
    let (store, pace) = limited(connection, request.limits);
    for (entity, numbers) in versions {
        let mut options = request.options.clone();
        options.selection.versions = Some(numbers.clone());
        let plan = pace.run(async || plan(&store, entity, &options).await).await?;
        let mut planned = lock(planned);
        planned.counts = [&planned.counts, &plan.counts].into_iter().sum();
        planned.plan(&plan, request.limit)?;
    }
    Ok(())
}

async fn plan_table(
    connection: &Connection,
    filter: &Filter,
    request: &Request,
    planned: &Mutex<Entities>,
    progress: &Progress,
) -> Result<(), OperationError> {
    let (store, pace) = limited(connection, request.limits);
    let cost = Cost::of(connection, request.limits, &filter.scanned).await?;
    let plan = segments::Plan {
        source: &cost.source,
        ..segments::Plan::new(&store, &pace)
    };
    let prefixes = filter.scanned.entity_prefix.iter().cloned().collect();
    let mut run = TablePlan::new(plan, request.options.clone(), prefixes)?;
    while !lock(planned).is_full(request.limit)
        && let Some(plans) = run.step().await?
    {
        connection.clear_meters();
        let length = {
            let mut planned = lock(planned);
            plans.iter().try_for_each(|plan| planned.plan(plan, request.limit))?;
            planned.counts = run.counts();
            planned.file.as_ref().map_or(0, |file| file.length)
        };
        progress.set(run.counts().items, cost.items);
        progress.check(length)?;
    }
    Ok(())
}
