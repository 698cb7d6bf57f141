//! State that all requests share.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use operations::{connection::Connection, failures::source::Source, redrive::Services};
use shared::{
    domain::update::Ordering,
    dynamodb::{Store, write::WriteOptions},
};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::{
    error::PageError,
    health::{audit::Audit, sampler::Samples},
    repair::plans::Plans,
    secrets::Secrets,
};

pub(super) struct App {
    pub(super) connection: Connection,
    pub(super) secrets: Arc<Secrets>,
    /// Options of writes, or `None` if the console is read-only.
    pub(super) writes: Option<WriteOptions>,
    pub(super) sources: Vec<Source>,
    pub(super) services: Services,
    /// Time in which a missing version may still arrive.
    pub(super) lag: Duration,
    /// Maximum number of read units a second of an audit.
    pub(super) max_read_units: Option<NonZeroU32>,
    pub(super) ordering: Ordering,
    /// Lock of the running redrive or repair.
    pub(super) busy: Arc<Mutex<()>>,
    pub(super) plans: Plans,
    pub(super) audit: Audit,
    pub(super) samples: Mutex<Samples>,
}

impl App {
    pub(super) fn store(&self) -> &Store {
        &self.connection.store
    }

    pub(super) fn consistent(&self) -> bool {
        self.connection.consistent
    }

    /// Returns the options of writes, or an error if the console is read-only.
    pub(super) fn writes(&self) -> Result<WriteOptions, PageError> {
        self.writes.ok_or(PageError::ReadOnly)
    }

    /// Locks out other redrives and repairs, or returns an error if one is running.
    pub(super) fn lock(&self) -> Result<OwnedMutexGuard<()>, PageError> {
        Arc::clone(&self.busy).try_lock_owned().map_err(|_| PageError::Busy)
    }
}
