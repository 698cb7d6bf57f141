//! What the console works with.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use shared::{
    domain::update::Ordering,
    dynamodb::{Store, write::WriteOptions},
};
use tokio::sync::Mutex;

use super::{health::Health, repair::Repairs, secrets::Secrets};
use crate::{connection::Connection, error::CliError, failures::source::Source, redrive::Services};

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
    /// What is known of the table's health.
    pub(super) health: Health,
}

impl App {
    /// A console that only reads.
    pub(super) fn new(connection: Connection, sources: Vec<Source>) -> Self {
        Self {
            connection,
            secrets: Arc::new(Secrets::fresh()),
            writes: None,
            sources,
            services: Services::default(),
            lag: Duration::from_secs(60),
            max_read_units: None,
            ordering: Ordering::default(),
            busy: Arc::default(),
            repairs: Repairs::default(),
            health: Health::default(),
        }
    }

    pub(super) fn store(&self) -> &Store {
        &self.connection.store
    }

    pub(super) fn consistent(&self) -> bool {
        self.connection.consistent
    }

    /// How to write, if that is allowed.
    pub(super) fn writes(&self) -> Result<WriteOptions, CliError> {
        self.writes.ok_or_else(|| {
            CliError::Forbidden("the console is read-only: start it with --allow-write to change anything".to_owned())
        })
    }
}
