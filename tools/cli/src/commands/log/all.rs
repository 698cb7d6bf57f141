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
        tally::{Tally, names_of, paths_of},
    },
    connection::Connection,
    error::OperationError,
    rate_limit::RateLimiter,
    segments::Plan,
};
use shared::{domain::recorded_at::RecordedAt, dynamodb::Store};

use super::stat;
use crate::{
    commands::{
        read_cost::{MaxCost, ReadCost},
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
    /// Show the versions of all entities, in the order of their times. It scans the table, and says before what that costs
    #[arg(id = "all", long, conflicts_with_all = ["from", "to"])]
    pub(super) is_on: bool,
    /// Show only versions of entities whose key begins with this text
    #[arg(long, value_name = "TEXT")]
    entity_prefix: Option<String>,
    /// Number of parallel segments of the table [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    segments: Option<u32>,
    #[command(flatten)]
    rate: ReadRate,
    #[command(flatten)]
    max_cost: MaxCost,
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

/// Rows of versions, in the order in which they are shown.
type Rows = Box<dyn Iterator<Item = Result<VersionRow, OperationError>>>;

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

    pub(super) async fn run(&self, shown: Shown<'_>, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let filter = VersionFilter {
            entity_prefix: self.entity_prefix.clone(),
            ..shown.filter.clone()
        };
        let pace = self.rate.limiter(connection);
        let mut cost = ReadCost::of_scan(&connection.store, self.max_cost).await?;
        let before_start = Counts::before_start(&connection.store);
        let (counts, rows) = self.scan(&filter, &shown, (connection, &pace), cost.items).await?;
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
        end(&counts, before_start, output)
    }

    /// Finds the versions, and sorts them.
    async fn scan(
        &self,
        filter: &VersionFilter,
        shown: &Shown<'_>,
        (connection, pace): (&Connection, &RateLimiter),
        items: u64,
    ) -> Result<(Counts, Rows), CliError> {
        let plan = Plan {
            segments: self.segments,
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
            let compared = views.into_iter().filter_map(|(view, previous)| {
                let is_known = is_comparable(previous.as_ref(), &view);
                let comparison = is_known.then(|| Comparison::new(previous.as_ref(), &view));
                match shown.path.zip(comparison.as_ref()) {
                    // An unknown change can be a change of the path.
                    None => Some((view, comparison)),
                    Some((path, comparison)) => Some((view, Some(comparison.within([Some(path); 2])?))),
                }
            });
            for (view, comparison) in compared.take(limit - printed) {
                printed += 1;
                let words = key_words(store, view.entity.as_str());
                match &mut tally {
                    Some(tally) => {
                        let paths = comparison.as_ref().map(paths_of);
                        tally.add(names_of(&view), &words.join(" "), paths.as_ref());
                    }
                    None if output.is_full => output.version(&view, shown.times)?,
                    None => {
                        let key: Vec<_> = words.iter().map(|word| argument(word)).collect();
                        let form = (shown.times, shown.detail);
                        output.log_entry(&view, comparison.as_ref(), form, Some(&key.join(" ")))?;
                    }
                }
            }
        }
        tally.map_or(Ok(()), |tally| stat::print(&tally, output))?;
        Ok((printed, pages.missing))
    }
}

impl Shown<'_> {
    /// Returns the number of versions to read, `None` if it depends on their content.
    fn rows(&self) -> Option<usize> {
        self.limit.filter(|_| self.path.is_none())
    }

    fn is_compared(&self, output: &Output) -> bool {
        !output.is_full || self.path.is_some() || self.detail.stat
    }
}

/// Says until when the versions are complete.
fn end(counts: &Counts, before_start: RecordedAt, output: &Output) -> Result<(), CliError> {
    if output.is_json_chosen() {
        return output::print_json(&counts.completeness(before_start));
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
    output::note(&format!(
        "complete until {} ({why}), unless the stream or failure documents hold older versions{without}",
        with_offset(until)
    ));
    Ok(())
}
