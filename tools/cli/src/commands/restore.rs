//! `vzero restore`.

use operations::connection::Connection;
use serde_json::Map;

use super::{values::version, written};
use crate::{changes, error::CliError, output::Output, write_options::WriteOptions};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: vzero restore Equipment#1 3 --reason 'the update was wrong'")]
pub(crate) struct Restore {
    /// Partition key of the entity
    id: String,
    /// Number of the version to restore
    number: u64,
    #[command(flatten)]
    options: WriteOptions,
}

impl Restore {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let number = version(self.number)?;
        let (entity, request_id, revision) = written::parts(changes::update(&self.id, &self.options, Map::new())?);
        let options = self.options.writing.options()?;
        let store = &connection.store;
        let outcome = store.restore(&entity, number, request_id, revision, options).await?;
        written::print(&self.id, outcome, output)
    }
}
