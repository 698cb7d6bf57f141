//! `vzero snapshot`.

use operations::{
    connection::Connection,
    snapshot::{Counts, Found, SnapshotRun, target::Target},
    time_index::source::Source,
};
use shared::domain::{attached::AttachedTable, recorded_at::RecordedAt};

use super::{
    read_cost::{MaxCost, ReadCost},
    segments::{Rates, Segments, summary},
};
use crate::{
    error::CliError,
    output::{
        self, Format, Output,
        states::{csv_line, print_state},
    },
    pager,
    progress::Bar,
    times,
    write_options::Writing,
};

/// A time that is nearer to now than this can still get versions from the stream.
const SETTLED: std::time::Duration = std::time::Duration::from_secs(120);

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Snapshot {
    /// Time of the states
    #[arg(long, value_name = "TIME")]
    at: String,
    /// Attributes that are columns after ID and Version, with --output csv
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    columns: Vec<String>,
    /// Write the states into this empty table: as version 1, of an attached table as items
    #[arg(long, value_name = "TABLE", conflicts_with = "columns")]
    into: Option<String>,
    #[command(flatten)]
    max_cost: MaxCost,
    #[command(flatten)]
    rates: Rates,
    #[command(flatten)]
    segments: Segments,
    #[command(flatten)]
    writing: Writing,
}

const EXAMPLES: &str = "\
--output is jsonl (the default), dynamodb-json, as DynamoDB exports items, or csv.
With --state, an interrupted snapshot resumes, and prints the lines of unfinished pages again. Lines have no order.
Exit code 4 if a state is not known, because it was pruned or is not in history yet.
Examples:
  vzero snapshot --at 'yesterday 12:00' > noon.jsonl
  vzero snapshot --at 2026-11-20T14:05Z --output csv --columns State,Price
  vzero snapshot --at 2026-11-20T14:05Z --into Copy --state copy.json";

impl Snapshot {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let format = self.format(output)?;
        let store = &connection.store;
        let time = times::until("--at", &self.at, store.now())?;
        note_recent(time, connection);
        let pace = self.rates.limiter(connection);
        let target = match &self.into {
            Some(name) => {
                let options = (self.writing.ordering, self.writing.options());
                let target = Target::new(store, name, &pace, options).await?;
                // Items of an earlier, interrupted run do not stop its repetition.
                if !self.segments.is_resumed() {
                    target.check_empty().await?;
                }
                Some(target)
            }
            None => None,
        };
        if target.is_some() && !self.segments.has_state() {
            output::note("without --state FILE, the copy cannot resume if it is interrupted");
        }
        let mut cost = ReadCost::of(store, &Source::Scan, &pace, self.max_cost).await?;
        cost.add_searches(1, connection)?;
        if let Some(into) = &self.into {
            let question = format!("Write the states of {} at {time} into {into}?", connection.table);
            // A versioned table has a latest item and a version for each.
            cost.add_writes(cost.items, &question)?;
        }
        if let Some(target) = &target {
            target.claim().await?;
        }
        let plan = self.segments.plan(connection, &pace);
        let is_copy = target.is_some();
        let run = SnapshotRun::snapshot(plan, time, connection.consistent, target)?;
        if is_copy {
            run.save()?;
        } else if let Format::Csv = format {
            self.print_header()?;
        }
        self.finish(run, cost.items, (time, format), (connection, output)).await
    }

    async fn finish(
        &self,
        mut run: SnapshotRun,
        items: u64,
        (time, format): (RecordedAt, Format),
        (connection, output): (&Connection, &Output),
    ) -> Result<(), CliError> {
        let table = connection.store.attached_table();
        let bar = Bar::new(items);
        while let Some(found) = run.step().await? {
            bar.suspend(|| found.iter().try_for_each(|found| self.print(found, table, format)))?;
            // The lines of this page can be lost: the state does not contain it.
            if pager::is_closed() {
                return Ok(());
            }
            let counts = run.counts();
            bar.set(counts.items, format!(", {} entities", counts.entities));
        }
        drop(bar);
        let (counts, consumed) = (run.counts(), run.consumed());
        let Counts {
            entities,
            deleted,
            later,
            ..
        } = counts;
        output::status(&format!(
            "{entities} entities existed at {time}; {deleted} were deleted, {later} were created later; {} read units",
            consumed.read
        ));
        if self.into.is_some() {
            output.object(&summary(counts, consumed, false))?;
        }
        match counts.unknown + counts.refused {
            0 => Ok(()),
            failed => Err(CliError::Conflict(format!(
                "{failed} states are not known or not written: the notes above name them, and `vzero admin audit --all` finds what \
                 is wrong"
            ))),
        }
    }

    fn format(&self, output: &Output) -> Result<Format, CliError> {
        let format = output.chosen.unwrap_or(Format::Json);
        let usage = |text: &str| Err(CliError::Usage(text.to_owned()));
        match (format, self.columns.is_empty()) {
            // Only the summary of a copy is printed.
            _ if self.into.is_some() && !format.is_of_snapshot() => Ok(format),
            _ if self.into.is_some() => usage("--into prints no states: use it without --output"),
            // States are no table, and the environment can ask for tables.
            (Format::Table, true) => Ok(Format::Json),
            (Format::Csv, true) => usage("--output csv needs columns, such as --columns State,Price"),
            (Format::Table | Format::Json | Format::DynamodbJson, false) => usage("--columns needs --output csv"),
            _ => Ok(format),
        }
    }

    fn print_header(&self) -> Result<(), CliError> {
        // A resumed run continues a file.
        if self.segments.is_resumed() {
            return Ok(());
        }
        let names = ["ID", "Version"]
            .into_iter()
            .chain(self.columns.iter().map(String::as_str));
        output::print(&csv_line(names.map(|name| Some(name.to_owned()))))
    }

    fn print(&self, found: &Found, table: Option<&AttachedTable>, format: Format) -> Result<(), CliError> {
        match found {
            Found::State(view) => print_state(view, table, format, &self.columns),
            Found::Failed(entity, why) => {
                output::note(&format!("{}: {why}", entity.as_str()));
                Ok(())
            }
        }
    }
}

/// Notes that history may not be complete at a time.
pub(super) fn note_recent(time: RecordedAt, connection: &Connection) {
    if time.after(SETTLED) > connection.store.now() {
        output::note(
            "versions of the last two minutes may not be in history yet: the same time later can show more of them",
        );
    }
}
