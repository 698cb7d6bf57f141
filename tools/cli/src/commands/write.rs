//! `vzero put`, `vzero delete` and `vzero undelete`.

use operations::{connection::Connection, item_change::Wanted};
use shared::domain::Item;
use writer_fn::{
    counter::{self, WriteError, WriteOutcome},
    update::ExpectedVersion,
};

use super::item_write::ItemWrite;
use crate::{
    changes::{self, Changes},
    error::CliError,
    output::Output,
    target::Target,
    write_options::WriteOptions,
};

/// Maximum number of attempts for a change of elements, if concurrent updates win.
const MAX_ATTEMPTS: u32 = 5;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Put {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    options: WriteOptions,
}

const EXAMPLES: &str = "\
Examples:
  vzero put Equipment#1 --set State=OK --set Speed=1.5 --remove Note --actor me
  vzero put Order#7 --set 'Lines[2].Price=5' --set Address.City=Bonn --dry-run
On an attached table, the version attribute is increased, and nothing is written if another client changed the item meanwhile.";

impl Put {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        if self.changes.is_empty() {
            return Err(CliError::Usage(
                "put needs attributes: use --set, --set-json or --remove, or --json FILE, which may be {}; `vzero put --help` \
                 shows examples"
                    .to_owned(),
            ));
        }
        let write = ItemWrite::new(&self.target, 0, &self.options, (connection, output))?;
        let table = connection.store.attached_table();
        let (members, parts) = self.changes.with_parts(table)?;
        if let Some(table) = table {
            let whole = changes::parse(members)?;
            for (option, name, _) in self.options.of_item()?.attribution(table)? {
                if whole.contains_key(&name) || parts.are_in(&name) {
                    return Err(changes::two_values(option, &name));
                }
            }
            let changed = |item: Option<&Item>| {
                changes::check_all(item, &whole)?;
                let changes = parts.of_item(item)?;
                Ok(changes.into_iter().chain(whole.clone()).collect())
            };
            return write.change(Wanted::Changed(&changed)).await;
        }
        parts.check()?;
        let base = changes::update(&write.item.id, &self.options, members)?;
        for _ in 0..MAX_ATTEMPTS {
            let latest = match write.is_dry() || parts.have_elements() {
                true => write.latest().await?,
                false => None,
            };
            let mut update = base.clone();
            if parts.have_elements() {
                // The changes of the next attempt can be others.
                update.changes.extend(parts.by_path());
                update.request_payload = Some(update.payload());
                update.changes.clone_from(&base.changes);
                let latest = latest.as_ref().map(|latest| ExpectedVersion::Is(latest.version));
                update.expected = update.expected.or(latest).or(Some(ExpectedVersion::Absent));
            }
            let item = latest.as_ref().filter(|latest| !latest.deleted);
            let item = item.map(|latest| &latest.attributes);
            changes::check_all(item, &base.changes).map_err(CliError::Usage)?;
            let changed = parts.of_item(item);
            update.changes.extend(changed.map_err(CliError::Usage)?);
            update.check().map_err(|error| CliError::usage("the update", error))?;
            if write.is_dry() {
                return write.show(latest.as_ref(), &update);
            }
            match counter::write(&connection.store, &update, self.options.writing.options()).await? {
                WriteOutcome::Conflict { .. } if base.expected.is_none() && parts.have_elements() => {}
                outcome => return write.written(Some(outcome)).await,
            }
        }
        Err(WriteError::Contended { attempts: MAX_ATTEMPTS }.into())
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    options: WriteOptions,
}

impl Delete {
    pub(crate) async fn run(&self, connection: &Connection, deleted: bool, output: &Output) -> Result<(), CliError> {
        let write = ItemWrite::new(&self.target, 0, &self.options, (connection, output))?;
        match (deleted, connection.store.attached_table()) {
            (false, Some(_)) => write.change(Wanted::BeforeDeletion).await,
            (false, None) => write.restore(None).await,
            (true, Some(table)) => Err(CliError::Usage(format!(
                "other programs write {}: delete the item there, or restore a version that is a tombstone",
                table.table()
            ))),
            (true, None) => write.delete().await,
        }
    }
}
