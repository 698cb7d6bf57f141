//! `vzero log`.

mod all;
mod follow;
mod selection;
mod stat;

use std::time::Duration;

use item_diff::{path::Path, trace::Trace};
use operations::{
    connection::Connection,
    read::history::{History, HistoryQuery},
    version_set::VersionSet,
};
use shared::domain::{recorded_at::RecordedAt, version::Version};

use self::{
    all::{All, Shown},
    selection::{Filter, Selected, Selection},
};
use crate::{
    commands::filters::Filters,
    error::CliError,
    output::{self, Output, changes::Detail},
    pager,
    selector::Subject,
    target::{Target, unless_all},
    times::TimeFormat,
};

/// Time between two reads of a history that is followed.
const POLL: Duration = Duration::from_secs(1);
/// Number of reads after which a version that history still lacks is left out.
const MAX_WAITS: usize = 5;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, mut_arg("words", unless_all))]
pub(crate) struct Log {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    all: All,
    #[command(flatten)]
    detail: Detail,
    /// Show only versions that changed the value at this path of the newest version, or a part of it. As for `blame`, it is the same
    /// value although elements are added to its list, removed or moved
    #[arg(long)]
    path: Option<Path>,
    #[command(flatten)]
    filters: Filters,
    /// First version
    #[arg(long, value_name = "VERSION", allow_negative_numbers = true)]
    from: Option<String>,
    /// Last version
    #[arg(long, value_name = "VERSION", allow_negative_numbers = true)]
    to: Option<String>,
    /// Maximum number of versions to show
    #[arg(short = 'n', long, value_name = "COUNT")]
    limit: Option<usize>,
    /// Show the oldest version first
    #[arg(long)]
    reverse: bool,
    /// Show the oldest version first, then wait for new ones until Ctrl-C, with reads every second. -n counts the versions before these.
    /// With --all, it shows those from --since on [default: now]; without the index `TimeIndex`, each read is a scan, which finds versions
    /// that are stored at most 15 minutes after they were recorded
    #[arg(long, conflicts_with_all = ["until", "to"])]
    follow: bool,
    #[command(flatten)]
    times: TimeFormat,
}

const EXAMPLES: &str = "\
Times: 2026-11-20, 2026-11-20T14:05, 14:05, yesterday, 'yesterday 14:05', 2d, 90m. Versions: 7, latest, -1, @TIME.
--full shows whole items. amy? stands for an uncertain author: the version before has the same one, so another client can have made the
change. --actor amy includes these versions.
Examples:
  vzero log Equipment#1 --since yesterday --actor me
  vzero log Order#1 --path 'Lines[2].Price' -n 1 -p
  vzero log Equipment#1 --from 3 --reverse --output json
  vzero log --all --since yesterday --actor import-7 --stat";

impl Log {
    /// Returns `true` if the command ends by itself.
    pub(crate) fn ends(&self) -> bool {
        !self.follow
    }

    /// Returns `true` if the command reads the whole table.
    pub(crate) fn is_of_all(&self) -> bool {
        self.all.is_on
    }

    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        self.all.check()?;
        if self.all.is_on && self.follow && (self.detail.stat || self.all.is_resumable()) {
            return Err(CliError::Usage(
                "--stat, --state and --source are for the end, and --follow has none".to_owned(),
            ));
        }
        if self.all.is_on {
            let (journal, stored) = self.all.journal()?;
            // A resumed run has the times of its start.
            let start = stored.as_ref().and_then(|stored| RecordedAt::parse(&stored.start).ok());
            let start = start.unwrap_or_else(|| connection.store.now());
            let shown = Shown {
                filter: self.filters.filter(start)?,
                path: self.path.as_ref(),
                limit: self.limit,
                oldest_first: self.reverse,
                times: self.times,
                detail: self.detail,
            };
            return match self.follow {
                true => Box::pin(self.all.follow(shown, connection, output)).await,
                false => Box::pin(self.all.run(shown, start, (journal, stored), connection, output)).await,
            };
        }
        let item = self.target.subject(connection, 0..=0)?;
        let mut filter = Filter {
            versions: self.filters.filter(connection.store.now())?,
            path: self.path.clone(),
            to: None,
        };
        let number = async |text: &Option<String>| match text {
            Some(text) => item.number(text).await.map(Some),
            None => Ok(None),
        };
        let first = number(&self.from).await?;
        filter.to = number(&self.to).await?;
        // Its path is only known in the newest version, so that this one is read first.
        let is_traced = self.path.as_ref().and_then(Trace::new).is_some();
        if self.follow {
            let newest = item.latest().await?.version.get();
            let before = self
                .limit
                .and_then(|count| newest.checked_sub(u64::try_from(count).ok()?));
            let mut first = first.max(before.and_then(|before| Version::new(before + 1)));
            if is_traced {
                let mut selection = Selection::new(filter.clone(), first, false, true, None);
                self.read(&item, &mut selection, (None, false), output).await?;
                first = Version::new(newest + 1);
            }
            let selection = Selection::new(filter, first, true, !output.is_full, None);
            return Box::pin(self.follow(&item, selection, output)).await;
        }
        let (excludes, to, is_read_back) = (filter.excludes(), filter.to, is_traced && self.reverse);
        let limit = self.limit.filter(|_| !is_read_back);
        let oldest_first = self.reverse && !is_traced;
        let mut selection = Selection::new(filter, first, oldest_first, !output.is_full, limit);
        let range = (to.filter(|_| !is_traced), oldest_first);
        let (seen, printed) = self.read(&item, &mut selection, range, output).await?;
        if excludes && printed == 0 {
            output::note(&format!("no version matches: `vzero log {}` lists all", item.key));
        } else if printed == 0 {
            let (oldest, latest) = (item.floor().await?, item.latest().await?.version);
            output::note(&format!(
                "no version to show: {} has versions {oldest} to {latest}",
                item.id
            ));
        }
        if !selection.undated.is_empty() {
            let undated = selection.undated.iter().copied().collect();
            output::note(&format!(
                "left out, because they have no known RecordedAt: {}",
                ranges(&undated)
            ));
        }
        // Versions outside of the period were left out on purpose.
        let (from, period) = (first.map_or(1, Version::get), &selection.range);
        let gaps = |from: u64| {
            let from = from.max(*period.start());
            // Versions are dense, so history lags or has a gap before a version.
            let end = to.map_or(*period.end(), |to| to.get().min(*period.end()));
            let last = seen.within(from, end.max(from)).last();
            ranges(&last.map(|last| seen.gaps(from, last)).unwrap_or_default())
        };
        if self.limit.is_none() && !gaps(from).is_empty() {
            match gaps(from.max(item.floor().await?.get())) {
                gaps if gaps.is_empty() => {}
                gaps => output::note(&format!("not in the history yet: {gaps}")),
            }
        }
        Ok(())
    }

    /// Reads versions up to one, and prints those that are selected, in the order that the user wants. Returns the numbers of the versions
    /// that were read, and how many were selected.
    async fn read(
        &self,
        item: &Subject<'_>,
        selection: &mut Selection,
        (to, oldest_first): (Option<Version>, bool),
        output: &Output,
    ) -> Result<(VersionSet, usize), CliError> {
        let query = HistoryQuery {
            from: selection.first_to_read(),
            to,
            oldest_first,
            limit: selection.count_to_read(),
            consistent: item.connection.consistent,
        };
        let history = History::read(item.store(), &item.entity, query).await?;
        let mut history = history.ok_or_else(|| item.no_entity())?;
        let mut kept = Vec::new();
        let (mut seen, mut printed, mut is_at_end) = (VersionSet::default(), 0, false);
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
            match oldest_first == (self.reverse || self.follow) {
                true => page.iter().try_for_each(|one| self.print(one, output))?,
                false => kept.extend(page),
            }
        }
        let limit = self.limit.filter(|_| !self.follow).unwrap_or(usize::MAX);
        let mut kept = kept.iter().rev().take(limit);
        kept.try_for_each(|one| self.print(one, output))?;
        Ok((seen, printed))
    }

    fn print(&self, one: &Selected, output: &Output) -> Result<(), CliError> {
        match output.is_full {
            true => output.version(&one.view, self.times),
            false => output.log_entry(&one.view, one.comparison.as_ref(), (self.times, self.detail), None),
        }
    }

    /// Prints versions in ascending order, and then each new one.
    async fn follow(&self, item: &Subject<'_>, mut selection: Selection, output: &Output) -> Result<(), CliError> {
        let first = selection.first_to_read().unwrap_or(Version::FIRST);
        let (mut next, mut waits) = (first.max(item.floor().await?), 0);
        loop {
            let query = HistoryQuery {
                from: Some(next),
                oldest_first: true,
                consistent: item.connection.consistent,
                ..HistoryQuery::default()
            };
            let history = History::read(item.store(), &item.entity, query).await?;
            let mut history = history.ok_or_else(|| item.no_entity())?;
            waits += 1;
            while let Some(views) = history.next_page().await? {
                // The latest item supplies the latest version before history has those before it.
                for view in views {
                    if view.version == next || waits > MAX_WAITS {
                        (next, waits) = (Version::new(view.version.get() + 1).unwrap_or(next), 0);
                        selection.push(view).map_or(Ok(()), |one| self.print(&one, output))?;
                    }
                }
            }
            if pager::is_closed() {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Returns numbers as ranges: `1 to 3, 7`.
fn ranges(numbers: &VersionSet) -> String {
    let ranges = numbers.ranges().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first} to {last}"),
    });
    ranges.collect::<Vec<_>>().join(", ")
}
