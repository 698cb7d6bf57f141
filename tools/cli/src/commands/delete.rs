//! `vzero delete` and `vzero undelete`.

use operations::{
    connection::Connection,
    revision::{self, RestoreError},
};
use serde_json::Map;
use writer_fn::counter::WriteOutcome;

use super::written;
use crate::{changes, error::CliError, output::Output, write_options::WriteOptions};

#[derive(Debug, clap::Args)]
pub(crate) struct Delete {
    /// Partition key of the entity
    id: String,
    #[command(flatten)]
    options: WriteOptions,
}

impl Delete {
    pub(crate) async fn run(&self, connection: &Connection, deleted: bool, output: &Output) -> Result<(), CliError> {
        let (entity, request_id, revision) = written::parts(changes::update(&self.id, &self.options, Map::new())?);
        let options = self.options.writing.options()?;
        let store = &connection.store;
        let done = match deleted {
            true => revision::delete(store, &entity, request_id, revision, options).await,
            false => revision::undelete(store, &entity, request_id, revision, options).await,
        };
        let done = match done {
            Err(RestoreError::NotFound) => return Err(CliError::no_entity(&self.id)),
            done => done?,
        };
        if let Some(outcome) = done {
            return written::print(&self.id, outcome, output);
        }
        let latest = store.latest(&entity, true).await?;
        let version = latest.ok_or_else(|| CliError::no_entity(&self.id))?.version;
        written::print(&self.id, WriteOutcome::Unchanged { version }, output)
    }
}
