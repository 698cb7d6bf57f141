//! `vzero admin backfill`.

use aws_sdk_dynamodb::types::TableDescription;
use operations::{
    backfill::{
        BackfillRun, Import,
        mapping::{Refusal, Template},
    },
    connection::Connection,
    error::OperationError,
};
use serde_json::{Map, Value, json};
use shared::{
    domain::{Item, names, plain},
    dynamodb::read::describe_table::{items_of, keys_of},
};

use super::segments::{Rates, Segments, summary};
use crate::{confirmation::Confirmation, error::CliError, next, output::Output, progress::Bar, write_options::Writing};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: vzero admin backfill --from-table Orders --id '{CustomerId}#{OrderId}' --rename TTL=Expires --state b.json"
)]
pub(crate) struct Backfill {
    /// Table with the existing items [default: the table itself]
    #[arg(long, value_name = "TABLE")]
    from_table: Option<String>,
    /// Template of the partition key, with attributes in braces [default: the partition key, if it is the only key]
    #[arg(long, value_name = "TEMPLATE")]
    id: Option<Template>,
    /// Rename an attribute
    #[arg(long, value_name = "OLD=NEW", value_parser = rename)]
    rename: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) confirmation: Confirmation,
    #[command(flatten)]
    rates: Rates,
    #[command(flatten)]
    segments: Segments,
    #[command(flatten)]
    writing: Writing,
}

impl Backfill {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        self.confirmation.check()?;
        let is_attached = connection.store.attached_table().is_some();
        if is_attached && (self.from_table.is_some() || self.id.is_some() || !self.rename.is_empty()) {
            return Err(CliError::Usage(
                "--from-table, --id and --rename are not for an attached table: its own items get a version 1"
                    .to_owned(),
            ));
        }
        let from = self.from_table.as_deref().unwrap_or(&connection.table);
        let import = Import {
            from_table: from.to_owned(),
            id: self.id.clone(),
            rename: self.rename.iter().cloned().collect(),
            ordering: self.writing.ordering,
            write: self.writing.options(),
            dry_run: self.confirmation.dry_run,
        };
        let pace = self.rates.limiter(connection);
        let run = import.run(connection, self.segments.plan(connection, &pace)).await;
        let (table, run) = run.map_err(with_option)?;
        let (to, about) = (&connection.table, items_of(&table));
        let question = match is_attached {
            true => {
                let history = connection.store.history_table();
                format!("Store the items of {to} without history (about {about} items) in {history} as version 1?")
            }
            false => format!("Import the items of {from} (about {about}) into {to} as versions?"),
        };
        self.confirmation.ask(&question)?;
        self.finish(run, &table, output).await
    }

    async fn finish(&self, mut run: BackfillRun, table: &TableDescription, output: &Output) -> Result<(), CliError> {
        let bar = Bar::new(items_of(table));
        while let Some(refused) = run.step().await? {
            bar.suspend(|| {
                let mut refused = refused.iter();
                refused.try_for_each(|(item, why)| print_refused(table, item, why, output))
            })?;
            let counts = run.counts();
            bar.set(counts.items, format!(", {} written", counts.written));
        }
        drop(bar);
        let counts = run.counts();
        output.object(&summary(counts, run.consumed(), self.confirmation.dry_run))?;
        match counts.refused + counts.conflicts {
            0 => Ok(()),
            left => Err(CliError::Conflict(format!(
                "{left} items could not be put under versioning: correct them, then type {}",
                next::again("")
            ))),
        }
    }
}

/// Names the option that corrects the error.
fn with_option(error: OperationError) -> CliError {
    match error {
        OperationError::TwoKeys { table, keys } => {
            let named: Vec<_> = keys.iter().map(|key| format!("{{{key}}}")).collect();
            CliError::Usage(format!(
                "{table} has two keys: name its entities, such as --id '{}'",
                named.join("#")
            ))
        }
        error @ OperationError::KeyNotNamed(_) => CliError::Usage(format!("--id: {error}")),
        error => error.into(),
    }
}

fn print_refused(table: &TableDescription, item: &Item, why: &Refusal, output: &Output) -> Result<(), CliError> {
    let keys = keys_of(table).into_iter().filter_map(|(name, _)| {
        let value = item.get(&name)?;
        let value = plain::attribute(value);
        Some((name, value))
    });
    let keys: Map<String, Value> = keys.collect();
    let kind = if why.is_conflict() { "Conflict" } else { "Refused" };
    output.object(&json!({"Key": keys, kind: why.to_string()}))
}

fn rename(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((old, new)) if !old.is_empty() && !new.is_empty() => Ok((old.to_owned(), new.to_owned())),
        _ => Err(format!("expected OLD=NEW, such as {}=Expires", names::TTL)),
    }
}
