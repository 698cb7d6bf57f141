//! `vzero history`.

mod selection;

use std::collections::BTreeSet;

use operations::connection::Connection;
use operations::read::history::{self, HistoryQuery};
use serde_json::{Value, json};
use shared::domain::recorded_at::RecordedAt;

use self::selection::{Compared, Filter, Selected, Selection};
use super::values::version;
use crate::{
    error::CliError,
    output::{self, Output},
};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct History {
    /// Partition key of the entity
    id: String,
    /// Number of the first version
    #[arg(long, value_name = "N")]
    from: Option<u64>,
    /// Number of the last version
    #[arg(long, value_name = "N")]
    to: Option<u64>,
    /// Show only versions that were recorded at this time or later, ISO 8601
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Show only versions that were recorded at this time or before, ISO 8601
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Show only versions with this Actor
    #[arg(long)]
    actor: Option<String>,
    /// Show only versions in which this attribute differs from the previous version
    #[arg(long, value_name = "ATTRIBUTE")]
    changed: Option<String>,
    /// Print one line for each version: what it changed, in place of its attributes
    #[arg(long)]
    changes: bool,
    /// Maximum number of versions to show
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,
    /// List the oldest version first
    #[arg(long)]
    oldest_first: bool,
}

const EXAMPLES: &str = "\
Examples:
  vzero history Equipment#1 --from 3 --oldest-first --output json
  vzero history Equipment#1 --since 2020-11-01 --actor me --changes
  vzero history Equipment#1 --changed State --limit 5";

impl History {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let entity = connection.entity(&self.id)?;
        let first = self.from.map(version).transpose()?;
        let filter = self.filter()?;
        let excludes = filter.excludes();
        let mut selection = Selection::new(filter, first, self.oldest_first, self.changes, self.limit);
        let query = HistoryQuery {
            from: selection.first_to_read(),
            to: self.to.map(version).transpose()?,
            oldest_first: self.oldest_first,
            limit: selection.count_to_read(),
            consistent: connection.consistent,
        };
        let history = history::History::read(&connection.store, &entity, query).await?;
        let mut history = history.ok_or_else(|| CliError::no_entity(&self.id))?;
        let (mut seen, mut unknown) = (BTreeSet::new(), Vec::new());
        let (mut table, mut printed) = (Vec::new(), 0);
        let mut is_at_end = false;
        while !is_at_end {
            let mut page = Vec::new();
            match history.next_page().await? {
                Some(views) => {
                    seen.extend(views.iter().map(|view| view.version.get()));
                    page.extend(views.into_iter().filter_map(|view| selection.push(view)));
                    is_at_end = selection.is_done();
                }
                None => is_at_end = true,
            }
            if is_at_end {
                page.extend(selection.finish());
            }
            printed += page.len();
            let is_unknown = |one: &&Selected| matches!(one.compared, Compared::Unknown);
            unknown.extend(page.iter().filter(is_unknown).map(|one| one.view.version.get()));
            if self.changes {
                page.iter().try_for_each(|one| print_changes(one, output))?;
            } else {
                let views = page.into_iter().map(|one| one.view);
                if output.is_json() {
                    output.versions(&views.collect::<Vec<_>>())?;
                } else {
                    table.extend(views);
                }
            }
        }
        if !self.changes && !output.is_json() {
            output.versions(&table)?;
        }
        if excludes && printed == 0 {
            output::note("no version matches");
        }
        if !self.changes && !unknown.is_empty() {
            output::note(&format!("previous version not available: {}", ranges(unknown)));
        }
        if !selection.undated().is_empty() {
            let undated = ranges(selection.undated().to_vec());
            output::note(&format!("left out, because they have no known RecordedAt: {undated}"));
        }
        // Versions outside of the period were left out on purpose.
        let period = selection.range();
        seen.retain(|number| period.contains(number));
        let from = self.from.unwrap_or(1).max(*period.start());
        if self.limit.is_none() && !is_dense(from, &seen) {
            let floor = connection.store.floor(&entity, connection.consistent).await?;
            print_missing(from.max(floor.get()), &seen);
        }
        Ok(())
    }

    fn filter(&self) -> Result<Filter, CliError> {
        let time = |name: &str, text: &Option<String>| {
            let time = text.as_deref().map(RecordedAt::parse).transpose();
            time.map_err(|error| CliError::usage(name, error))
        };
        Ok(Filter {
            since: time("--since", &self.since)?,
            until: time("--until", &self.until)?,
            actor: self.actor.clone(),
            changed: self.changed.clone(),
        })
    }
}

/// Prints a version with its changes, as one line.
fn print_changes(one: &Selected, output: &Output) -> Result<(), CliError> {
    let unknown = match (one.view.is_late(), one.view.is_omitted()) {
        (true, _) => "not compared: its record arrived late",
        (_, true) => "not compared: its state did not fit",
        _ => "previous version not available",
    };
    let mut json = json!({"ID": one.view.entity.as_str()});
    if let Value::Object(members) = &mut json {
        members.extend(one.view.record_json());
        match &one.compared {
            Compared::With(comparison) => members.insert("Changes".to_owned(), comparison.to_json()),
            Compared::Unknown | Compared::No => members.insert("Note".to_owned(), unknown.into()),
        };
    }
    let changes = match &one.compared {
        Compared::With(comparison) => comparison.line(output.is_full()),
        Compared::Unknown | Compared::No => format!("({unknown})"),
    };
    // Lines for people are the default, also without a terminal.
    if output.is_json_chosen() {
        return output.object(&json);
    }
    output::print_text(&output::change_line(&one.view, &changes))
}

/// Returns numbers as ranges in ascending order: `1 to 3, 7`.
fn ranges(mut numbers: Vec<u64>) -> String {
    numbers.sort_unstable();
    let ranges = numbers.chunk_by(|a, b| a + 1 == *b);
    let ranges = ranges.filter_map(|numbers| Some(range(*numbers.first()?, *numbers.last()?)));
    ranges.collect::<Vec<_>>().join(", ")
}

fn range(first: u64, last: u64) -> String {
    match first == last {
        true => first.to_string(),
        false => format!("{first} to {last}"),
    }
}

fn is_dense(from: u64, seen: &BTreeSet<u64>) -> bool {
    (from..)
        .zip(seen.range(from..))
        .all(|(expected, number)| expected == *number)
}

/// Prints the missing versions. Versions are dense, so history lags or has a gap there.
fn print_missing(from: u64, seen: &BTreeSet<u64>) {
    let (mut expected, mut gaps) = (from, Vec::new());
    for number in seen.range(from..) {
        if *number > expected {
            gaps.push(range(expected, number - 1));
        }
        expected = number + 1;
    }
    if !gaps.is_empty() {
        output::note(&format!("not in the history yet: {}", gaps.join(", ")));
    }
}
