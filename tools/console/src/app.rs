//! State that all requests share.

use std::sync::Arc;

use operations::connection::Connection;
use shared::{config::WriteOptions, dynamodb::Store};

use crate::{error::PageError, health::audit::Audit, options::Options, secrets::Secrets};

pub(super) struct App {
    pub(super) connection: Connection,
    pub(super) secrets: Arc<Secrets>,
    pub(super) options: Options,
    pub(super) audit: Audit,
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
