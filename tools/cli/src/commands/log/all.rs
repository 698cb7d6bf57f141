//! `vzero log --all`: versions of all entities in the order of their times.

use attach::shell::argument;
use item_diff::{
    path::Path,
    versions::{Comparison, is_comparable},
};
use operations::{
    all_versions::{
        AllVersions, Counts,
        filter::{VersionFilter, key_words},
        pages::VersionPages,
        row::VersionRow,
        sorted_files::SortedFiles,
    },
    connection::Connection,
    error::OperationError,
    rate_limit::RateLimiter,
    segments::Plan,
    time_index::source::Source,
};
use shared::{
    domain::{recorded_at::RecordedAt, view::VersionView},
    dynamodb::Store,
};

use super::tally::Tally;
use crate::{
    commands::{
        read_cost::{MaxCost, ReadCost, source},
        segments::ReadRate,
    },
    error::CliError,
    output::{self, Output, changes::Detail},
    pager,
    progress::Bar,
    times::{TimeFormat, with_offset},
};

/// Options for the versions of all entities.
#[derive(Debug, clap::Args)]
pub(super) struct All {
    /// Show the versions of all entities, in the order of their times. It scans the table, or reads the index TimeIndex
    /// from --since on, and says before what that costs
    #[arg(id = "all", long, conflicts_with_all = ["from", "to"])]
    pub(super) is_on: bool,
    /// Show only versions of entities whose key begins with this text
    #[arg(long, value_name = "TEXT")]
    entity_prefix: Option<String>,
    /// Number of parallel segments of the table [default: 4], or of the index [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) segments: Option<u32>,
    #[command(flatten)]
    pub(super) rate: ReadRate,
    #[command(flatten)]
    pub(super) max_cost: MaxCost,
}

/// Selection and form of the versions.
pub(super) struct Shown<'a> {
    pub(super) filter: VersionFilter,
    pub(super) path: Option<&'a Path>,
    pub(super) limit: Option<usize>,
    pub(super) oldest_first: bool,
    pub(super) times: TimeFormat,
    pub(super) detail: Detail,
}

/// Version with its comparison with the one before it, if that is known.
type Compared = (VersionView, Option<Comparison>);

/// Rows of versions, in the order in which they are shown.
pub(super) type Rows = Box<dyn Iterator<Item = Result<VersionRow, OperationError>>>;

impl All {
    /// Rejects these options for a single entity. Clap ignores a required option that conflicts with others.
    pub(super) fn check(&self) -> Result<(), CliError> {
        let options = [
            ("--entity-prefix", self.entity_prefix.is_some()),
            ("--segments", self.segments.is_some()),
            ("--max-read-units", self.rate.max_read_units.is_some()),
            ("--max-cost or --yes", self.max_cost.is_given()),
        ];
        match options.iter().find(|(_, is_given)| *is_given && !self.is_on) {
            Some((option, _)) => Err(CliError::Usage(format!("{option}: it needs --all in place of a key"))),
            None => Ok(()),
        }
    }

    pub(super) fn filter(&self, shown: &Shown<'_>, since: Option<RecordedAt>) -> VersionFilter {
        VersionFilter {
            since,
            entity_prefix: self.entity_prefix.clone(),
            ..shown.filter.clone()
        }
    }

    pub(super) async fn run(&self, shown: Shown<'_>, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let filter = self.filter(&shown, shown.filter.since);
        let pace = self.rate.limiter(connection);
        let source = source(&connection.store, filter.since, filter.until).await?;
        let mut cost = ReadCost::of(&connection.store, &source, &pace, self.max_cost).await?;
        if source != Source::Scan && filter.has_texts() {
            cost.add_items(cost.items, connection)?;
        }
        let before_start = Counts::before_start(&connection.store);
        let (counts, rows) = self
            .scan((&filter, &source), &shown, (connection, &pace), cost.items)
            .await?;
        if counts.rows > 0 {
            let versions = counts.rows.min(shown.rows().map_or(u64::MAX, |rows| rows as u64));
            let each = if shown.is_compared(output) { 2 } else { 1 };
            cost.add_items(versions.saturating_mul(each), connection)?;
        }
        let pages = VersionPages::new(&connection.store, &pace, rows, connection.consistent);
        let (printed, missing) = Self::show(&shown, pages, &connection.store, output).await?;
        if printed == 0 && shown.limit != Some(0) && !shown.detail.stat {
            output::note(match shown.path.is_some() || filter.excludes() {
                true => "no version matches",
                false => "there are no versions",
            });
        }
        for (count, why) in [
            (counts.undated, "they have no known RecordedAt"),
            (missing, "they were removed meanwhile, or are not in the history yet"),
        ] {
            if count > 0 {
                output::note(&format!("{count} versions left out because {why}"));
            }
        }
        end(&counts, before_start, &source, output)
    }

    /// Finds the versions, and sorts them.
    async fn scan(
        &self,
        (filter, source): (&VersionFilter, &Source),
        shown: &Shown<'_>,
        (connection, pace): (&Connection, &RateLimiter),
        items: u64,
    ) -> Result<(Counts, Rows), CliError> {
        let plan = Plan {
            segments: self.segments,
            source,
            ..Plan::new(&connection.store, pace)
        };
        let (mut scan, bar) = (AllVersions::new(plan, filter)?, Bar::new(items));
        let mut rows = SortedFiles::default();
        while let Some(found) = scan.step().await? {
            let mut found = found.into_iter().map(|row| row.ordered(shown.oldest_first));
            found.try_for_each(|row| rows.push(row))?;
            let counts = scan.counts();
            bar.set(counts.items, format!(", {} found", counts.rows));
        }
        Ok((
            scan.counts(),
            Box::new(rows.sorted()?.map(|row| row.map(VersionRow::from))),
        ))
    }

    /// Reads the versions, and prints them or their counts. Returns the number of versions, and of those that do not exist any more.
    async fn show(
        shown: &Shown<'_>,
        mut pages: VersionPages<Rows>,
        store: &Store,
        output: &Output,
    ) -> Result<(usize, u64), CliError> {
        let (mut printed, mut tally) = (0, shown.detail.stat.then(Tally::default));
        let limit = shown.limit.unwrap_or(usize::MAX);
        while printed < limit && !pager::is_closed() {
            let page = shown.rows().map_or(usize::MAX, |rows| rows - printed);
            let Some(views) = pages.next_page(page, shown.is_compared(output)).await? else {
                break;
            };
            let compared = views
                .into_iter()
                .filter_map(|(view, previous)| shown.compared(view, previous));
            for one in compared.take(limit - printed) {
                printed += 1;
                match &mut tally {
                    Some(tally) => {
                        let key = key_words(store, one.0.entity.as_str()).join(" ");
                        tally.add(&one.0, &key, one.1.as_ref());
                    }
                    None => shown.print(&one, store, output)?,
                }
            }
        }
        tally.map_or(Ok(()), |tally| tally.print(output))?;
        Ok((printed, pages.missing))
    }
}

impl Shown<'_> {
    /// Returns the number of versions to read, `None` if it depends on their content.
    fn rows(&self) -> Option<usize> {
        self.limit.filter(|_| self.path.is_none())
    }

    /// Compares a version with the one before it. `None` if its change is not one of the path.
    pub(super) fn compared(&self, view: VersionView, previous: Option<VersionView>) -> Option<Compared> {
        let is_known = is_comparable(previous.as_ref(), &view);
        let comparison = is_known.then(|| Comparison::new(previous.as_ref(), &view));
        match self.path.zip(comparison.as_ref()) {
            // An unknown change can be a change of the path.
            None => Some((view, comparison)),
            Some((path, comparison)) => Some((view, Some(comparison.within([Some(path); 2])?))),
        }
    }

    pub(super) fn print(&self, (view, comparison): &Compared, store: &Store, output: &Output) -> Result<(), CliError> {
        if output.is_full {
            return output.version(view, self.times);
        }
        let words = key_words(store, view.entity.as_str());
        let key: Vec<_> = words.iter().map(|word| argument(word)).collect();
        let form = (self.times, self.detail);
        output.log_entry(view, comparison.as_ref(), form, Some(&key.join(" ")))
    }

    pub(super) fn is_compared(&self, output: &Output) -> bool {
        !output.is_full || self.path.is_some() || self.detail.stat
    }
}

/// Says until when the versions are complete.
fn end(counts: &Counts, before_start: RecordedAt, source: &Source, output: &Output) -> Result<(), CliError> {
    if output.is_json_chosen() {
        return output::print_json(&counts.completeness(before_start, source));
    }
    let (until, is_quarantined) = counts.complete_until(before_start);
    let why = match is_quarantined {
        true => "the oldest record in quarantine, `vzero admin quarantine --output json` lists them",
        false => "2 minutes before the start",
    };
    let without = match counts.quarantined_without_time {
        0 => String::new(),
        count => format!("; {count} records in quarantine name no time"),
    };
    let others = match source {
        Source::Scan => "the stream or failure documents",
        Source::Index(_) => "the stream, failure documents or quarantine",
    };
    output::note(&format!(
        "complete until {} ({why}), unless {others} hold older versions{without}",
        with_offset(until)
    ));
    Ok(())
}
