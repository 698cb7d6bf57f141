//! `vzero audit`.

mod index;
mod sealed;

use std::time::Duration;

use clap::Arg;
use operations::{
    audit::{EntitiesAudit, TableAudit, auditor::EntityFindings, segment::Counts},
    connection::Connection,
    rate_limit::RateLimiter,
};
use serde_json::json;
use shared::domain::entity::EntityId;

use self::sealed::Sealed;
use super::segments::{ReadRate, Segments, bar};
use crate::{
    error::CliError,
    output::{self, Listing, Output},
    target::Target,
};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, mut_arg("words", unless_table))]
pub(crate) struct Audit {
    #[command(flatten)]
    target: Target,
    /// Audit all entities of the table
    #[arg(long)]
    all: bool,
    /// Compare the index `TimeIndex` with the versions of the table: both are read as a whole, and sorted in temporary files
    #[arg(long, conflicts_with_all = ["all", "state"])]
    index: bool,
    #[command(flatten)]
    sealed: Sealed,
    /// Seconds to wait for versions that may still be in the stream, before a finding counts
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    lag: u64,
    #[command(flatten)]
    rate: ReadRate,
    #[command(flatten)]
    segments: Segments,
}

const EXAMPLE: &str = "\
Findings: Gap, Stray (beyond Latest), LatestDiffers, NoVersion, Orphan, OtherWidth, BelowFloor, Unpruned; Lagging, which is no error.
With --attached: Gap, Differs, Unordered, BelowFloor, Unpruned; Late, Missed, Omitted and Lagging, which are no errors.
With --index: NotInIndex, NoVersion, WrongPartition, WrongTime; versions from before the index are counted.
With --sealed: Changed, Swapped, Renumbered, Missing, Unsealed, SealedTwice, UnknownEntity; Rewritten, Truncated, Checkpoint.
Exit code 4 if something is wrong, with --sealed 1.
Examples:
  vzero admin audit --all --max-read-units 100 --state audit.json
  vzero --table Orders admin audit c1 7
  vzero audit --sealed --vkey vkey --since-checkpoint checkpoint";

/// Makes the argument of [`Target`] optional with an option for the whole table.
fn unless_table(words: Arg) -> Arg {
    let words = words
        .required(false)
        .required_unless_present_any(["all", "index", "sealed"]);
    words.conflicts_with_all(["all", "index", "sealed"])
}

impl Audit {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        self.segments.check(self.all || self.index || self.sealed.sealed)?;
        if self.sealed.sealed {
            let pace = self.rate.limiter(connection);
            let plan = self.segments.plan(connection, &pace);
            return Box::pin(self.sealed.run((connection, output), plan)).await;
        }
        if self.index {
            let pace = self.rate.limiter(connection);
            let plan = self.segments.plan(connection, &pace);
            return Box::pin(index::run((connection, output), plan, Duration::from_secs(self.lag))).await;
        }
        let (pace, mut report) = (self.rate.limiter(connection), output.listing(&["ID", "Finding", ""]));
        let (counts, read_units, not_found) = match self.all {
            true => self.table(connection, &pace, &mut report).await?,
            false => self.entities(connection, &pace, &mut report).await?,
        };
        for entity in &not_found {
            output::note(&format!("there is no {}", entity.as_str()));
        }
        report.end(None)?;
        output.object(&json!({
            "Entities": counts.entities,
            "Versions": counts.versions,
            "Findings": counts.findings,
            "ReadUnits": read_units,
        }))?;
        if counts.wrong {
            return Err(CliError::Conflict(self.next_step(&counts, connection)));
        }
        match not_found.last() {
            Some(entity) => Err(CliError::no_entity(entity.as_str())),
            None => Ok(()),
        }
    }

    /// Returns the error of findings, with the commands that repair what they can.
    fn next_step(&self, counts: &Counts, connection: &Connection) -> String {
        let arguments = self.target.arguments();
        let ids = if self.all { "--all" } else { &arguments };
        let next = match connection.store.attached_table() {
            Some(_) => "`vzero admin redrive s3://FailedRecordsBucketName` stores records that failed".to_owned(),
            None => format!("`vzero admin repair {ids} --dry-run` shows what can be restored"),
        };
        let has = |kind: &str| counts.findings.contains_key(kind);
        let quarantine =
            has("Quarantined").then_some("; `vzero admin quarantine --output json` lists records in quarantine");
        let prune =
            has("Unpruned").then(|| format!("; `vzero admin prune {ids} --keep N` marks versions below the floor"));
        format!(
            "the audit found errors: {next}{}{}",
            quarantine.unwrap_or_default(),
            prune.unwrap_or_default()
        )
    }

    /// Audits single entities.
    async fn entities(
        &self,
        connection: &Connection,
        pace: &RateLimiter,
        report: &mut Listing<'_>,
    ) -> Result<Audited, CliError> {
        let lag = Duration::from_secs(self.lag);
        let mut audit = EntitiesAudit::new(
            connection.store.clone(),
            pace.clone(),
            lag,
            &self.target.ids(connection)?,
        )?;
        while let Some(audited) = audit.step().await? {
            add(report, &audited)?;
        }
        Ok((audit.counts, pace.consumed().read, audit.not_found))
    }

    async fn table(
        &self,
        connection: &Connection,
        pace: &RateLimiter,
        report: &mut Listing<'_>,
    ) -> Result<Audited, CliError> {
        let plan = self.segments.plan(connection, pace);
        let mut audit = TableAudit::new(plan, Duration::from_secs(self.lag))?;
        let bar = bar(connection).await;
        while let Some(audited) = audit.step().await? {
            bar.suspend(|| audited.iter().try_for_each(|audited| add(report, audited)))?;
            let counts = audit.counts();
            let found: u64 = counts.findings.values().sum();
            bar.set(counts.items, format!(", {found} findings"));
        }
        Ok((audit.counts(), audit.consumed().read, Vec::new()))
    }
}

/// Counts, consumed read units, and the entities that do not exist.
type Audited = (Counts, f64, Vec<EntityId>);

fn add(report: &mut Listing<'_>, audited: &EntityFindings) -> Result<(), CliError> {
    let mut findings = audited.findings.iter();
    findings.try_for_each(|finding| report.add(&finding.to_json(&audited.entity)))
}
