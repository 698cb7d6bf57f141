//! `vzero audit`.

use std::time::Duration;

use operations::{
    audit::{EntitiesAudit, EntityStep, TableAudit, auditor::EntityFindings, segment::Counts},
    connection::Connection,
    rate_limit::RateLimiter,
};
use serde_json::json;
use shared::domain::entity::EntityId;

use super::segments::{ReadRate, Segments, bar};
use crate::{
    error::CliError,
    output::{self, Output},
};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Audit {
    /// Partition keys of the entities
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<String>,
    /// Audit all entities of the table
    #[arg(long)]
    all: bool,
    /// Seconds to wait for versions that may still be in the stream, before a finding counts
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    lag: u64,
    #[command(flatten)]
    rate: ReadRate,
    #[command(flatten)]
    segments: Segments,
}

const EXAMPLE: &str = "\
Findings: Gap, Stray (beyond Latest), LatestDiffers, NoVersion, Orphan, BelowFloor, Unpruned; Lagging, which is no error.
With --attached: Gap, Differs, Unordered, BelowFloor, Unpruned; Late, Missed, Omitted and Lagging, which are no errors.
Exit code 4 if something is wrong.
Example: vzero audit --all --max-read-units 100 --state audit.json";

impl Audit {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        self.segments.check(self.all)?;
        let (pace, mut report) = (
            self.rate.limiter(connection),
            Report {
                output,
                rows: Vec::new(),
            },
        );
        let (counts, read_units, not_found) = match self.all {
            true => self.table(connection, &pace, &mut report).await?,
            false => self.entities(connection, &pace, &mut report).await?,
        };
        if !report.rows.is_empty() {
            output::print_table(&["ID", "Finding", ""], report.rows)?;
        }
        output.object(&json!({
            "Entities": counts.entities,
            "Versions": counts.versions,
            "Findings": counts.findings,
            "ReadUnits": read_units,
        }))?;
        if counts.wrong {
            return Err(CliError::Conflict("the audit found errors".to_owned()));
        }
        not_found.map_or(Ok(()), |entity| Err(CliError::no_entity(entity.as_str())))
    }

    /// Audits single entities. Returns the last entity that does not exist, too.
    async fn entities(
        &self,
        connection: &Connection,
        pace: &RateLimiter,
        report: &mut Report<'_>,
    ) -> Result<Audited, CliError> {
        let (mut counts, mut not_found) = (Counts::default(), None);
        let mut audit = EntitiesAudit::new(connection.store.clone(), pace.clone(), self.lag(), &self.ids)?;
        while let Some(step) = audit.step().await? {
            let audited = match step {
                EntityStep::Examined(versions, audited) => {
                    counts.entities += 1;
                    counts.versions += versions;
                    audited
                }
                EntityStep::Settled(audited) => audited,
                EntityStep::NotFound(entity) => {
                    output::note(&format!("there is no {}", entity.as_str()));
                    not_found = Some(entity);
                    continue;
                }
            };
            counts.add(&audited);
            report.add(&audited)?;
        }
        Ok((counts, pace.consumed().read, not_found))
    }

    async fn table(
        &self,
        connection: &Connection,
        pace: &RateLimiter,
        report: &mut Report<'_>,
    ) -> Result<Audited, CliError> {
        let (segments, state) = (self.segments.segments, self.segments.state());
        let mut audit = TableAudit::new(&connection.store, pace, self.lag(), segments, state)?;
        let bar = bar(connection).await;
        while let Some(audited) = audit.step().await? {
            bar.suspend(|| audited.iter().try_for_each(|audited| report.add(audited)))?;
            let counts = audit.counts();
            let found: u64 = counts.findings.values().sum();
            bar.set(counts.items, format!(", {found} findings"));
        }
        Ok((audit.counts(), audit.read_units(), None))
    }

    fn lag(&self) -> Duration {
        Duration::from_secs(self.lag)
    }
}

/// Counts, consumed read units, and an entity that does not exist.
type Audited = (Counts, f64, Option<EntityId>);

/// Prints findings: as JSON at once, as a table at the end.
struct Report<'a> {
    output: &'a Output,
    rows: Vec<Vec<String>>,
}

impl Report<'_> {
    fn add(&mut self, audited: &EntityFindings) -> Result<(), CliError> {
        for finding in &audited.findings {
            let json = finding.to_json(&audited.entity);
            match self.output.is_json() {
                true => self.output.object(&json)?,
                false => self.rows.push(output::row(&json, ["ID", "Finding"])),
            }
        }
        Ok(())
    }
}
