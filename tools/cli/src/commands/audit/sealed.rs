//! `vzero audit --sealed`.

use std::{collections::BTreeMap, path::PathBuf};

use operations::{connection::Connection, sealed::Place, segments::Plan};
use seal::log::note::VerifierKey;
use sealing::{
    audit::{Audit, Line, Summary, finding::Kind},
    keys::KeysTable,
    log::Log,
    place::verifier,
    state::StateTable,
};
use serde_json::json;

use crate::{
    commands::segments::bar,
    error::CliError,
    input,
    output::{self, Output},
};

#[derive(Debug, clap::Args)]
pub(super) struct Sealed {
    /// Compare all versions of the table with the log in which they are sealed, in both directions, sorted in temporary files
    #[arg(long, conflicts_with_all = ["all", "index", "state"])]
    #[allow(clippy::struct_field_names, reason = "it is the name of the option")]
    pub(super) sealed: bool,
    /// Place of the log: a folder, or <s3://BUCKET> [default: as the table says]
    #[arg(long, value_name = "PLACE", requires = "sealed")]
    log: Option<String>,
    /// File with the log's verifier key, which you received in another way than the log
    #[arg(long, value_name = "FILE", requires = "sealed")]
    vkey: Option<PathBuf>,
    /// File with a checkpoint that you kept: the log must continue it
    #[arg(long, value_name = "FILE", requires = "sealed")]
    since_checkpoint: Option<PathBuf>,
    /// Ask seal-fn to seal the versions that are Unsealed
    #[arg(long, requires = "sealed")]
    seal_missing: bool,
}

impl Sealed {
    pub(super) async fn run(
        &self,
        (connection, output): (&Connection, &Output),
        plan: Plan<'_>,
    ) -> Result<(), CliError> {
        let place = Place::of(plan.store).await?.ok_or_else(|| {
            CliError::NotFound(format!(
                "the versions of {} are not sealed: deploy tools/seal/template.yaml",
                connection.table
            ))
        })?;
        let key = if let Some(path) = &self.vkey {
            let key = VerifierKey::parse(&input::text_of(path)?);
            key.map_err(|error| CliError::usage("--vkey", error))?
        } else {
            output::note(
                "the key that verifies the log is the one that the table names: --vkey FILE takes the one that you received",
            );
            verifier(&place)?
        };
        let earlier = self.since_checkpoint.as_deref().map(input::text_of).transpose()?;
        let sdk = async || Ok::<_, CliError>(connection.sdk.clone());
        let log = Log::at(self.log.as_ref().unwrap_or(&place.log), None, sdk).await?;
        let audit = Audit {
            plan,
            log,
            key,
            earlier,
            keys: KeysTable::new(connection.client.clone(), &place.keys),
            state: StateTable::new(connection.client.clone(), &place.state),
            table: place.table,
            seals_missing: self.seal_missing,
        };
        let mut findings = output.listing(&["ID", "Version", "Finding", ""]);
        let mut operations = output.listing(&["ID", "Version", "To", "Operation", ""]);
        let bar = bar(connection).await;
        let run = audit.run(
            |items| bar.set(items, String::new()),
            |line| match line {
                Line::Finding(finding) => bar.suspend(|| findings.add(&finding.json)),
                Line::Operation(json) => bar.suspend(|| operations.add(&output::without_null(json))),
            },
        );
        let summary = run.await?;
        drop(bar);
        operations.end(None)?;
        findings.end(None)?;
        let counts: BTreeMap<_, _> = summary
            .findings
            .iter()
            .map(|(kind, count)| (format!("{kind:?}"), count))
            .collect();
        output.object(&json!({
            "Versions": summary.versions,
            "Leaves": summary.leaves,
            "NotSealedYet": summary.not_sealed_yet,
            "Removed": summary.removed,
            "Operations": summary.operations,
            "Size": summary.size,
            "SealedAt": summary.sealed_at.map(|time| time.to_string()),
            "Compared": summary.is_compared,
            "Findings": counts,
            "ReadUnits": plan.pace.consumed().read,
        }))?;
        self.outcome(&summary)
    }

    fn outcome(&self, summary: &Summary) -> Result<(), CliError> {
        let unsealed = summary.findings.get(&Kind::Unsealed);
        let next = match unsealed {
            Some(count) if self.seal_missing => format!("seal-fn will seal {count} versions within two minutes"),
            Some(_) => "`vzero audit --sealed --seal-missing` has those sealed that the functions inserted".to_owned(),
            None => "`vzero admin items KEY` shows what is stored now".to_owned(),
        };
        match summary.findings.values().sum::<u64>() {
            0 => Ok(()),
            1 => Err(CliError::Unproven(format!(
                "the table and its log differ, in 1 finding: {next}"
            ))),
            count => Err(CliError::Unproven(format!(
                "the table and its log differ, in {count} findings: {next}"
            ))),
        }
    }
}
