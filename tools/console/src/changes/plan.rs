//! Plan of an undo, which is kept on disk under its id, and its run.

use std::sync::{Arc, Mutex};

use operations::{
    connection::Connection,
    error::OperationError,
    rate_limit::{Limits, RateLimiter},
    segments,
    table_size::TableSize,
    undo::{
        apply::Applied,
        options::{Counts, Options},
        plan::{EntityPlan, plan},
        table::{TablePlan, apply_all},
    },
    value_file::ValueFile,
};
use shared::{domain::entity::EntityId, dynamodb::Store};
use uuid::Uuid;

use super::{
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
    Entity(EntityId),
    /// Entities whose keys begin with one of these texts.
    Table(Vec<String>),
}

/// The last result and the last undo of a table.
#[derive(Default)]
pub(crate) struct Changes {
    pub(super) scan: Mutex<Option<Arc<Scan>>>,
    pub(super) undo: Mutex<Option<Arc<Undo>>>,
}

pub(super) struct Undo {
    pub(super) id: String,
    /// The selection in words.
    pub(super) what: String,
    pub(super) options: Options,
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
    pub(super) fn start(connection: Connection, limits: Limits, of: Of, what: String, options: Options) -> Self {
        let (planned, wanted) = (Arc::new(Mutex::new(Entities::default())), options.clone());
        let target = Arc::clone(&planned);
        let planning = Job::start(async move |progress| {
            let (store, pace) = limited(&connection, limits);
            match of {
                Of::Entity(entity) => {
                    let plan = plan(&store, &entity, &wanted).await?;
                    let mut target = lock(&target);
                    target.counts = plan.counts;
                    match plan.is_concerned() {
                        true => target.plan(&plan),
                        false => Ok(()),
                    }
                }
                Of::Table(prefixes) => {
                    plan_table((&connection, &store, &pace), prefixes, wanted, &target, &progress).await
                }
            }
        });
        Self {
            id: Uuid::new_v4().to_string(),
            what,
            options,
            planning,
            planned,
            run: Mutex::default(),
            applied: Arc::default(),
        }
    }

    /// Carries the plan out, unless it has already started.
    pub(super) fn apply(&self, connection: Connection, limits: Limits) {
        let mut run = lock(&self.run);
        if run.is_some() {
            return;
        }
        let (planned, applied, options) = (
            Arc::clone(&self.planned),
            Arc::clone(&self.applied),
            self.options.clone(),
        );
        *run = Some(Arc::new(Job::start(async move |progress| {
            let (store, pace) = limited(&connection, limits);
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
                apply_all(&store, &pace, to_apply.into_iter().map(Ok), &options, done).await?;
                connection.clear_meters();
            }
        })));
    }
}

/// Returns the store with a separate meter, so that only its requests are limited.
fn limited(connection: &Connection, limits: Limits) -> (Store, RateLimiter) {
    let (store, meter) = connection.metered();
    (store, RateLimiter::new(meter, limits))
}

async fn plan_table(
    (connection, store, pace): (&Connection, &Store, &RateLimiter),
    prefixes: Vec<String>,
    options: Options,
    planned: &Mutex<Entities>,
    progress: &Progress,
) -> Result<(), OperationError> {
    let size = TableSize::of(store).await.unwrap_or_default();
    let mut run = TablePlan::new(segments::Plan::new(store, pace), options, prefixes)?;
    while let Some(plans) = run.step().await? {
        connection.clear_meters();
        let length = {
            let mut planned = lock(planned);
            plans.iter().try_for_each(|plan| planned.plan(plan))?;
            planned.counts = run.counts();
            planned.file.as_ref().map_or(0, |file| file.length)
        };
        progress.set(run.counts().items, size.items);
        progress.check(length)?;
    }
    Ok(())
}
