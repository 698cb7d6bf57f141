//! `vzero admin table`.

use operations::{
    connection::Connection,
    error::OperationError,
    table::{
        adopt::{Adopted, adopt_table},
        create::{NotApplied, create_table},
        settings::{TableSettings, TableState, table_state},
    },
};
use serde_json::{Value, json};
use shared::{
    domain::{keys::VersionDigits, time_index},
    dynamodb::{Store, read::layout_error::LayoutError},
    logging::chain,
};

use crate::{
    confirmation::Confirmation,
    error::CliError,
    output::{self, Output},
};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Table {
    /// Create the table if it does not exist, with the settings of template.yaml
    #[command(after_help = HELP)]
    Create {
        /// Index the versions in the table by time, as TimeIndex=true of template.yaml
        #[arg(long)]
        time_index: bool,
    },
    /// Give a restored or copied table, or one with versions of other programs, a layout of its own, or move its history to another table
    #[command(after_help = ADOPT_HELP)]
    Adopt {
        /// History table, created if it does not exist. The name of the table itself: history is beside the latest items
        #[arg(long, value_name = "NAME")]
        history_table: Option<String>,
        #[command(flatten)]
        confirmation: Confirmation,
    },
}

const ADOPT_HELP: &str = "\
Examples:
  vzero --table Restored admin table adopt --dry-run
  vzero --table Restored admin table adopt --history-table Restored-history --yes
  vzero --table Notebook --version-digits 2 admin table adopt
With --version-digits, all versions of the table must have keys of this width, such as v01: it reads the whole table.
The layout of a copy names the history table of the original. It is replaced only if no other table writes the new history
table. History is copied from the earlier history table of this table, or moved from beside the latest items, while no function
writes. Afterwards, `vzero audit --all` lists the versions that are missing, and `vzero admin repair` restores what it can.";

const HELP: &str = "\
Examples:
  vzero --table Factory admin table create
  vzero --table Factory admin table create --version-digits 10 --time-index
The command waits until the table is active, and prints the settings of the table. An existing table is not changed: if its
keys or its stream do not fit, the exit code is 4. With --version-digits, a new table stores this width.";

impl Table {
    /// `digits` is the width of version keys that was asked for.
    pub(crate) async fn run(
        &self,
        connection: &Connection,
        digits: Option<VersionDigits>,
        output: &Output,
    ) -> Result<(), CliError> {
        let name = &connection.table;
        let store = Store::new(connection.client.clone(), name, digits.unwrap_or_default());
        if let Self::Adopt {
            history_table,
            confirmation,
        } = self
        {
            confirmation.ask(&format!(
                "Give {name} a layout of its own, and move its history if it has another place?"
            ))?;
            let adopted = adopt_table(&store, history_table.as_deref(), digits, confirmation.dry_run).await?;
            output.object(&shown_adopted(name, &adopted, confirmation.dry_run))?;
            if adopted.has_new_width() {
                output::note("versions without a v0 that counts them: `vzero admin repair --all --revive` numbers it");
            }
            return Ok(());
        }
        let settings = TableSettings {
            time_index: matches!(self, Self::Create { time_index: true }),
            ..TableSettings::default()
        };
        let created = create_table(&store, &settings).await?;
        if created.is_some() && settings.time_index {
            store.store_time_index_since(Some(time_index::ALWAYS)).await?;
        }
        let state = table_state(&store).await?;
        let state = state.ok_or_else(|| CliError::NotFound(format!("there is no table {name}")))?;
        if settings.time_index && !store.clone().with_time_index(None).has_time_index().await? {
            output::note("the table exists without the index TimeIndex: deploy its stack with TimeIndex=true");
        }
        let fits = settings.check(&state.table);
        let stored = match (&created, &fits) {
            (Some(_), Ok(())) if digits.is_some() => store.claim_layout().await.map(|()| digits),
            (None, Ok(())) => existing_digits(&store, digits).await,
            _ => Ok(None),
        };
        output.object(&shown(
            name,
            created.is_some(),
            &state,
            stored.as_ref().ok().copied().flatten(),
        ))?;
        for missing in settings.missing(&state) {
            output::note(&missing);
        }
        fits.map_err(|misfit| CliError::Conflict(format!("the table {name} exists, but {misfit}")))?;
        check_applied(name, &created.unwrap_or_default())?;
        match (stored?, digits) {
            (Some(stored), Some(requested)) if stored != requested => Err(store.width_error(stored).into()),
            _ => Ok(()),
        }
    }
}

/// Returns the stored width of an existing table. Its first write stores the width of a table without items.
async fn existing_digits(store: &Store, digits: Option<VersionDigits>) -> Result<Option<VersionDigits>, LayoutError> {
    let stored = store.stored_layout().await?.map(|layout| layout.digits);
    if stored.is_none() && digits.is_some_and(|digits| digits != VersionDigits::default()) {
        let keys = store.first_keys().await?;
        store.check_keys(&keys)?;
        if keys.is_empty() {
            output::note("the table is empty: the first put stores the width of version keys");
        }
    }
    Ok(stored)
}

fn shown_adopted(name: &str, adopted: &Adopted, is_dry: bool) -> Value {
    let (layout, before) = (&adopted.layout, adopted.before.as_ref());
    let other = before.filter(|before| before.table != layout.table);
    let other = other.and_then(|before| before.table.as_ref());
    output::without_null(json!({
        "Table": name,
        "Outcome": "Adopted",
        "DryRun": is_dry.then_some(true),
        "VersionDigits": layout.digits.get(),
        "HistoryTable": layout.history,
        "Created": adopted.has_new_history.then_some(true),
        "Copied": Some(adopted.copied).filter(|copied| *copied > 0),
        "CopyOf": other.map(|table| &table.name),
        "HistoryTableBefore": before.and_then(|before| before.history.as_ref()),
    }))
}

fn shown(name: &str, is_new: bool, state: &TableState, digits: Option<VersionDigits>) -> Value {
    let keys = state.table.keys.iter();
    let keys: Value = keys.map(|(name, kind)| (name.clone(), kind.as_str())).collect();
    output::without_null(json!({
        "Table": name,
        "Outcome": if is_new { "Created" } else { "Exists" },
        "Status": state.table.status.as_str(),
        "Keys": keys,
        "BillingMode": state.table.billing_mode.as_str(),
        "Stream": state.table.stream.as_ref().map(|stream| stream.view.as_str()),
        "TimeToLive": state.ttl.as_ref().ok().cloned().flatten(),
        "DeletionProtection": state.table.deletion_protection,
        "PointInTimeRecovery": state.point_in_time_recovery.as_ref().ok(),
        "Encryption": state.table.encryption,
        "VersionDigits": digits.map(VersionDigits::get),
    }))
}

/// Returns an error that names the settings which could not be applied. A setting that the endpoint does not support is none.
fn check_applied(name: &str, not_applied: &NotApplied) -> Result<(), CliError> {
    let failed = not_applied.iter().filter(|(_, error)| !error.is_unsupported);
    let failed = failed.map(|(setting, error)| format!("{setting} ({})", chain(error)));
    let failed: Vec<_> = failed.collect();
    if failed.is_empty() {
        return Ok(());
    }
    let message = format!(
        "the table {name} was created without {}; enable it in the console of AWS or with the AWS CLI",
        failed.join(" and ")
    );
    Err(OperationError::Retryable(message).into())
}
