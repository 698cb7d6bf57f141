//! `vzero put`, `vzero delete` and `vzero undelete`.

use operations::{
    connection::Connection,
    error::OperationError,
    revision::{self, ChangeOptions},
};
use serde_json::{Map, json};
use shared::domain::{entity::EntityId, request_id::RequestId, view::VersionView};
use writer_fn::{
    counter::{self, WriteOutcome},
    update::Update,
};

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
        print(&self.id, outcome, output)
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
        let (entity, request_id, revision) = parts(changes::update(&self.id, &self.options, Map::new())?);
        let options = self.options.writing.options()?;
        let store = &connection.store;
        let done = match deleted {
            true => revision::delete(store, &entity, request_id, revision, options).await?,
            false => revision::undelete(store, &entity, request_id, revision, options).await?,
        };
        let unchanged = |latest: VersionView| WriteOutcome::Unchanged {
            version: latest.version,
        };
        let outcome = match done {
            Some(outcome) => Some(outcome),
            None => store.latest(&entity, true).await?.map(unchanged),
        };
        print(&self.id, outcome.ok_or_else(|| CliError::no_entity(&self.id))?, output)
    }
}

/// Prints the outcome, or returns it as an error if nothing was written.
pub(super) fn print(id: &str, outcome: WriteOutcome, output: &Output) -> Result<(), CliError> {
    let (name, version) = match outcome {
        WriteOutcome::Written { version } => ("Written", version),
        WriteOutcome::Duplicate { version } => ("Duplicate", version),
        WriteOutcome::Unchanged { version } => ("Unchanged", version),
        WriteOutcome::Stale { .. } | WriteOutcome::Conflict { .. } => {
            return OperationError::of_outcome(outcome).map_or(Ok(()), |error| Err(error.into()));
        }
    };
    output.object(&json!({"ID": id, "Version": version, "Outcome": name}))
}

/// Splits an update into the parts that a restore takes.
pub(super) fn parts(update: Update) -> (EntityId, RequestId, ChangeOptions) {
    let revision = ChangeOptions {
        expected: update.expected,
        timestamp: update.timestamp,
        sent_at: update.sent_at,
        changes: update.changes,
    };
    (update.entity, update.request_id, revision)
}
