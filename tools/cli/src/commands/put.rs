//! `vzero put`.

use operations::connection::Connection;
use writer_fn::counter;

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
