//! `vzero history`.

mod selection;

use operations::{
    connection::Connection,
    read::history::{self, HistoryQuery},
    version_set::VersionSet,
};
use serde_json::{Value, json};
use shared::domain::recorded_at::RecordedAt;

use self::selection::{Filter, Selected, Selection};
use super::values::{parsed, version};
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
        let filter = Filter {
            since: parsed("--since", self.since.as_deref(), RecordedAt::parse)?,
            until: parsed("--until", self.until.as_deref(), RecordedAt::parse)?,
            actor: self.actor.clone(),
            changed: self.changed.clone(),
        };
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
        let (mut seen, mut unknown, mut table) = (VersionSet::default(), VersionSet::default(), Vec::new());
        let (mut printed, mut is_at_end) = (0, false);
        while !is_at_end {
            let views = history.next_page().await?;
            is_at_end = views.is_none();
            let views = views.unwrap_or_default();
            for view in &views {
                seen.insert(view.version.get());
            }
            let mut page: Vec<_> = views.into_iter().filter_map(|view| selection.push(view)).collect();
            is_at_end |= selection.is_done();
            page.extend(is_at_end.then(|| selection.finish()).flatten());
            printed += page.len();
            let is_unknown = |one: &&Selected| self.changed.is_some() && one.comparison.is_none();
            for one in page.iter().filter(is_unknown) {
                unknown.insert(one.view.version.get());
            }
            if self.changes {
                page.iter().try_for_each(|one| print_changes(one, output))?;
                continue;
            }
            table.extend(page.into_iter().map(|one| one.view));
            // JSON is printed page by page.
            if output.is_json() || is_at_end {
                output.versions(&std::mem::take(&mut table))?;
            }
        }
        if excludes && printed == 0 {
            output::note("no version matches");
        }
        if !self.changes && !unknown.is_empty() {
            output::note(&format!("previous version not available: {}", ranges(&unknown)));
        }
        if !selection.undated.is_empty() {
            let undated = selection.undated.iter().copied().collect();
            output::note(&format!(
                "left out, because they have no known RecordedAt: {}",
                ranges(&undated)
            ));
        }
        // Versions outside of the period were left out on purpose.
        let (from, period) = (self.from.unwrap_or(1), &selection.range);
        let gaps = |from: u64| {
            let from = from.max(*period.start());
            // Versions are dense, so history lags or has a gap before a version.
            let last = seen.within(from, (*period.end()).max(from)).last();
            ranges(&last.map(|last| seen.gaps(from, last)).unwrap_or_default())
        };
        if self.limit.is_none() && !gaps(from).is_empty() {
            let floor = connection.store.floor(&entity, connection.consistent).await?;
            match gaps(from.max(floor.get())) {
                gaps if gaps.is_empty() => {}
                gaps => output::note(&format!("not in the history yet: {gaps}")),
            }
        }
        Ok(())
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
        match &one.comparison {
            Some(comparison) => members.insert("Changes".to_owned(), comparison.to_json()),
            None => members.insert("Note".to_owned(), unknown.into()),
        };
    }
    let changes = match &one.comparison {
        Some(comparison) => comparison.line(output.is_full),
        None => format!("({unknown})"),
    };
    // Lines for people are the default, also without a terminal.
    if output.is_json_chosen() {
        return output.object(&json);
    }
    output::print(&output::change_line(&one.view, &changes))
}

/// Returns numbers as ranges: `1 to 3, 7`.
fn ranges(numbers: &VersionSet) -> String {
    let ranges = numbers.ranges().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first} to {last}"),
    });
    ranges.collect::<Vec<_>>().join(", ")
}
