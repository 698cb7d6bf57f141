//! `vzero log --all`: versions of all entities in the order of their times.

use std::path::PathBuf;

use attach::shell::argument;
use item_diff::{
    path::Path,
    versions::{Comparison, is_comparable},
};
use operations::{
    all_versions::{
        AllVersions,
        completeness::{Completeness, OldestRecord},
        filter::{VersionFilter, key_words},
        journal::{Beginning, Journal},
        pages::VersionPages,
        paths::TracedPaths,
        row::{OrderedRow, VersionRow},
        sorted_files::SortedFiles,
        tally::{Tally, names_of, paths_of},
    },
    connection::Connection,
    error::OperationError,
    failures,
    rate_limit::RateLimiter,
    redrive,
    segments::Plan,
    time_index::source::Source,
};
use shared::{
    domain::{recorded_at::RecordedAt, view::VersionView},
    dynamodb::Store,
};

use super::stat;
use crate::{
    commands::{
        read_cost::{MaxCost, ReadCost, source},
        segments::ReadRate,
        services::ServiceOptions,
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
    /// Show the versions of all entities, in the order of their times. It scans the table, or reads the index `TimeIndex`
    /// from --since on, and says before what that costs
    #[arg(id = "all", long, conflicts_with_all = ["from", "to"])]
    pub(super) is_on: bool,
    /// Show only versions of entities whose key begins with this text
    #[arg(long, value_name = "TEXT")]
    entity_prefix: Option<String>,
    /// Number of parallel segments of the table [default: 4], or of the index [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) segments: Option<u32>,
    /// Store the progress in this file and its rows in FILE.rows, and resume from them
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Read how old the oldest failed record is in failure documents, as `vzero admin redrive` does: a file, a folder,
    /// <s3://bucket/prefix>, or the URL of a dead-letter queue
    #[arg(long, value_name = "SOURCE")]
    source: Vec<failures::source::Source>,
    #[command(flatten)]
    services: ServiceOptions,
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
            ("--state", self.state.is_some()),
            ("--source", !self.source.is_empty()),
            ("--max-read-units", self.rate.max_read_units.is_some()),
            ("--max-cost or --yes", self.max_cost.is_given()),
        ];
        match options.iter().find(|(_, is_given)| *is_given && !self.is_on) {
            Some((option, _)) => Err(CliError::Usage(format!("{option}: it needs --all in place of a key"))),
            None => Ok(()),
        }
    }

    pub(super) fn is_resumable(&self) -> bool {
        self.state.is_some() || !self.source.is_empty()
    }

    /// Returns the file of the rows, and what an earlier run began with.
    pub(super) fn journal(&self) -> Result<(Option<Journal>, Option<Beginning>), CliError> {
        let (journal, beginning) = self.state.as_deref().map(Journal::open).transpose()?.unzip();
        Ok((journal, beginning.flatten()))
    }

    pub(super) fn filter(&self, shown: &Shown<'_>, since: Option<RecordedAt>) -> VersionFilter {
        VersionFilter {
            since,
            entity_prefix: self.entity_prefix.clone(),
            ..shown.filter.clone()
        }
    }

    /// Chooses the source, and says what the reads of the filter cost.
    pub(super) async fn source(
        &self,
        filter: &VersionFilter,
        pace: &RateLimiter,
        connection: &Connection,
    ) -> Result<(Source, ReadCost), CliError> {
        let source = source(&connection.store, filter.since, filter.until).await?;
        let mut cost = ReadCost::of(&connection.store, &source, pace, self.max_cost).await?;
        if source != Source::Scan && filter.has_texts() {
            cost.add_items(cost.items, connection)?;
        }
        Ok((source, cost))
    }

    pub(super) async fn run(
        &self,
        shown: Shown<'_>,
        start: RecordedAt,
        (mut journal, stored): (Option<Journal>, Option<Beginning>),
        connection: &Connection,
        output: &Output,
    ) -> Result<(), CliError> {
        let filter = self.filter(&shown, shown.filter.since);
        let (pace, store) = (self.rate.limiter(connection), &connection.store);
        let (source, mut cost) = self.source(&filter, &pace, connection).await?;
        let beginning = if let Some(stored) = stored {
            stored
        } else {
            let (start, failures) = (start.to_string(), self.failures(connection).await?);
            let beginning = Beginning { start, failures };
            let journal = journal.as_mut().map(|journal| journal.add(&[&beginning]));
            journal.transpose()?;
            beginning
        };
        let plan = Plan {
            segments: self.segments,
            checkpoint: self.state.as_deref(),
            source: &source,
            ..Plan::new(store, &pace)
        };
        let mut scan = AllVersions::new(plan, &filter)?;
        let rows = sorted_rows(&mut scan, journal.as_mut(), Bar::new(cost.items), shown.oldest_first).await?;
        let counts = scan.counts();
        if counts.rows > 0 {
            let versions = counts.rows.min(shown.rows().map_or(u64::MAX, |rows| rows as u64));
            let each = if shown.is_compared(output) { 2 } else { 1 };
            cost.add_items(versions.saturating_mul(each), connection)?;
        }
        let pages = VersionPages::new(store, &pace, rows, connection.consistent);
        let paths = shown.paths(connection, &pace);
        let (printed, missing) = Self::show(&shown, pages, paths, (connection, output)).await?;
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
        let completeness = Completeness {
            start,
            counts: &counts,
            is_scan: source == Source::Scan,
            has_latest_items: store.attached_table().is_none(),
            failures: beginning.failures.as_ref(),
        };
        end(&completeness, output)?;
        if let Some(journal) = journal.filter(|_| !pager::is_closed()) {
            scan.remove_checkpoint()?;
            journal.remove()?;
        }
        Ok(())
    }

    /// Reads the failure documents that are named.
    async fn failures(&self, connection: &Connection) -> Result<Option<OldestRecord>, CliError> {
        if self.source.is_empty() {
            return Ok(None);
        }
        let (services, counter) = (self.services.to_services(), Bar::counter("documents", 0));
        let oldest = redrive::oldest_record(connection, &services, &self.source, &counter);
        Ok(Some(oldest.await?))
    }

    /// Reads the versions, and prints them or their counts. Returns the number of versions, and of those that do not exist any more.
    async fn show(
        shown: &Shown<'_>,
        mut pages: VersionPages<Rows>,
        mut paths: Option<TracedPaths>,
        (connection, output): (&Connection, &Output),
    ) -> Result<(usize, u64), CliError> {
        let store = &connection.store;
        let (mut printed, mut tally) = (0, shown.detail.stat.then(Tally::default));
        let limit = shown.limit.unwrap_or(usize::MAX);
        while printed < limit && !pager::is_closed() {
            let page = shown.rows().map_or(usize::MAX, |rows| rows - printed);
            let Some(views) = pages.next_page(page, shown.is_compared(output)).await? else {
                break;
            };
            for (view, previous) in views.into_iter().take_while(|_| !pager::is_closed()) {
                let Some(one) = shown.compared(view, previous, &mut paths).await? else {
                    continue;
                };
                if printed == limit {
                    break;
                }
                printed += 1;
                match &mut tally {
                    Some(tally) => {
                        let key = key_words(store, one.0.entity.as_str()).join(" ");
                        let paths = one.1.as_ref().map(paths_of);
                        tally.add(names_of(&one.0), &key, paths.as_ref());
                    }
                    None => shown.print(&one, store, output)?,
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

    /// Returns the places of the path in all histories.
    pub(super) fn paths(&self, connection: &Connection, pace: &RateLimiter) -> Option<TracedPaths> {
        let path = self.path?;
        Some(TracedPaths::new(&connection.store, path, connection.consistent).at_rate_of(pace))
    }

    /// Compares a version with the one before it. `None` if its change is not one of the path.
    pub(super) async fn compared(
        &self,
        view: VersionView,
        previous: Option<VersionView>,
        paths: &mut Option<TracedPaths>,
    ) -> Result<Option<Compared>, CliError> {
        let is_known = is_comparable(previous.as_ref(), &view);
        let mut comparison = is_known.then(|| Comparison::new(previous.as_ref(), &view));
        // An unknown change can be a change of the path.
        if let (Some(paths), Some(compared)) = (paths, &comparison) {
            let [from, to] = paths.of(&view).await.map_err(OperationError::from)?;
            comparison = compared.within([from.as_ref(), to.as_ref()]);
            if comparison.is_none() {
                return Ok(None);
            }
        }
        Ok(Some((view, comparison)))
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

/// Finds the versions, and sorts them. With a journal, the rows are in it until the end of the scan.
async fn sorted_rows(
    scan: &mut AllVersions,
    mut journal: Option<&mut Journal>,
    bar: Bar,
    oldest_first: bool,
) -> Result<Rows, OperationError> {
    if journal.is_some() {
        scan.keep_checkpoint();
        scan.save()?;
    }
    let mut rows = SortedFiles::default();
    while let Some(found) = scan.step().await? {
        match &mut journal {
            Some(journal) => journal.add(&found)?,
            None => found
                .into_iter()
                .try_for_each(|row| rows.push(row.ordered(oldest_first)))?,
        }
        let counts = scan.counts();
        bar.set(counts.items, format!(", {} found", counts.rows));
    }
    for row in journal.map(|journal| journal.rows()).transpose()?.into_iter().flatten() {
        rows.push(row?.ordered(oldest_first))?;
    }
    sorted(rows)
}

pub(super) fn sorted(rows: SortedFiles<OrderedRow>) -> Result<Rows, OperationError> {
    Ok(Box::new(rows.sorted()?.map(|row| row.map(VersionRow::from))))
}

/// Says until when the versions are complete.
fn end(completeness: &Completeness<'_>, output: &Output) -> Result<(), CliError> {
    if output.is_json_chosen() {
        return output::print_json(&completeness.to_json());
    }
    let (until, part) = completeness.until();
    let why = match part {
        "OldestMissingVersion" => "the oldest version that history lacks, `vzero admin audit --all` lists them",
        "OldestInQuarantine" => "the oldest record in quarantine, `vzero admin quarantine --output json` lists them",
        "OldestFailureDocument" => "the oldest record of a failure document that history lacks",
        _ => "2 minutes before the start",
    };
    let unless = match &*completeness.not_known() {
        [] => "",
        ["FailureDocuments"] => ", unless failure documents, which --source reads, hold older versions",
        ["StreamIteratorAge"] => ", unless the stream holds older versions",
        ["StreamIteratorAge", "Quarantine"] => ", unless the stream or quarantine hold older versions",
        ["StreamIteratorAge", _, "Quarantine"] => {
            ", unless the stream, quarantine or failure documents, which --source reads, hold older versions"
        }
        _ => ", unless the stream or failure documents, which --source reads, hold older versions",
    };
    let names = [
        "versions that history lacks",
        "records in quarantine",
        "records of failure documents",
    ];
    let without = names.into_iter().zip(completeness.without_time());
    let without = without.filter(|(_, count)| *count > 0);
    let without = without.map(|(what, count)| format!("; {count} {what} name no time"));
    let without = without.collect::<Vec<_>>().concat();
    output::note(&format!(
        "complete until {} ({why}){unless}{without}",
        with_offset(until)
    ));
    Ok(())
}
