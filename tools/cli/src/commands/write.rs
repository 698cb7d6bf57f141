//! `vzero put`, `vzero delete` and `vzero undelete`.

use operations::{
    connection::Connection,
    revision::{self, RestoreError},
};
use serde_json::Map;
use writer_fn::counter::{self, WriteOutcome};

use super::written;
use crate::{
    changes::{self, Changes},
    error::CliError,
    output::Output,
    write_options::WriteOptions,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: vzero put Equipment#1 --set State=OK --set-json Speed=1.5 --unset Note --actor me")]
pub(crate) struct Put {
    /// Partition key of the entity
    id: String,
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    options: WriteOptions,
}

impl Put {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        if self.changes.is_empty() {
            return Err(CliError::Usage(
                "put needs attributes: use --set, --set-json or --unset, or --json FILE, which may be {}".to_owned(),
            ));
        }
        let update = changes::update(&self.id, &self.options, self.changes.read()?)?;
        let outcome = counter::write(&connection.store, &update, self.options.writing.options()?).await?;
        written::print(&self.id, outcome, output)
    }
}

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
