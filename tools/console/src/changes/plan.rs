//! Plan of an undo, which is kept on disk under its id, and its run.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::{NonZeroU32, NonZeroU64},
    sync::{Arc, Mutex},
};

use operations::{
    all_versions::filter::VersionFilter,
    connection::Connection,
    error::OperationError,
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
    cost::{Cost, limited},
    entity::{Entity, OUTCOMES},
    job::{Job, Progress},
    scan::Scan,
};
use crate::lock::lock;

/// Entities of a page, and of a step of the run.
pub(super) const PAGE: usize = 20;

/// Selection to undo.
#[derive(Clone)]
pub(super) enum Of {
    Versions(BTreeMap<EntityId, BTreeSet<Version>>),
    /// Entities whose keys begin with one of these texts.
    Table(Vec<String>),
}

/// The last result and the last undo of a table.
#[derive(Default)]
pub(crate) struct Changes {
    pub(super) scan: Mutex<Option<Arc<Scan>>>,
    pub(super) undo: Mutex<Option<Arc<Undo>>>,
}

/// What is undone, how much of it, and how fast.
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
    /// Maximum numbers of units a second.
    pub(super) max_read_units: Option<NonZeroU32>,
    pub(super) max_write_units: Option<NonZeroU32>,
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

    fn is_full(&self, request: &Request) -> bool {
        request.limit.is_some_and(|limit| self.changing >= limit.get())
    }

    fn plan(&mut self, plan: &EntityPlan) -> Result<(), OperationError> {
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
            Of::Versions(versions) => plan_versions(&connection, versions, &wanted, &target, &progress).await,
            Of::Table(prefixes) => plan_table(&connection, prefixes, &wanted, &target, &progress).await,
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
            let (store, pace) = limited(&connection, request.max_read_units, request.max_write_units);
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
    progress: &Progress,
) -> Result<(), OperationError> {
    let (store, pace) = limited(connection, request.max_read_units, None);
    for (done, (entity, numbers)) in (0..).zip(versions) {
        progress.set(done, versions.len() as u64);
        let mut options = request.options.clone();
        options.selection.versions = Some(numbers.clone());
        let plan = pace.run(async || plan(&store, entity, &options).await).await?;
        let mut planned = lock(planned);
        if !planned.is_full(request) {
            planned.counts = [&planned.counts, &plan.counts].into_iter().sum();
            plan.is_concerned().then(|| planned.plan(&plan)).transpose()?;
        }
    }
    Ok(())
}

async fn plan_table(
    connection: &Connection,
    prefixes: &[String],
    request: &Request,
    planned: &Mutex<Entities>,
    progress: &Progress,
) -> Result<(), OperationError> {
    let (store, pace) = limited(connection, request.max_read_units, None);
    let selection = &request.options.selection;
    let filter = VersionFilter {
        since: selection.since,
        until: selection.until,
        ..VersionFilter::default()
    };
    let cost = Cost::of((&store, &pace), connection.consistent, &filter).await?;
    let plan = segments::Plan {
        source: &cost.source,
        ..segments::Plan::new(&store, &pace)
    };
    let mut run = TablePlan::new(plan, request.options.clone(), prefixes.to_vec())?;
    while !lock(planned).is_full(request)
        && let Some(plans) = run.step().await?
    {
        connection.clear_meters();
        let length = {
            let mut planned = lock(planned);
            for plan in &plans {
                if !planned.is_full(request) {
                    planned.plan(plan)?;
                }
            }
            planned.counts = run.counts();
            planned.file.as_ref().map_or(0, |file| file.length)
        };
        progress.set(run.counts().items, cost.items);
        progress.check(length)?;
    }
    Ok(())
}
