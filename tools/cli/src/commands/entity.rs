//! `vzero admin lag`, `metadata`, `items` and `pin`: short commands on one entity.

use operations::{
    connection::Connection,
    metadata,
    progress::Progress as _,
    prune::requests::{Mark, mark_version},
    read::{self, items::item_collection},
};
use serde_json::{Value, json};
use shared::domain::{names, plain, version::Version};

use crate::{
    changes::{self, Changes},
    error::CliError,
    output::{self, Output},
    progress::Bar,
    selector::Subject,
    target::Target,
};

/// Number of items from which the progress of the read is shown.
const MANY: u64 = 1000;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: vzero admin metadata Equipment#1 --set Name=Equipment-001")]
pub(crate) struct Metadata {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    changes: Changes,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: vzero admin pin Equipment#1 7")]
pub(crate) struct Pin {
    #[command(flatten)]
    target: Target,
    /// Remove the pin
    #[arg(long)]
    unpin: bool,
}

pub(crate) async fn lag(target: &Target, connection: &Connection, output: &Output) -> Result<(), CliError> {
    let item = target.subject(connection, 0..=0)?;
    let lag = read::lag::lag(&connection.store, &item.entity).await?;
    let lag = lag.ok_or_else(|| item.no_entity())?;
    let (latest, through) = (lag.latest, lag.through.map_or(0, Version::get));
    output.sentence(
        &json!({"ID": item.entity.as_str(), "Latest": latest, "Through": through}),
        &format!("the latest version is {latest}, the newest in history is {through}"),
    )
}

impl Metadata {
    /// Shows the metadata of an entity, or changes it if the arguments name attributes.
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let Subject { entity, id, key, .. } = self.target.subject(connection, 0..=0)?;
        let store = &connection.store;
        let changes = changes::of_item(self.changes.read()?)?;
        let item = if changes.is_empty() {
            let found = store.get(&entity, metadata::SORT_KEY, connection.consistent).await?;
            found.ok_or_else(|| {
                CliError::NotFound(format!(
                    "{id} has no metadata: `vzero admin items {key}` lists its items"
                ))
            })?
        } else {
            metadata::update(store, &entity, &changes).await?
        };
        let mut attributes = plain::attributes(&item);
        attributes.remove(names::PK);
        attributes.remove(names::SK);
        output.object(&json!({"ID": id, "Attributes": Value::Object(attributes)}))
    }
}

pub(crate) async fn items(target: &Target, connection: &Connection, output: &Output) -> Result<(), CliError> {
    let item = target.subject(connection, 0..=0)?;
    let counter = Bar::counter("items read", MANY);
    let progress = |read| counter.at(read);
    let collection = item_collection(&connection.store, &item.entity, connection.consistent, progress).await?;
    drop(counter);
    if collection.items.is_empty() {
        return Err(item.no_entity());
    }
    output.item_collection(item.entity.as_str(), &collection)?;
    if collection.expired > 0 {
        output::note(&format!("{} expired items are not shown", collection.expired));
    }
    Ok(())
}

impl Pin {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let item = self.target.subject(connection, 1..=1)?;
        let number = item.select(item.word(0)).await?.version;
        let (store, entity) = (item.store(), &item.entity);
        let mark = match self.unpin {
            true => Mark::Unpinned,
            false => Mark::Pinned {
                now: store.clock().now(),
            },
        };
        if !mark_version(store, entity, number, mark).await? {
            return Err(item.missing(number).await);
        }
        if self.unpin && number < store.floor(entity, true).await? {
            output::note("it is below the floor: the next prune marks it");
        }
        output.object(&json!({"ID": entity.as_str(), "Version": number, "Pinned": !self.unpin}))
    }
}
