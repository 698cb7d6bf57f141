//! `vzero admin pin`.

use operations::{
    connection::Connection,
    prune::requests::{Mark, mark_version},
};
use serde_json::json;

use super::values::version;
use crate::{
    error::CliError,
    output::{self, Output},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: vzero admin pin Equipment#1 7")]
pub(crate) struct Pin {
    /// Partition key of the entity
    id: String,
    /// Number of the version
    number: u64,
    /// Remove the pin
    #[arg(long)]
    unpin: bool,
}

impl Pin {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let (store, entity, number) = (&connection.store, connection.entity(&self.id)?, version(self.number)?);
        let now = store.clock().now();
        let mark = if self.unpin {
            Mark::Unpinned
        } else {
            Mark::Pinned { now }
        };
        if !mark_version(store, &entity, number, mark).await? {
            let message = format!("there is no version {number} of {}", self.id);
            return Err(CliError::NotFound(message));
        }
        if self.unpin && number < store.floor(&entity, true).await? {
            output::note("it is below the floor: the next prune marks it");
        }
        output.object(&json!({"ID": entity.as_str(), "Version": number, "Pinned": !self.unpin}))
    }
}
