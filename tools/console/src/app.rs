//! What the console works with.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use operations::{connection::Connection, failures::source::Source, redrive::Services};
use shared::{
    domain::update::Ordering,
    dynamodb::{Store, write::WriteOptions},
};
use tokio::sync::Mutex;

use crate::{
    error::PageError,
    health::{audit::Audit, sampler::Samples},
    repair::jobs::Repairs,
    secrets::Secrets,
};

/// What the console works with.
pub(super) struct App {
    pub(super) connection: Connection,
    pub(super) secrets: Arc<Secrets>,
    /// How writes are made. `None` where there are none.
    pub(super) writes: Option<WriteOptions>,
    /// Where failure documents are.
    pub(super) sources: Vec<Source>,
    /// How S3 and SQS are reached.
    pub(super) services: Services,
    /// How long a missing version may be on its way.
    pub(super) lag: Duration,
    /// The most read units a second of an audit.
    pub(super) max_read_units: Option<NonZeroU32>,
    /// What decides between two updates.
    pub(super) ordering: Ordering,
    /// Held by a redrive or a repair: one at a time.
    pub(super) busy: Arc<Mutex<()>>,
    /// Repairs that were planned.
    pub(super) repairs: Repairs,
    /// The last audit.
    pub(super) audit: Audit,
    /// Samples of write rate and lag.
    pub(super) samples: Mutex<Samples>,
}

impl App {
    pub(super) fn store(&self) -> &Store {
        &self.connection.store
    }

    pub(super) fn consistent(&self) -> bool {
        self.connection.consistent
    }

    /// How to write, if that is allowed.
    pub(super) fn writes(&self) -> Result<WriteOptions, PageError> {
        self.writes.ok_or_else(|| {
            PageError::Forbidden("the console is read-only: start it with --allow-write to change anything".to_owned())
        })
    }
}
