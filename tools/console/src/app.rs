//! State that all requests of a table share.

use std::sync::Arc;

use operations::connection::Connection;
use shared::{config::WriteOptions, dynamodb::Store};

use crate::{
    changes::plan::Changes, current::Current, error::PageError, health::audit::Audit, menu::Menu, options::Options,
    secrets::Secrets,
};

pub(super) struct App {
    pub(super) connection: Connection,
    pub(super) secrets: Arc<Secrets>,
    pub(super) options: Arc<Options>,
    pub(super) menu: Arc<Menu>,
    pub(super) current: Arc<Current>,
    pub(super) audit: Audit,
    pub(super) changes: Changes,
}

impl App {
    pub(super) fn store(&self) -> &Store {
        &self.connection.store
    }

    pub(super) fn consistent(&self) -> bool {
        self.connection.consistent
    }

    pub(super) fn allows_writes(&self) -> bool {
        self.options.writes.is_some()
    }

    /// Returns the options of writes, or an error if the console is read-only.
    pub(super) fn writes(&self) -> Result<WriteOptions, PageError> {
        self.options.writes.ok_or(PageError::ReadOnly)
    }
}
