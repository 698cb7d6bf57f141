//! `vzero admin prune`.

use std::{num::NonZeroU64, time::Duration};

use operations::{
    connection::Connection,
    prune::{EntityPrune, Left, Options, Rule, TablePrune},
};
use serde_json::json;

use super::{
    segments::{Rates, Segments, bar, summary},
    values::age,
};
use crate::{
    confirmation::Confirmation,
    error::CliError,
    output::{self, Output},
    progress::Bar,
    role,
    target::{Target, unless_all},
};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, mut_arg("words", unless_all))]
pub(crate) struct Prune {
    #[command(flatten)]
    target: Target,
    /// Prune all entities of the table
    #[arg(long)]
    all: bool,
    /// Keep this number of the newest versions
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "older_than",
        required_unless_present = "older_than"
    )]
    keep: Option<NonZeroU64>,
    /// Keep the versions that were the latest at some time in this period, by the times at which they were recorded: 90d, 12h
    #[arg(long, value_name = "AGE", value_parser = age)]
    older_than: Option<Duration>,
    /// Period in which marked versions can still be read and pinned: 7d, 0s
    #[arg(long, value_name = "AGE", default_value = "0s", value_parser = age)]
    grace: Duration,
    /// Let history also begin after missing versions
    #[arg(long)]
    over_gaps: bool,
    /// Reason, which the log of a sealed history keeps
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    confirmation: Confirmation,
    #[command(flatten)]
    rates: Rates,
    #[command(flatten)]
    segments: Segments,
}

const EXAMPLES: &str = "\
Examples:
  vzero admin prune Equipment#1 --older-than 90d --dry-run
  vzero admin prune --all --older-than 400d --max-read-units 50 --max-write-units 25 --state prune.json --yes
With --all, exit code 4 if entities could not be pruned because of their items. Entities on hold are left out, named and counted, and
the exit code is 0.";

impl Prune {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        self.segments.check(self.all)?;
        let item = (!self.all)
            .then(|| self.target.subject(connection, 0..=0))
            .transpose()?;
        let id = item.as_ref().map(|item| &*item.id);
        let whose = id.unwrap_or("all entities");
        let question = format!(
            "Mark old versions of {whose} in {}, so that DynamoDB deletes them?",
            connection.table
        );
        self.confirmation.ask(&question)?;
        match id {
            Some(id) => self.entity(id, connection, output).await,
            None => self.table(connection, output).await,
        }
    }

    fn options(&self) -> Result<Options, CliError> {
        let rule = self.keep.map(|count| Rule::Keep(count.get()));
        let rule = rule.or(self.older_than.map(Rule::OlderThan));
        Ok(Options {
            rule: rule.ok_or_else(|| CliError::Usage("prune needs --keep or --older-than".to_owned()))?,
            grace: self.grace,
            over_gaps: self.over_gaps,
            dry_run: self.confirmation.dry_run,
        })
    }

    async fn entity(&self, id: &str, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let pace = &self.rates.limiter(connection);
        let record = role::record(connection, self.reason.as_deref()).await?;
        let prune = EntityPrune::plan(&connection.store, id, self.options()?, pace).await?;
        let prune = prune.with_record(record);
        if let Some(missing) = prune.plan.stopped_at {
            output::note(&format!(
                "version {missing} is missing, and the floor stays below it; --over-gaps raises it all the same"
            ));
        }
        let bar = Bar::new(prune.plan.mark.len());
        let marked = prune.run(&bar).await?;
        drop(bar);
        output.object(&json!({
            "ID": id,
            "Floor": prune.plan.floor,
            "Marked": marked,
            "Left": prune.plan.settled,
            "Undated": prune.plan.undated,
            "Expires": prune.expires.as_secs(),
            "DryRun": self.confirmation.dry_run,
        }))
    }

    async fn table(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let pace = self.rates.limiter(connection);
        let record = role::record(connection, self.reason.as_deref()).await?;
        let mut run = TablePrune::new(self.segments.plan(connection, &pace), self.options()?, record)?;
        let bar = bar(connection).await;
        while let Some(left) = run.step().await? {
            bar.suspend(|| {
                left.iter().try_for_each(|(entity, why)| {
                    let mut line = json!({"ID": entity.as_str()});
                    match why {
                        Left::Held(hold) => line["Held"] = json!(hold),
                        Left::Failed(why) => line["Failed"] = why.as_str().into(),
                    }
                    output.object(&line)
                })
            })?;
            let counts = run.counts();
            bar.set(counts.items, format!(", {} marked", counts.marked));
        }
        drop(bar);
        let mut summary = summary(run.counts(), run.consumed(), self.confirmation.dry_run);
        summary.as_object_mut().map(|members| members.shift_remove("Items"));
        output.object(&summary)?;
        match run.counts().failed {
            0 => Ok(()),
            failed => Err(CliError::Conflict(format!(
                "{failed} entities could not be pruned: `vzero admin audit --all` finds what is wrong"
            ))),
        }
    }
}
