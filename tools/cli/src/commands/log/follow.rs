//! `vzero log --all --follow`: new versions of all entities, each once, in rounds of reads.
//!
//! A round reads again what the rounds before can have missed: an index and a scan are eventually consistent, and programs insert with
//! clocks that differ. The versions of that time which were printed are kept.
//!
//! | source | a round reads |
//! |---|---|
//! | index | versions that were inserted since two minutes before the last round; 15 minutes before the first one |
//! | scan | versions that were recorded since 15 minutes before the last round |

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use operations::{
    all_versions::{
        AllVersions, filter::VersionFilter, pages::VersionPages, row::VersionRow, sorted_files::SortedFiles,
    },
    connection::Connection,
    rate_limit::RateLimiter,
    segments::Plan,
    time_index::source::{Source, Window},
};
use shared::domain::{
    recorded_at::RecordedAt,
    time_index::{LATE, millis},
    version::Version,
};

use super::{
    POLL,
    all::{All, Rows, Shown},
};
use crate::{
    commands::read_cost::{ReadCost, source},
    error::CliError,
    output::Output,
    pager,
};

/// Time by which clocks differ, and after which a read finds a version.
const OVERLAP: Duration = Duration::from_secs(120);

/// Versions that were printed and will be found again, with their places in the order of the source.
#[derive(Default)]
struct Seen(BTreeMap<(String, Version), String>);

/// What a round reads.
struct Round<'a> {
    filter: VersionFilter,
    source: Source,
    /// Place from which on the next round reads.
    next: String,
    pace: &'a RateLimiter,
}

impl All {
    /// Prints the versions from a time on, by default now, and then each new one.
    pub(super) async fn follow(
        &self,
        shown: Shown<'_>,
        connection: &Connection,
        output: &Output,
    ) -> Result<(), CliError> {
        let (store, pace) = (&connection.store, self.rate.limiter(connection));
        let since = shown.filter.since.unwrap_or(store.now());
        let source = source(store, Some(since), None).await?;
        let mut cost = ReadCost::of(store, &source, &pace, self.max_cost).await?;
        cost.add_rounds(POLL)?;
        let mut round = Round {
            filter: self.filter(&shown, Some(since)),
            source,
            next: String::new(),
            pace: &pace,
        };
        let (mut seen, mut overlap, mut cost) = (Seen::default(), LATE, Some(cost));
        loop {
            let next = store.now().before(overlap);
            round.next = match round.source {
                Source::Scan => next.to_string(),
                Source::Index(_) => millis(next),
            };
            let limit = shown.limit.filter(|_| cost.is_some()).unwrap_or(usize::MAX);
            self.round(&round, &mut seen, (limit, cost.take()), &shown, (connection, output))
                .await?;
            if pager::is_closed() {
                return Ok(());
            }
            round.source = match round.source {
                Source::Scan => Source::Scan,
                Source::Index(_) => Source::Index(Window::new(since, None).inserted_since(next)),
            };
            if round.source == Source::Scan {
                round.filter.since = Some(since.max(next));
            } else {
                overlap = OVERLAP;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Prints the versions of a round that were not printed yet, of the first round the last ones only.
    async fn round(
        &self,
        round: &Round<'_>,
        seen: &mut Seen,
        (limit, cost): (usize, Option<ReadCost>),
        shown: &Shown<'_>,
        (connection, output): (&Connection, &Output),
    ) -> Result<(), CliError> {
        let store = &connection.store;
        let plan = Plan {
            segments: self.segments,
            source: &round.source,
            ..Plan::new(store, round.pace)
        };
        let (mut run, mut rows, mut found) = (AllVersions::new(plan, &round.filter)?, SortedFiles::default(), 0);
        let mut again = BTreeMap::new();
        while let Some(page) = run.step().await? {
            for row in page {
                let (key, place) = ((row.entity.clone(), row.version), place(&row));
                if seen.0.contains_key(&key) {
                    continue;
                }
                found += 1;
                if place >= round.next {
                    again.insert(key, place);
                }
                rows.push(row.ordered(true))?;
            }
        }
        let is_compared = shown.is_compared(output);
        if let Some(mut cost) = cost.filter(|_| found > 0) {
            cost.add_items(found * if is_compared { 2 } else { 1 }, connection)?;
        }
        let rows: Rows = Box::new(rows.sorted()?.map(|row| row.map(VersionRow::from)));
        let mut pages = VersionPages::new(store, round.pace, rows, connection.consistent);
        let mut last = VecDeque::new();
        while let Some(views) = pages.next_page(usize::MAX, is_compared).await? {
            for (view, previous) in views {
                // A version that could not be read is read again in the next round.
                let key = (view.entity.as_str().to_owned(), view.version);
                seen.0.extend(again.remove_entry(&key));
                let Some(one) = shown.compared(view, previous) else {
                    continue;
                };
                if limit == usize::MAX {
                    shown.print(&one, store, output)?;
                    continue;
                }
                last.push_back(one);
                if last.len() > limit {
                    last.pop_front();
                }
            }
            if pager::is_closed() {
                return Ok(());
            }
        }
        seen.0.retain(|_, place| *place >= round.next);
        last.iter().try_for_each(|one| shown.print(one, store, output))
    }
}

/// Returns the place of a row in the order in which rounds read: its time of insertion, or its own time.
fn place(row: &VersionRow) -> String {
    row.inserted.clone().or(row.recorded_at.clone()).unwrap_or_default()
}
