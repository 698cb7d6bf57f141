//! `vzero audit --index`.

use std::{collections::BTreeMap, time::Duration};

use operations::{
    all_versions::sorted_files::SortedFiles,
    connection::Connection,
    rate_limit::RateLimiter,
    segments::Plan,
    time_index::{
        audit::{Comparison, EntryRun},
        source::TimeIndex,
    },
};
use serde_json::json;
use shared::{domain::time_index::INDEX_NAME, dynamodb::read::describe_table::items_of};

use crate::{error::CliError, output::Output, progress::Bar};

/// Compares the index with the versions of the table.
pub(super) async fn run(
    (connection, output): (&Connection, &Output),
    plan: Plan<'_>,
    pace: &RateLimiter,
    lag: Duration,
) -> Result<(), CliError> {
    let store = &connection.store;
    let Some(index) = TimeIndex::find(store).await?.filter(|index| index.is_active) else {
        return Err(CliError::Usage(format!(
            "{} has no active index {INDEX_NAME}: deploy the template with TimeIndex=true",
            connection.table
        )));
    };
    let table = store.beside(store.history_table()).description().await?;
    let bar = Bar::new(2 * items_of(&table));
    let (mut sides, mut counts, mut items) = ([const { None }; 2], [0; 2], 0);
    // The index is read last: it then has what the scan found.
    for (number, side) in sides.iter_mut().enumerate() {
        let mut run = match number {
            0 => EntryRun::versions(plan)?,
            _ => EntryRun::index(plan)?,
        };
        let mut files = SortedFiles::default();
        while let Some(found) = run.step().await? {
            found.into_iter().try_for_each(|entry| files.push(entry))?;
            bar.set(items + run.counts().items, String::new());
        }
        items += run.counts().items;
        counts[number] = run.counts().found;
        *side = Some(files);
    }
    drop(bar);
    let sides = sides.map(Option::unwrap_or_default);
    let mut comparison = Comparison::new(store, pace, index, sides, lag)?;
    let (mut report, mut findings) = (output.listing(&["ID", "Finding", ""]), BTreeMap::<_, u64>::new());
    while let Some((entry, finding)) = comparison.step().await? {
        *findings.entry(finding).or_default() += 1;
        report.add(&entry.to_json(store, finding))?;
    }
    report.end(None)?;
    let is_wrong = !findings.is_empty();
    let findings: BTreeMap<_, _> = findings
        .into_iter()
        .map(|(finding, count)| (format!("{finding:?}"), count))
        .collect();
    output.object(&json!({
        "Versions": counts[0],
        "Entries": counts[1],
        "OlderThanIndex": comparison.older,
        "Findings": findings,
        "ReadUnits": pace.consumed().read,
    }))?;
    match is_wrong {
        false => Ok(()),
        true => Err(CliError::Conflict(
            "the index differs from the versions of the table: add it again, by a deployment with TimeIndex=false and one with \
             TimeIndex=true; until then, `vzero log --all` without --since scans the table"
                .to_owned(),
        )),
    }
}
