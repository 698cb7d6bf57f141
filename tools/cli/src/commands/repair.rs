//! `vzero admin repair`.

use std::time::Duration;

use operations::{
    connection::Connection,
    failures::source::Source,
    repair::{self, Options, Plan, Scope},
};

use super::services::{ServiceOptions, print_tally};
use crate::{
    error::CliError,
    output::{self, Output},
    progress::Counter,
};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct Repair {
    /// Partition keys of the entities
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<String>,
    /// Repair all entities of the table
    #[arg(long)]
    all: bool,
    /// Search missing versions in failure documents: a file, a folder, <s3://bucket/prefix>, or the URL of a queue
    #[arg(long, value_name = "SOURCE")]
    from: Vec<Source>,
    /// Search missing versions in the table's stream
    #[arg(long)]
    stream: bool,
    /// Create a missing latest item again, from the highest version
    #[arg(long)]
    revive: bool,
    /// Show the plan, and do nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Execute the plan without confirmation
    #[arg(long)]
    yes: bool,
    /// Seconds to wait for versions that may still be in the stream, before a version counts as missing or as the highest one
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    lag: u64,
    #[command(flatten)]
    services: ServiceOptions,
}

const EXAMPLES: &str = "\
Examples:
  vzero admin repair Equipment#1
  vzero admin repair --all --from s3://failed-records --stream --yes

The plan is shown first. No version is overwritten.";

impl Repair {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        if !self.yes && !self.dry_run && !output::can_ask() {
            return Err(CliError::Usage(
                "cannot ask for confirmation: use --yes to execute the plan, or --dry-run to only show it".to_owned(),
            ));
        }
        let (services, counter) = (self.services.to_services(), Counter::new("documents"));
        let (scope, read) = match self.all {
            true => (Scope::Table, Counter::new("items read")),
            false => (Scope::Entities(&self.ids), Counter::new("entities")),
        };
        let stream = self.stream.then_some(Source::Stream);
        let sources: Vec<_> = self.from.iter().cloned().chain(stream).collect();
        let options = Options {
            lag: Duration::from_secs(self.lag),
            sources: &sources,
            services: &services,
            revive: self.revive,
        };
        let mut repair = repair::Repair::plan(connection, scope, &options, &read, &counter).await?;
        drop((read, counter));
        show(&repair.plan, output)?;
        let is_agreed =
            self.yes || (!self.dry_run && !repair.plan.steps.is_empty() && output::ask("Execute the plan?")?);
        if is_agreed {
            repair.execute(connection, &Counter::new("steps")).await;
        }
        print_tally(&repair.tally, !is_agreed, output)?;
        Ok(repair.verdict()?)
    }
}

fn show(plan: &Plan, output: &Output) -> Result<(), CliError> {
    let lines = plan.to_json();
    if output.is_json() || lines.is_empty() {
        return lines.iter().try_for_each(|line| output.object(line));
    }
    output::print_table(
        &["ID", "Step", ""],
        lines.iter().map(|line| output::row(line, ["ID", "Step"])),
    )
}
