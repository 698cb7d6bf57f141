//! What the console works with.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use shared::dynamodb::{Store, write::WriteOptions};

use super::secrets::Secrets;
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
