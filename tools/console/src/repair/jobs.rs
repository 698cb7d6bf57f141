//! Plans that are made, and kept until they are carried out: a few.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use operations::{
    connection::Connection,
    error::{Kind, OperationError},
    failures::source::Source,
    progress::Silent,
    redrive::{Feed, Services},
    repair::{Findings, Plan, of_entities},
};
use shared::logging::chain;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::aside;

/// How many plans are kept. The oldest goes when another comes.
const KEPT: usize = 16;

/// The plans of a console.
#[derive(Default)]
pub(crate) struct Repairs(Mutex<VecDeque<Job>>);

/// What is looked for.
#[derive(Clone)]
pub(super) struct Look {
    pub(super) id: Option<String>,
    /// What an audit found, where it is not about one entity.
    pub(super) findings: Option<Findings>,
    pub(super) stream: bool,
    pub(super) revive: bool,
}

/// How far a plan is.
pub(super) enum State {
    Looking,
    Ready(Ready),
    NotFound(String),
    Failed(String),
}

/// A plan, and of how many entities it is.
pub(super) struct Ready {
    pub(super) plan: Plan,
    pub(super) entities: usize,
}

struct Job {
    id: String,
    look: Look,
    state: Arc<Mutex<State>>,
    done: Arc<Notify>,
}

impl State {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Looking => "Looking",
            Self::Ready(_) => "Ready",
            Self::NotFound(_) => "NotFound",
            Self::Failed(_) => "Failed",
        }
    }
}

impl Repairs {
    /// Begins to make a plan, and says what it is called.
    pub(super) fn begin(&self, mut work: Work) -> String {
        let state = Arc::new(Mutex::new(State::Looking));
        let done = Arc::new(Notify::new());
        // A folder without failures may not be there yet.
        work.sources.retain(is_there);
        let look = work.look.clone();
        let (to, told) = (Arc::clone(&state), Arc::clone(&done));
        drop(aside::begin(async move || {
            let came_to = match work.plan().await {
                Ok(ready) => State::Ready(ready),
                Err(error) if error.kind() == Kind::NotFound => State::NotFound(chain(&error)),
                Err(error) => State::Failed(chain(&error)),
            };
            *lock(&to) = came_to;
            told.notify_one();
        }));
        let id = Uuid::new_v4().simple().to_string();
        self.keep(Job {
            id: id.clone(),
            look,
            state,
            done,
        });
        id
    }

    fn keep(&self, job: Job) {
        let mut jobs = lock(&self.0);
        while jobs.len() >= KEPT {
            jobs.pop_front();
        }
        jobs.push_back(job);
    }

    /// Waits for a plan, but not for long.
    pub(super) async fn wait(&self, id: &str, patience: Duration) {
        let done = {
            let jobs = lock(&self.0);
            let job = jobs.iter().find(|job| job.id == id);
            let job = job.filter(|job| matches!(*lock(&job.state), State::Looking));
            job.map(|job| Arc::clone(&job.done))
        };
        if let Some(done) = done {
            let _ = tokio::time::timeout(patience, done.notified()).await;
        }
    }

    /// Shows a plan.
    pub(super) fn show<T>(&self, id: &str, show: impl FnOnce(&Look, &State) -> T) -> Option<T> {
        let jobs = lock(&self.0);
        let job = jobs.iter().find(|job| job.id == id)?;
        Some(show(&job.look, &lock(&job.state)))
    }

    /// Takes a plan that is made. Nobody else gets it then.
    pub(super) fn take(&self, id: &str) -> Option<(Look, Ready)> {
        let mut jobs = lock(&self.0);
        let at = jobs
            .iter()
            .position(|job| job.id == id && matches!(*lock(&job.state), State::Ready(_)))?;
        let job = jobs.remove(at)?;
        let state = std::mem::replace(&mut *lock(&job.state), State::Looking);
        match state {
            State::Ready(ready) => Some((job.look.clone(), ready)),
            _ => None,
        }
    }
}

/// All that a plan is made of.
pub(super) struct Work {
    pub(super) connection: Connection,
    pub(super) services: Services,
    pub(super) sources: Vec<Source>,
    pub(super) lag: Duration,
    pub(super) look: Look,
}

impl Work {
    async fn plan(self) -> Result<Ready, OperationError> {
        let connection = &self.connection;
        let found = match (self.look.findings, &self.look.id) {
            (None, Some(id)) => {
                let ids = std::slice::from_ref(id);
                match of_entities(&connection.store, ids, self.lag).await? {
                    (_, Some(entity)) => return Err(OperationError::NoEntity(entity.as_str().to_owned())),
                    (found, None) => found,
                }
            }
            (findings, _) => findings.unwrap_or_default(),
        };
        let mut plan = Plan::of(&connection.store, &found, self.look.revive).await?;
        let feed = Feed::new(connection, &self.services, &Silent);
        plan.add_missing(connection, &feed, &self.sources, self.look.stream)
            .await?;
        Ok(Ready {
            plan,
            entities: found.len(),
        })
    }
}

fn is_there(source: &Source) -> bool {
    match source {
        Source::Path(path) => path.exists(),
        Source::Bucket { .. } | Source::Queue(_) => true,
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
            look: Look {
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
    fn a_plan_is_taken_once() {
        let repairs = Repairs::default();
        repairs.keep(job("a", ready(7)));
        repairs.keep(job("b", State::Looking));
        repairs.keep(job("c", State::Failed("why".to_owned())));
        assert_eq!(repairs.take("a").map(|(_, ready)| ready.entities), Some(7));
        assert!(repairs.take("a").is_none() && repairs.show("a", |_, _| ()).is_none());
        // What is not there yet is not taken, and is still there.
        for id in ["b", "c", "d", ""] {
            assert!(repairs.take(id).is_none(), "{id}");
        }
        assert_eq!(repairs.show("b", |_, state| state.name()), Some("Looking"));
    }

    #[test]
    fn the_oldest_plan_goes() {
        let repairs = Repairs::default();
        for number in 0..=KEPT {
            repairs.keep(job(&number.to_string(), ready(number)));
        }
        assert!(repairs.take("0").is_none());
        assert!(repairs.take("1").is_some());
        assert_eq!(lock(&repairs.0).len(), KEPT - 1);
    }
}
