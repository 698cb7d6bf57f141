//! `vzero audit --index`.

use std::{collections::BTreeMap, time::Duration};

use operations::{
    all_versions::sorted_files::SortedFiles,
    connection::Connection,
    segments::Plan,
    time_index::{
        audit::{Entry, EntryRun, Finding, compare},
        source::TimeIndex,
    },
};
use serde_json::json;
use shared::domain::time_index::INDEX_NAME;

use crate::{commands::segments::bar, error::CliError, output::Output};

/// Compares the index with the versions of the table.
pub(super) async fn run(
    (connection, output): (&Connection, &Output),
    plan: Plan<'_>,
    lag: Duration,
) -> Result<(), CliError> {
    let index = TimeIndex::find(plan.store).await?.filter(|index| index.is_active);
    let index = index.ok_or_else(|| {
        let table = &connection.table;
        CliError::Usage(format!(
            "{table} has no active index {INDEX_NAME}: deploy the template with TimeIndex=true"
        ))
    })?;
    let (mut all, mut run, bar) = (SortedFiles::default(), EntryRun::entries(plan)?, bar(connection).await);
    while let Some(found) = run.step().await? {
        found.into_iter().try_for_each(|entry| all.push(entry))?;
        bar.set(run.counts().items, String::new());
    }
    drop(bar);
    let (mut report, mut findings) = (output.listing(&["ID", "Finding", ""]), BTreeMap::<_, u64>::new());
    let add = |entry: &Entry, finding: Finding| {
        *findings.entry(format!("{finding:?}")).or_default() += 1;
        report.add(&entry.to_json(plan.store, finding))
    };
    let older = compare(plan, index, all, lag, add).await?;
    report.end(None)?;
    output.object(&json!({
        "Versions": run.counts().versions,
        "Entries": run.counts().entries,
        "OlderThanIndex": older,
        "Findings": findings,
        "ReadUnits": plan.pace.consumed().read,
    }))?;
    match findings.is_empty() {
        true => Ok(()),
        false => Err(CliError::Conflict(format!(
            "{INDEX_NAME} differs from the versions of the table: remove it and add it again, by deployments with TimeIndex=false and \
             TimeIndex=true; `vzero log --all` without --since does not use it"
        ))),
    }
}
