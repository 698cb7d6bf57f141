//! Deployment of a history table during a run, and what functions and operators use before and after it.
//!
//! ```text
//! history in the table ──deploy──▶ moved to its own table, reads use both ──`vzero admin migrate`──▶ in its own table
//! ```
//!
//! An invocation or a command keeps the layout with which it started.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use shared::dynamodb::HistoryTable;

use crate::{
    mutation::Mutation,
    schedule::{FaultKind, Settings},
};

/// Progress of a deployment, shared by all that depend on it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Deployment {
    /// Number of layouts before the current one.
    passed: Arc<AtomicUsize>,
    mutation: Option<Mutation>,
}

impl Deployment {
    pub(crate) fn new(mutation: Option<Mutation>) -> Self {
        Self {
            mutation,
            ..Self::default()
        }
    }

    /// Starts to use the next layout.
    pub(crate) fn advance(&self) {
        self.passed.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns `true` if history is being moved to its own table.
    pub(crate) fn is_migrating(&self) -> bool {
        self.passed.load(Ordering::Relaxed) == 1
    }

    /// Returns the tables of history of a run, one after the other.
    fn layouts(&self, settings: &Settings) -> Vec<Option<HistoryTable>> {
        let history = settings.history();
        if !settings.migrates {
            return vec![history];
        }
        let is_migrating = self.mutation.is_none_or(Mutation::reads_both_tables);
        let migrating = history.clone().map(|history| HistoryTable {
            is_migrating,
            ..history
        });
        vec![None, migrating, history]
    }

    /// Creates a value for each layout of a run.
    pub(crate) fn of<T, E>(
        &self,
        settings: &Settings,
        create: impl FnMut(Option<HistoryTable>) -> Result<T, E>,
    ) -> Result<Deployed<T>, E> {
        Ok(Deployed {
            states: self
                .layouts(settings)
                .into_iter()
                .map(create)
                .collect::<Result<_, _>>()?,
            deployment: self.clone(),
        })
    }
}

/// A function as it is deployed with another layout than that of the table.
#[derive(Debug)]
pub(crate) struct Misdeployed<T> {
    /// With another width of version keys.
    pub(crate) width: T,
    /// With another table of history.
    pub(crate) history: T,
}

impl<T> Misdeployed<T> {
    /// Returns the function that a fault of an invocation runs, if it runs one of these.
    pub(crate) fn of(&self, fault: Option<FaultKind>) -> Option<&T> {
        match fault {
            Some(FaultKind::WrongLayout) => Some(&self.width),
            Some(FaultKind::WrongHistory) => Some(&self.history),
            _ => None,
        }
    }
}

/// One value for each layout of a run.
#[derive(Debug)]
pub(crate) struct Deployed<T> {
    states: Vec<T>,
    deployment: Deployment,
}

impl<T> Deployed<T> {
    /// Creates a value of a run without a deployment.
    pub(crate) fn constant(value: T) -> Self {
        Self {
            states: vec![value],
            deployment: Deployment::default(),
        }
    }

    /// Returns the value for the current layout.
    pub(crate) fn current(&self) -> &T {
        let last = self.states.len() - 1;
        &self.states[self.deployment.passed.load(Ordering::Relaxed).min(last)]
    }
}
