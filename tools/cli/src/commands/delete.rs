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
        let outcome = match done {
            Err(RestoreError::NotFound) => None,
            done => match done? {
                Some(outcome) => Some(outcome),
                None => store
                    .latest(&entity, true)
                    .await?
                    .map(|latest| WriteOutcome::Unchanged {
                        version: latest.version,
                    }),
            },
        };
        written::print(&self.id, outcome.ok_or_else(|| CliError::no_entity(&self.id))?, output)
    }
}
