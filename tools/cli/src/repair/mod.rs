//! What an audit finds, put back where that can be. No version is overwritten.
//!
//! Data runs one way: findings → a plan of each entity's own items → what is missing, out of failure documents and the
//! stream → the plan is shown → it is carried out → a summary.

mod apply;
pub(crate) mod findings;
mod missing;
mod plan;

use std::time::Duration;

use serde_json::json;

use self::missing::Search;
pub(crate) use self::{
    apply::Done,
    plan::{NOWHERE, Plan, Planned},
};
use crate::{
    connection::Connection,
    error::CliError,
    failures::source::Source,
    output::{self, Output},
    progress::Count,
    redrive::{Feed, Reader, Services, TableStream, Tally},
};

/// What to repair, and with what.
#[derive(Debug, clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct Repair {
    /// The entities: their partition keys
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
    pub(crate) ids: Vec<String>,
    /// Repair every entity of the table
    #[arg(long)]
    pub(crate) all: bool,
    /// Look for missing versions in failure documents: a file, a folder, <s3://bucket/prefix>, or the URL of a queue
    #[arg(long, value_name = "SOURCE")]
    pub(crate) from: Vec<Source>,
    /// Look for missing versions in the table's stream
    #[arg(long)]
    pub(crate) stream: bool,
    /// Make a latest item that is gone again, of the highest version
    #[arg(long)]
    pub(crate) revive: bool,
    /// Show the plan, and do nothing
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Do it without asking
    #[arg(long)]
    pub(crate) yes: bool,
    /// How many seconds a missing version may be on its way: so long is waited before it counts as missing
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) lag: u64,
    #[command(flatten)]
    pub(crate) services: Services,
}

pub(crate) async fn run(connection: &Connection, args: &Repair, output: &Output) -> Result<(), CliError> {
    if !args.yes && !args.dry_run && !output::can_ask() {
        return Err(CliError::Usage(
            "there is nobody to ask whether to carry out the plan: --yes says so, --dry-run only shows it".to_owned(),
        ));
    }
    let lag = Duration::from_secs(args.lag);
    let (found, not_found) = match args.all {
        true => (findings::of_table(connection, lag).await?, None),
        false => findings::of_entities(connection, &args.ids, lag).await?,
    };
    let mut plan = Plan::of(connection, &found, args.revive).await?;
    let feed = Feed::new(connection, &args.services, Count::new("documents"));
    plan.look_for_missing(connection, &feed, &args.from, args.stream)
        .await?;
    drop(feed);
    plan.say(output)?;
    let is_agreed = args.yes || (!args.dry_run && !plan.is_empty() && output::ask("Carry it out?")?);
    let mut done = Done::default();
    if is_agreed {
        done.carry_out(connection, plan.steps, Count::new("steps")).await;
    }
    let mut summary = done.summary();
    summary["Entities"] = json!(found.len());
    summary["Left"] = json!(plan.left.len());
    summary["DryRun"] = json!(!is_agreed);
    if !output.is_json() {
        Done::say_lists(&mut summary);
    }
    output.object(&summary)?;
    done.verdict(plan.left.len())?;
    not_found.map_or(Ok(()), |id| Err(CliError::NotFound(format!("there is no {id}"))))
}

impl Plan {
    /// Looks for what is missing where somebody else may still have it.
    pub(crate) async fn look_for_missing(
        &mut self,
        connection: &Connection,
        feed: &Feed<'_>,
        from: &[Source],
        stream: bool,
    ) -> Result<(), CliError> {
        let reader = Reader {
            stream: TableStream::new(connection),
            table: connection.table.clone(),
        };
        let search = Search::new(&self.missing, connection.store.digits(), reader);
        if !self.missing.is_empty() {
            feed.all(from, &search, &mut Tally::default()).await?;
            if stream {
                search.stream(&connection.table).await?;
            }
        }
        let found = search.found();
        self.add_found(found);
        Ok(())
    }
}
