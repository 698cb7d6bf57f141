//! `vzero admin repair`.

use std::time::Duration;

use operations::{
    connection::Connection,
    failures::source::Source,
    repair::{self, Options},
};

use super::services::{ServiceOptions, print_tally};
use crate::{
    confirmation::Confirmation,
    error::CliError,
    output::Output,
    progress::Bar,
    target::{Target, unless_all},
};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, mut_arg("words", unless_all))]
pub(crate) struct Repair {
    #[command(flatten)]
    target: Target,
    /// Repair all entities of the table
    #[arg(long)]
    all: bool,
    /// Search missing versions in failure documents: a file, a folder, <s3://bucket/prefix>, or the URL of a queue
    #[arg(long, value_name = "SOURCE")]
    source: Vec<Source>,
    /// Search missing versions in the table's stream
    #[arg(long)]
    stream: bool,
    /// Create a missing latest item again, from the highest version
    #[arg(long)]
    revive: bool,
    #[command(flatten)]
    confirmation: Confirmation,
    /// Seconds to wait for versions that may still be in the stream, before a version counts as missing or as the highest one
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    lag: u64,
    #[command(flatten)]
    services: ServiceOptions,
}

const EXAMPLES: &str = "\
Examples:
  vzero admin repair Equipment#1
  vzero admin repair --all --source s3://failed-records --stream --yes

The plan is shown first. No version is overwritten.";

impl Repair {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        self.confirmation.check()?;
        let (services, counter) = (self.services.to_services(), Bar::counter("documents", 0));
        let ids = (!self.all).then(|| self.target.ids(connection)).transpose()?;
        let read = Bar::counter(if self.all { "items read" } else { "entities" }, 0);
        let stream = self.stream.then_some(Source::Stream);
        let sources: Vec<_> = self.source.iter().cloned().chain(stream).collect();
        let options = Options {
            lag: Duration::from_secs(self.lag),
            sources: &sources,
            services: &services,
            revive: self.revive,
        };
        let mut repair = repair::plan(connection, ids.as_deref(), &options, &read, &counter).await?;
        drop((read, counter));
        let mut plan = output.listing(&["ID", "Step", ""]);
        repair.to_json().iter().try_for_each(|step| plan.add(step))?;
        plan.end(None)?;
        let is_nothing = repair.steps.is_empty() && self.confirmation.must_ask();
        let is_agreed = !is_nothing && self.confirmation.ask("Execute the plan?")?;
        if is_agreed {
            repair.execute(&connection.store, &Bar::counter("steps", 0)).await;
        }
        print_tally(&repair.tally, !is_agreed, output)?;
        Ok(repair.verdict()?)
    }
}
