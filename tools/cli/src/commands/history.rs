//! `vzero history`.

use std::collections::BTreeSet;

use operations::connection::Connection;
use shared::{domain::entity::EntityId, dynamodb::read::history::HistoryQuery};

use super::values::version;
use crate::{
    error::CliError,
    output::{self, Output},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: vzero history Equipment#1 --from 3 --oldest-first --output json")]
pub(crate) struct History {
    /// Partition key of the entity
    id: String,
    /// Number of the first version
    #[arg(long, value_name = "N")]
    from: Option<u64>,
    /// Number of the last version
    #[arg(long, value_name = "N")]
    to: Option<u64>,
    /// Maximum number of versions
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,
    /// List the oldest version first
    #[arg(long)]
    oldest_first: bool,
}

impl History {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let entity = EntityId::new(&self.id)?;
        let query = HistoryQuery {
            from: self.from.map(version).transpose()?,
            to: self.to.map(version).transpose()?,
            oldest_first: self.oldest_first,
            limit: self.limit,
            consistent: connection.consistent,
        };
        let history = connection.store.history(&entity, query).await?;
        let mut history = history.ok_or_else(|| CliError::no_entity(&self.id))?;
        let mut seen = BTreeSet::new();
        let mut all = Vec::new();
        while let Some(page) = history.next_page().await? {
            seen.extend(page.iter().map(|view| view.version.get()));
            if output.is_json() {
                output.versions(&page)?;
            } else {
                all.extend(page);
            }
        }
        if !output.is_json() {
            output.versions(&all)?;
        }
        let from = self.from.unwrap_or(1);
        if self.limit.is_none() && !is_dense(from, &seen) {
            let floor = connection.store.floor(&entity, connection.consistent).await?;
            print_missing(from.max(floor.get()), &seen);
        }
        Ok(())
    }
}

fn is_dense(from: u64, seen: &BTreeSet<u64>) -> bool {
    (from..).zip(seen).all(|(expected, number)| expected == *number)
}

/// Prints the missing versions. Versions are dense, so history lags or has a gap there.
fn print_missing(from: u64, seen: &BTreeSet<u64>) {
    let (mut expected, mut gaps) = (from, Vec::new());
    for number in seen.range(from..) {
        match number - expected {
            0 => {}
            1 => gaps.push(expected.to_string()),
            _ => gaps.push(format!("{expected} to {}", number - 1)),
        }
        expected = number + 1;
    }
    if !gaps.is_empty() {
        output::note(&format!("not in the history yet: {}", gaps.join(", ")));
    }
}
