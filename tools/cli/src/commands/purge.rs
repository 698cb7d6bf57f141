//! `vzero admin purge`.

use std::{
    io::{self, BufRead as _, IsTerminal as _},
    time::Duration,
};

use operations::{
    connection::Connection,
    purge::{self, ItemCounts, to_json},
};
use serde_json::json;

use super::values::age;
use crate::{
    error::CliError,
    output::{self, Output},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: vzero admin purge Equipment#1 --dry-run")]
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
        let mut purge = purge::Purge::of(&connection.store, &self.id).await?;
        let entity = connection.entity(&self.id)?;
        if self.dry_run {
            return output.object(&json!({"ID": entity.as_str(), "WouldDelete": to_json(&purge.existing)}));
        }
        if !self.yes {
            confirm(&self.id, &purge.existing)?;
        }
        let waiting = |wait: Duration| {
            let seconds = wait.as_secs_f64().ceil();
            output::note(&format!(
                "waiting {seconds} s for versions that are still in the stream"
            ));
        };
        let done = purge.run(self.wait, waiting).await;
        // Also after an error.
        output.object(&json!({"ID": entity.as_str(), "Deleted": to_json(&purge.deleted)}))?;
        Ok(done?)
    }
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
        to_json(existing)
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
