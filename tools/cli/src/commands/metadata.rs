//! `vzero admin metadata`: shows the metadata of an entity, or changes it if the arguments name attributes.

use operations::{connection::Connection, metadata};
use serde_json::{Value, json};
use shared::domain::{names, plain};

use crate::{
    changes::{self, Changes},
    error::CliError,
    output::Output,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: vzero admin metadata Equipment#1 --set Name=Equipment-001")]
pub(crate) struct Metadata {
    /// Partition key of the entity
    id: String,
    #[command(flatten)]
    changes: Changes,
}

impl Metadata {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let (store, entity) = (&connection.store, connection.entity(&self.id)?);
        let changes = changes::of_item(self.changes.read()?)?;
        let item = if changes.is_empty() {
            let found = store.get(&entity, metadata::SORT_KEY, connection.consistent).await?;
            found.ok_or_else(|| CliError::NotFound(format!("{} has no metadata", self.id)))?
        } else {
            metadata::update(store, &entity, &changes).await?
        };
        let mut attributes = plain::attributes(&item);
        attributes.remove(names::PK);
        attributes.remove(names::SK);
        output.object(&json!({"ID": self.id, "Attributes": Value::Object(attributes)}))
    }
}
