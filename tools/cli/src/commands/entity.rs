//! `vzero admin lag`, `metadata`, `items` and `pin`: short commands on one entity.

use operations::{
    connection::Connection,
    metadata,
    progress::Progress as _,
    prune::requests::{Mark, mark_version},
    read::{items::item_collection, lag::lag},
};
use serde_json::{Value, json};
use shared::domain::{names, plain, version::Version};

use super::values::version;
use crate::{
    changes::{self, Changes},
    error::CliError,
    output::{self, Output},
    progress::Bar,
};

/// Number of items from which the progress of the read is shown.
const MANY: u64 = 1000;

#[derive(Debug, clap::Args)]
pub(crate) struct Lag {
    /// Partition key of the entity
    id: String,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: vzero admin metadata Equipment#1 --set Name=Equipment-001")]
pub(crate) struct Metadata {
    /// Partition key of the entity
    id: String,
    #[command(flatten)]
    changes: Changes,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: vzero admin items Equipment#1 --output json")]
pub(crate) struct Items {
    /// Partition key of the entity
    id: String,
}

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

impl Lag {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let entity = connection.entity(&self.id)?;
        let lag = lag(&connection.store, &entity).await?;
        let lag = lag.ok_or_else(|| CliError::no_entity(&self.id))?;
        let (latest, through) = (lag.latest, lag.through.map_or(0, Version::get));
        output.sentence(
            &json!({"ID": entity.as_str(), "Latest": latest, "Through": through}),
            &format!("the latest version is {latest}, the newest in history is {through}"),
        )
    }
}

impl Metadata {
    /// Shows the metadata of an entity, or changes it if the arguments name attributes.
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

impl Items {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let entity = connection.entity(&self.id)?;
        let counter = Bar::counter("items read", MANY);
        let progress = |read| counter.at(read);
        let collection = item_collection(&connection.store, &entity, connection.consistent, progress).await?;
        drop(counter);
        if collection.items.is_empty() {
            return Err(CliError::no_entity(&self.id));
        }
        output.item_collection(entity.as_str(), &collection)?;
        if collection.expired > 0 {
            output::note(&format!("{} expired items are not shown", collection.expired));
        }
        Ok(())
    }
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
