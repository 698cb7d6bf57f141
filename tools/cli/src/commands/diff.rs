//! `vzero diff`.

use operations::connection::Connection;
use shared::domain::view::VersionView;

use super::values::{missing, version};
use crate::{error::CliError, output::Output};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: vzero diff Equipment#1 3 7")]
pub(crate) struct Diff {
    /// Partition key of the entity
    id: String,
    /// Number of the first version
    from: u64,
    /// Number of the second version
    to: u64,
}

impl Diff {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let (from, to) = (
            self.one(connection, self.from).await?,
            self.one(connection, self.to).await?,
        );
        output.diff(&from, &to)
    }

    async fn one(&self, connection: &Connection, number: u64) -> Result<VersionView, CliError> {
        let entity = connection.entity(&self.id)?;
        let view = connection
            .store
            .version(&entity, version(number)?, connection.consistent);
        match view.await? {
            Some(view) if view.is_omitted() => Err(CliError::NotFound(format!(
                "the state of version {number} of {} is not known: it did not fit, and its record is in quarantine",
                self.id
            ))),
            Some(view) => Ok(view),
            None => Err(missing(connection, &entity, &self.id, number).await),
        }
    }
}
