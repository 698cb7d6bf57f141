//! `vzero admin lag`.

use operations::{connection::Connection, read::lag::lag};
use serde_json::json;
use shared::domain::version::Version;

use crate::{error::CliError, output::Output};

#[derive(Debug, clap::Args)]
pub(crate) struct Lag {
    /// Partition key of the entity
    id: String,
}

impl Lag {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let entity = connection.entity(&self.id)?;
        let lag = lag(&connection.store, &entity).await?;
        let lag = lag.ok_or_else(|| CliError::no_entity(&self.id))?;
        let through = lag.through.map_or(0, Version::get);
        let sentence = format!(
            "the latest version is {}, the newest in history is {through}",
            lag.latest
        );
        output.sentence(
            &json!({"ID": entity.as_str(), "Latest": lag.latest, "Through": through}),
            &sentence,
        )
    }
}
