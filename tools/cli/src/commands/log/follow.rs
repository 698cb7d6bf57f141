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
    all_versions::{AllVersions, pages::VersionPages, row::VersionRow, sorted_files::SortedFiles},
    connection::Connection,
    segments::Plan,
    time_index::source::{Source, Window},
};
use shared::domain::{
    time_index::{LATE, millis},
    version::Version,
};

use super::{
    POLL,
    all::{All, Shown, sorted},
};
use crate::{error::CliError, output::Output, pager};

/// Time by which clocks differ, and after which a read finds a version.
const OVERLAP: Duration = Duration::from_secs(120);

/// Versions that will be found again, each with its place in the order in which rounds read.
type Places = BTreeMap<(String, Version), String>;

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
        let (mut filter, is_compared) = (self.filter(&shown, Some(since)), shown.is_compared(output));
        let (mut source, mut cost) = self.source(&filter, &pace, connection).await?;
        cost.add_rounds(POLL)?;
        let (mut printed, mut overlap, mut is_first) = (Places::new(), LATE, true);
        loop {
            // From there on, the next round reads.
            let next = store.now().before(overlap);
            let next_place = match source {
                Source::Scan => next.to_string(),
                Source::Index(_) => millis(next),
            };
            let plan = Plan {
                segments: self.segments,
                source: &source,
                ..Plan::new(store, &pace)
            };
            let (mut run, mut rows, mut again) =
                (AllVersions::new(plan, &filter)?, SortedFiles::default(), Places::new());
            while let Some(mut found) = run.step().await? {
                found.retain(|row| !printed.contains_key(&key(row)));
                for row in found {
                    let place = row.inserted.clone().or(row.recorded_at.clone()).unwrap_or_default();
                    if place >= next_place {
                        again.insert(key(&row), place);
                    }
                    rows.push(row.ordered(true))?;
                }
            }
            if is_first {
                cost.add_items(run.counts().rows * if is_compared { 2 } else { 1 }, connection)?;
            }
            let mut pages = VersionPages::new(store, &pace, sorted(rows)?, connection.consistent);
            let mut paths = shown.paths(connection, &pace);
            let (limit, mut last) = (shown.limit.filter(|_| is_first), VecDeque::new());
            while let Some(views) = pages.next_page(usize::MAX, is_compared).await? {
                for (view, previous) in views {
                    // A version that could not be read is read again in the next round.
                    printed.extend(again.remove_entry(&(view.entity.as_str().to_owned(), view.version)));
                    last.extend(shown.compared(view, previous, &mut paths).await?);
                }
                match limit {
                    Some(limit) => drop(last.drain(..last.len().saturating_sub(limit))),
                    None => last.drain(..).try_for_each(|one| shown.print(&one, store, output))?,
                }
            }
            last.iter().try_for_each(|one| shown.print(one, store, output))?;
            if pager::is_closed() {
                return Ok(());
            }
            printed.retain(|_, place| *place >= next_place);
            if let Source::Index(_) = source {
                source = Source::Index(Window::new(since, None).inserted_since(next));
                overlap = OVERLAP;
            } else {
                filter.since = Some(since.max(next));
            }
            is_first = false;
            tokio::time::sleep(POLL).await;
        }
    }
}

fn key(row: &VersionRow) -> (String, Version) {
    (row.entity.clone(), row.version)
}
