//! `vzero purge`.

use std::{
    io::{self, BufRead as _, IsTerminal as _},
    time::Duration,
};

use operations::connection::Connection;
use serde_json::{Map, Value, json};
use shared::{
    domain::{entity::EntityId, keys::ItemKind},
    dynamodb::maintain::purge::ItemCounts,
};

use super::values::age;
use crate::{
    error::CliError,
    output::{self, Output},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: vzero purge Equipment#1 --dry-run")]
pub(crate) struct Purge {
    /// Partition key of the entity
    id: String,
    /// Delete without confirmation
    #[arg(long)]
    yes: bool,
    /// Print what would be deleted, and delete nothing
    #[arg(long)]
    dry_run: bool,
    /// Wait this long for versions that are still in the stream; 0s if nothing reads the stream
    #[arg(long, value_name = "AGE", default_value = "90s", value_parser = age)]
    wait: Duration,
}

impl Purge {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let (store, entity) = (&connection.store, EntityId::new(&self.id)?);
        let existing = store.count_items(&entity).await?;
        if existing.is_empty() {
            return Err(CliError::no_entity(&self.id));
        }
        if self.dry_run {
            return output.object(&json!({"ID": self.id, "WouldDelete": shown(&existing)}));
        }
        if !self.yes {
            confirm(&self.id, &existing)?;
        }
        let mut deleted = ItemCounts::new();
        let done = store.purge(&entity, self.wait, waiting, &mut deleted).await;
        // Also after an error.
        output.object(&json!({"ID": self.id, "Deleted": shown(&deleted)}))?;
        Ok(done?)
    }
}

fn waiting(wait: Duration) {
    let seconds = wait.as_secs_f64().ceil();
    output::note(&format!(
        "waiting {seconds} s for versions that are still in the stream"
    ));
}

fn shown(tally: &ItemCounts) -> Value {
    let name = |kind: &ItemKind| match kind {
        ItemKind::Latest => "v0",
        ItemKind::Version => "versions",
        ItemKind::Floor => "floor",
        ItemKind::Metadata => "metadata",
        ItemKind::Quarantined => "quarantined",
        ItemKind::Request => "requests",
        ItemKind::State => "states",
        ItemKind::Other => "other",
    };
    let members = tally.iter().map(|(kind, count)| (name(kind).to_owned(), json!(count)));
    Value::Object(members.collect::<Map<_, _>>())
}

/// Asks the user to type the partition key.
fn confirm(id: &str, existing: &ItemCounts) -> Result<(), CliError> {
    let rejected = |why: &str| CliError::Usage(format!("purge asks before it deletes: {why}"));
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return Err(rejected("standard input is no terminal, and there is no --yes"));
    }
    output::note(&format!(
        "{id} has {}. All of it will be deleted permanently.",
        shown(existing)
    ));
    output::note("type the ID to delete it:");
    let mut line = String::new();
    stdin.lock().read_line(&mut line)?;
    if line.trim_end_matches(['\r', '\n']) == id {
        Ok(())
    } else {
        Err(rejected("that was another ID, nothing is deleted"))
    }
}
