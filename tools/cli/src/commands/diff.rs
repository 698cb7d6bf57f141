//! `vzero diff` and `vzero show`.

use item_diff::versions::{Comparison, is_comparable};
use operations::{
    connection::Connection,
    snapshot::diff::{Compared, DiffRun},
};
use shared::domain::version::Version;

use super::{
    read_cost::{MaxCost, ReadCost, source},
    segments::{ReadRate, Segments},
    snapshot::note_recent,
};
use crate::{
    error::CliError,
    output::{self, Output},
    pager,
    progress::Bar,
    target::{Target, unless_all},
    times::{self, TimeFormat},
};

/// An item, and up to two of its versions.
#[derive(Debug, clap::Args)]
pub(crate) struct Versions {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    times: TimeFormat,
}

#[derive(Debug, clap::Args)]
#[command(after_help = DIFF_HELP, mut_arg("words", unless_all))]
pub(crate) struct Diff {
    #[command(flatten)]
    versions: Versions,
    /// Show the entities of the whole table whose states differ between two times
    #[arg(long, requires = "from_time")]
    pub(crate) all: bool,
    /// First time, with --all
    #[arg(long, value_name = "TIME", requires = "all")]
    from_time: Option<String>,
    /// Second time, with --all [default: now]
    #[arg(long, value_name = "TIME", requires = "all")]
    to_time: Option<String>,
    #[command(flatten)]
    max_cost: MaxCost,
    #[command(flatten)]
    rate: ReadRate,
    #[command(flatten)]
    segments: Segments,
}

const DIFF_HELP: &str = "\
Without versions, it shows the last change; with one, the changes from it to the latest version.
Versions: 7, latest, -1 for the one before the latest, @yesterday, @14:05, @2d, @2026-11-20.
Example: vzero diff Equipment#1 3 7
With --all, an entity that did not exist or was deleted at a time has no version then: null in JSON.
Example: vzero diff --all --from-time 14:00 --to-time 14:05";

impl Diff {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        self.segments.check(self.all)?;
        if !self.all && (self.max_cost.is_given() || self.rate.max_read_units.is_some()) {
            return Err(CliError::Usage(
                "--max-cost, --yes and --max-read-units need --all".to_owned(),
            ));
        }
        match &self.from_time {
            Some(from) => self.table(from, connection, output).await,
            None => self.versions.diff(connection, output).await,
        }
    }

    async fn table(&self, from: &str, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let now = connection.store.now();
        let from = times::until("--from-time", from, now)?;
        let to = match &self.to_time {
            Some(to) => times::until("--to-time", to, now)?,
            None => now,
        };
        if from > to {
            return Err(CliError::Usage(format!(
                "--from-time is later than --to-time: {from} and {to}"
            )));
        }
        note_recent(to, connection);
        let pace = self.rate.limiter(connection);
        // Only a version of the time in between makes a difference.
        let source = source(&connection.store, Some(from), Some(to)).await?;
        let mut cost = ReadCost::of(&connection.store, &source, &pace, self.max_cost).await?;
        cost.add_searches(2, connection)?;
        let plan = operations::segments::Plan {
            source: &source,
            ..self.segments.plan(connection, &pace)
        };
        let mut run = DiffRun::diff(plan, [from, to], connection.consistent)?;
        let (bar, table) = (Bar::new(cost.items), connection.store.attached_table());
        while let Some(compared) = run.step().await? {
            bar.suspend(|| {
                compared.iter().try_for_each(|compared| match compared {
                    Compared::Different(difference) => output.difference(difference, table),
                    Compared::Unknown(entity, why) => {
                        output::note(&format!("{}: {why}", entity.as_str()));
                        Ok(())
                    }
                })
            })?;
            if pager::is_closed() {
                return Ok(());
            }
            let counts = run.counts();
            bar.set(counts.items, format!(", {} differ", counts.different));
        }
        drop(bar);
        let (counts, units) = (run.counts(), run.consumed().read);
        output::status(&format!(
            "{} entities differ between {from} and {to}, {} do not; {units} read units",
            counts.different, counts.same
        ));
        match counts.unknown {
            0 => Ok(()),
            unknown => Err(CliError::Conflict(format!(
                "{unknown} entities have a state that is not known: the notes above name them, and `vzero admin audit --all` finds \
                 what is wrong"
            ))),
        }
    }
}

impl Versions {
    async fn diff(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let item = self.target.subject(connection, 0..=2)?;
        let to = item.select(item.word(1)).await?;
        let from = match (item.words.first(), to.version.get()) {
            (Some(from), _) => from.clone(),
            (None, 1) => return output.diff(None, &to, self.times),
            (None, latest) => (latest - 1).to_string(),
        };
        output.diff(Some(&item.select(&from).await?), &to, self.times)
    }

    pub(crate) async fn show(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let item = self.target.subject(connection, 0..=1)?;
        let view = item.find(item.word(0)).await?;
        let previous = match Version::new(view.version.get() - 1) {
            Some(previous) => item.version(previous).await?,
            None => None,
        };
        let comparison = is_comparable(previous.as_ref(), &view).then(|| Comparison::new(previous.as_ref(), &view));
        output.shown(&view, comparison.as_ref(), self.times)
    }
}
