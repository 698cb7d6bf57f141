//! `vzero restore`.

use operations::{
    connection::Connection,
    error::OperationError,
    item_restore::{change::Restore as Change, plan_item_restore, restore_item},
    revision,
};
use serde_json::{Map, json};
use shared::domain::{
    attached::{AttachedTable, key},
    change::Change as Attribute,
    entity::EntityId,
    plain,
};

use super::{
    values::{missing, version},
    write,
};
use crate::{changes, error::CliError, output::Output, write_options::WriteOptions};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Restore {
    /// Partition key of the entity
    id: String,
    /// Number of the version to restore
    number: u64,
    /// With --attached: change the item in the table, which other programs write
    #[arg(long)]
    overwrite_item: bool,
    /// With --attached: print the change, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    options: WriteOptions,
}

const EXAMPLES: &str = "\
Examples:
  vzero restore Equipment#1 3 --reason 'the update was wrong'
  vzero --attached orders.json restore '{\"customerId\": \"c1\", \"orderNo\": 7}' 3 --overwrite-item";

impl Restore {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        if let Some(table) = connection.store.attached_table() {
            return self.item(table, connection, output).await;
        }
        if self.overwrite_item || self.dry_run {
            return Err(CliError::Usage(
                "--overwrite-item and --dry-run need --attached".to_owned(),
            ));
        }
        let number = version(self.number)?;
        let (entity, request_id, revision) = write::parts(changes::update(&self.id, &self.options, Map::new())?);
        let options = self.options.writing.options()?;
        let store = &connection.store;
        let restored = revision::restore(store, &entity, number, request_id, revision, options).await;
        let outcome = match restored {
            Err(OperationError::NoVersion) => return Err(missing(connection, &entity, &self.id, self.number).await),
            restored => restored?,
        };
        write::print(&self.id, outcome, output)
    }

    /// Puts an old state of an item back into an attached table.
    async fn item(&self, table: &AttachedTable, connection: &Connection, output: &Output) -> Result<(), CliError> {
        if !self.overwrite_item && !self.dry_run {
            return Err(CliError::Usage(format!(
                "restore changes the item in {}, which other programs write: use --overwrite-item to change it, or --dry-run to \
                 only show the change",
                table.table()
            )));
        }
        if self.options.has_values() {
            return Err(CliError::Usage(
                "--expect, --request-id, --time, --actor and --reason are not for an attached table: its items have no place for \
                 them"
                    .to_owned(),
            ));
        }
        let (store, number) = (&connection.store, version(self.number)?);
        let key = key::attributes(table, &self.id).map_err(OperationError::from)?;
        let entity = connection.entity(&self.id)?;
        let restore = match plan_item_restore(store, &entity, key, number).await {
            Err(OperationError::NoVersion) => return Err(missing(connection, &entity, &self.id, self.number).await),
            restore => restore?,
        };
        if self.dry_run {
            return output.object(&self.planned(&entity, &restore.change));
        }
        restore_item(store, &restore).await?;
        output.object(&json!({"ID": entity.as_str(), "Version": self.number, "Outcome": outcome(&restore.change)}))
    }

    fn planned(&self, entity: &EntityId, change: &Change) -> serde_json::Value {
        let (id, outcome) = (entity.as_str(), outcome(change));
        let mut planned = json!({"ID": id, "Version": self.number, "DryRun": true, "Outcome": outcome});
        if let Change::Update(change) = change {
            let (mut set, mut removed) = (Map::new(), Vec::new());
            for (name, changed) in &change.changes {
                match changed {
                    Attribute::Set(value) => _ = set.insert(name.clone(), plain::attribute(value)),
                    _ => removed.push(name),
                }
            }
            planned["Set"] = set.into();
            planned["Removed"] = json!(removed);
            if let Some((name, number)) = &change.counted {
                planned["CountedUp"] = json!({name: plain::attribute(number)});
            }
        }
        planned
    }
}

fn outcome(change: &Change) -> &'static str {
    match change {
        Change::Unchanged => "Unchanged",
        Change::Delete => "Deleted",
        Change::Update(_) => "Restored",
    }
}
