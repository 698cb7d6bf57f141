//! Search of a table for the versions that a filter selects, in its index or by a scan. The last result is kept, and narrower filters are applied to it.

use std::sync::{Arc, Mutex};

use operations::{
    all_versions::{
        AllVersions, Counts, completeness::Completeness, pages::VersionPages, row::VersionRow,
        sorted_files::SortedFiles,
    },
    connection::Connection,
    error::OperationError,
    rate_limit::Limits,
    segments::Plan,
    time_index::source::Source,
    value_file::ValueFile,
};
use serde_json::Value;
use shared::domain::recorded_at::RecordedAt;

use super::{cost::Cost, filter::Filter, line::Line};
use crate::{
    job::{Job, Progress, limited},
    lock::lock,
    options::Options,
};

/// A scan with its filter.
pub(super) struct Scan {
    pub(super) filter: Filter,
    pub(super) job: Job,
    pub(super) found: Arc<Mutex<Option<Found>>>,
}

/// Versions, newest first.
pub(super) struct Found {
    pub(super) lines: ValueFile<Line>,
    pub(super) counts: Counts,
    pub(super) completeness: Value,
    /// Number of versions that do not exist any more, or not yet.
    pub(super) missing: u64,
    /// Times of the oldest and the newest version.
    pub(super) times: Option<[RecordedAt; 2]>,
    pub(super) cost: Arc<Cost>,
}

impl Scan {
    pub(super) fn start(connection: &Connection, options: &Options, filter: Filter) -> Self {
        let (connection, limits) = (connection.clone(), options.limits());
        let (found, wanted) = (Arc::new(Mutex::new(None)), filter.clone());
        let target = Arc::clone(&found);
        let job = Job::start(async move |progress| {
            let result = find(&connection, limits, &wanted, &progress).await?;
            *lock(&target) = Some(result);
            Ok(())
        });
        Self { filter, job, found }
    }
}

async fn find(
    connection: &Connection,
    limits: Limits,
    filter: &Filter,
    progress: &Progress,
) -> Result<Found, OperationError> {
    let (store, pace) = limited(connection, limits);
    let start = store.now();
    let cost = Cost::of(connection, limits, &filter.scanned).await?;
    let plan = Plan {
        source: &cost.source,
        ..Plan::new(&store, &pace)
    };
    let mut scan = AllVersions::new(plan, &filter.scanned)?;
    let mut rows = SortedFiles::default();
    while let Some(found) = scan.step().await? {
        connection.clear_meters();
        let mut found = found.into_iter();
        found.try_for_each(|row| rows.push(row.ordered(false)))?;
        let counts = scan.counts();
        progress.set(counts.items, cost.items);
        progress.check(counts.rows * 200)?;
    }
    let counts = scan.counts();
    let rows = rows.sorted()?.map(|row| row.map(VersionRow::from));
    let mut pages = VersionPages::new(&store, &pace, rows, connection.consistent);
    let (mut lines, mut times, mut read) = (ValueFile::new()?, None, 0);
    while let Some(views) = pages.next_page(usize::MAX, true).await? {
        connection.clear_meters();
        read += views.len() as u64;
        for (view, previous) in views {
            let Some(line) = Line::of(&view, previous.as_ref(), filter.path.as_ref()) else {
                continue;
            };
            lines.push(&line)?;
            if let Some(time) = view.recorded_at {
                let [oldest, newest] = times.unwrap_or([time; 2]);
                times = Some([time.min(oldest), time.max(newest)]);
            }
        }
        progress.set(read, counts.rows);
        progress.check(lines.length)?;
    }
    Ok(Found {
        lines,
        completeness: Completeness {
            start,
            counts: &counts,
            is_scan: cost.source == Source::Scan,
            has_latest_items: store.attached_table().is_none(),
            failures: None,
        }
        .to_json(),
        counts,
        missing: pages.missing,
        times,
        cost: Arc::new(cost),
    })
}
