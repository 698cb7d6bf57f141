//! State that all requests share.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use operations::connection::Connection;
use shared::{
    config::{Ordering, WriteOptions},
    dynamodb::Store,
};

use crate::{error::PageError, health::audit::Audit, secrets::Secrets};

pub(super) struct App {
    pub(super) connection: Connection,
    pub(super) secrets: Arc<Secrets>,
    /// Options of writes, or `None` if the console is read-only.
    pub(super) writes: Option<WriteOptions>,
    /// Time in which a missing version may still arrive.
    pub(super) lag: Duration,
    /// Maximum number of read units a second of an audit.
    pub(super) max_read_units: Option<NonZeroU32>,
    pub(super) ordering: Ordering,
    pub(super) audit: Audit,
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
}
