//! Repair plans. They are created in the background, and kept until they are executed: at most 16, the newest.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use operations::{
    connection::Connection,
    error::OperationError,
    failures::source::Source,
    progress::Silent,
    redrive::{Feed, Services},
    repair::{Findings, Plan, of_entities},
};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::background;

/// Maximum number of plans. A new plan replaces the oldest.
const MAX_PLANS: usize = 16;

#[derive(Default)]
pub(crate) struct Plans(Mutex<VecDeque<Job>>);

#[derive(Clone)]
pub(super) struct Scope {
    /// Key of the entity, `None` for all findings of the audit.
    pub(super) id: Option<String>,
    pub(super) findings: Option<Findings>,
    /// `true` to search the table's stream for missing versions.
    pub(super) stream: bool,
    /// `true` to recreate missing latest items.
    pub(super) revive: bool,
}

pub(super) enum State {
    Looking,
    Ready(Ready),
    Failed(Arc<OperationError>),
}

pub(super) struct Ready {
    pub(super) plan: Plan,
    pub(super) entities: usize,
}

struct Job {
    id: String,
    scope: Scope,
    state: Arc<Mutex<State>>,
    done: Arc<Notify>,
}

impl State {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Looking => "Looking",
            Self::Ready(_) => "Ready",
            Self::Failed(_) => "Failed",
        }
    }
}

impl Plans {
    /// Starts the creation of a plan, and returns the id of the plan.
    pub(super) fn start(&self, mut planner: Planner) -> String {
        let state = Arc::new(Mutex::new(State::Looking));
        let done = Arc::new(Notify::new());
        // A folder does not exist before the first failure.
        planner.sources.retain(exists);
        let scope = planner.scope.clone();
        let (target, notify) = (Arc::clone(&state), Arc::clone(&done));
        drop(background::spawn(async move || {
            let result = match planner.plan().await {
                Ok(ready) => State::Ready(ready),
                Err(error) => State::Failed(Arc::new(error)),
            };
            *lock(&target) = result;
            notify.notify_one();
        }));
        let id = Uuid::new_v4().simple().to_string();
        self.keep(Job {
            id: id.clone(),
            scope,
            state,
            done,
        });
        id
    }

    fn keep(&self, job: Job) {
        let mut jobs = lock(&self.0);
        while jobs.len() >= MAX_PLANS {
            jobs.pop_front();
        }
        jobs.push_back(job);
    }

    pub(super) async fn wait(&self, id: &str, timeout: Duration) {
        let done = {
            let jobs = lock(&self.0);
            let job = jobs.iter().find(|job| job.id == id);
            let job = job.filter(|job| matches!(*lock(&job.state), State::Looking));
            job.map(|job| Arc::clone(&job.done))
        };
        if let Some(done) = done {
            let _ = tokio::time::timeout(timeout, done.notified()).await;
        }
    }

    /// Returns the view of a plan, or `None` if it does not exist.
    pub(super) fn show<T>(&self, id: &str, show: impl FnOnce(&Scope, &State) -> T) -> Option<T> {
        let jobs = lock(&self.0);
        let job = jobs.iter().find(|job| job.id == id)?;
        Some(show(&job.scope, &lock(&job.state)))
    }

    /// Removes and returns a plan that is ready, so that it is executed at most once.
    pub(super) fn take(&self, id: &str) -> Option<(Scope, Ready)> {
        let mut jobs = lock(&self.0);
        let at = jobs
            .iter()
            .position(|job| job.id == id && matches!(*lock(&job.state), State::Ready(_)))?;
        let job = jobs.remove(at)?;
        let state = std::mem::replace(&mut *lock(&job.state), State::Looking);
        match state {
            State::Ready(ready) => Some((job.scope.clone(), ready)),
            _ => None,
        }
    }
}

pub(super) struct Planner {
    pub(super) connection: Connection,
    pub(super) services: Services,
    pub(super) sources: Vec<Source>,
    pub(super) lag: Duration,
    pub(super) scope: Scope,
}

impl Planner {
    async fn plan(self) -> Result<Ready, OperationError> {
        let connection = &self.connection;
        let found = match (self.scope.findings, &self.scope.id) {
            (None, Some(id)) => {
                let ids = std::slice::from_ref(id);
                match of_entities(&connection.store, ids, self.lag, &Silent).await? {
                    (_, Some(entity)) => return Err(OperationError::NoEntity(entity.as_str().to_owned())),
                    (found, None) => found,
                }
            }
            (findings, _) => findings.unwrap_or_default(),
        };
        let mut plan = Plan::of(&connection.store, &found, self.scope.revive).await?;
        let feed = Feed::new(connection, &self.services, &Silent);
        plan.add_missing(connection, &feed, &self.sources, self.scope.stream)
            .await?;
        Ok(Ready {
            plan,
            entities: found.len(),
        })
    }
}

fn exists(source: &Source) -> bool {
    match source {
        Source::Path(path) => path.exists(),
        Source::Bucket { .. } | Source::Queue(_) | Source::Quarantine(_) => true,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: &str, state: State) -> Job {
        Job {
            id: id.to_owned(),
            scope: Scope {
                id: None,
                findings: None,
                stream: false,
                revive: false,
            },
            state: Arc::new(Mutex::new(state)),
            done: Arc::default(),
        }
    }

    fn ready(entities: usize) -> State {
        State::Ready(Ready {
            plan: Plan::default(),
            entities,
        })
    }

    #[test]
    fn plans_are_taken_once() {
        let plans = Plans::default();
        plans.keep(job("a", ready(7)));
        plans.keep(job("b", State::Looking));
        plans.keep(job("c", State::Failed(Arc::new(OperationError::NoVersion))));
        assert_eq!(plans.take("a").map(|(_, ready)| ready.entities), Some(7));
        assert!(plans.take("a").is_none() && plans.show("a", |_, _| ()).is_none());
        // Plans that are not ready are not taken, and are kept.
        for id in ["b", "c", "d", ""] {
            assert!(plans.take(id).is_none(), "{id}");
        }
        assert_eq!(plans.show("b", |_, state| state.name()), Some("Looking"));
    }

    #[test]
    fn a_new_plan_replaces_the_oldest() {
        let plans = Plans::default();
        for number in 0..=MAX_PLANS {
            plans.keep(job(&number.to_string(), ready(number)));
        }
        assert!(plans.take("0").is_none());
        assert!(plans.take("1").is_some());
        assert_eq!(lock(&plans.0).len(), MAX_PLANS - 1);
    }
}
