//! `vzero admin items`.

use operations::{connection::Connection, progress::Progress as _, read::item_collection::item_collection};

use crate::{
    error::CliError,
    output::{self, Output},
    progress::Counter,
};

/// Number of items from which the progress of the read is shown.
const MANY: u64 = 1000;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: vzero admin items Equipment#1 --output json")]
pub(crate) struct Items {
    /// Partition key of the entity
    id: String,
}

impl Items {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let entity = connection.entity(&self.id)?;
        let counter = Counter::from("items read", MANY);
        let progress = |read| counter.at(read);
        let store = &connection.store;
        let collection = item_collection(store, &entity, connection.consistent, progress).await?;
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
