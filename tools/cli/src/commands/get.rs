//! `vzero get`.

use operations::connection::Connection;
use shared::domain::{entity::EntityId, recorded_at::RecordedAt};

use super::values::version;
use crate::{error::CliError, output::Output};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: vzero get Equipment#1 --at 2020-11-01T20:04:00")]
pub(crate) struct Get {
    /// Partition key of the entity
    id: String,
    /// Number of the version [default: the latest]
    #[arg(long = "version", value_name = "N", conflicts_with = "at")]
    number: Option<u64>,
    /// Show the version that was the latest at this time, ISO 8601
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// Show the version even if it is a tombstone
    #[arg(long)]
    deleted: bool,
}

impl Get {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let entity = EntityId::new(&self.id)?;
        let (store, consistent) = (&connection.store, connection.consistent);
        let found = match (self.number, &self.at) {
            (Some(number), _) => store.version(&entity, version(number)?, consistent).await?,
            (None, Some(time)) => {
                let time = RecordedAt::parse(time).map_err(|error| CliError::usage("--at", error))?;
                store.as_of(&entity, time, consistent).await?
            }
            (None, None) => store.latest(&entity, consistent).await?,
        };
        match found {
            Some(view) if !view.deleted || self.deleted => output.object(&view.to_json()),
            Some(view) => Err(CliError::NotFound(format!(
                "{} is deleted as of version {}",
                self.id, view.version
            ))),
            None => {
                let floor = store.floor(&entity, consistent).await?;
                let is_pruned = self.number.is_some_and(|number| number < floor.get());
                Err(CliError::NotFound(if is_pruned {
                    format!("it was pruned: the history of {} begins at version {floor}", self.id)
                } else {
                    format!("there is no such version of {}", self.id)
                }))
            }
        }
    }
}
