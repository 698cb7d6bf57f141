//! `vzero prune`.

use std::{
    num::{NonZeroU32, NonZeroU64},
    time::Duration,
};

use operations::{connection::Connection, prune};
use serde_json::json;
use shared::{
    clock,
    domain::{entity::EntityId, prune::Keep, recorded_at::RecordedAt},
    dynamodb::maintain::rate_limit::{Limits, RateLimiter},
};

use super::values::age;
use crate::{
    error::CliError,
    output::{self, Output},
    progress::Bar,
};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: vzero prune Equipment#1 --older-than 90d")]
pub(crate) struct Prune {
    /// Partition key of the entity
    id: String,
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
    /// Print what would be marked, and mark nothing
    #[arg(long)]
    dry_run: bool,
    /// Maximum number of read units a second
    #[arg(long, value_name = "UNITS")]
    max_read_units: Option<NonZeroU32>,
    /// Maximum number of write units a second
    #[arg(long, value_name = "UNITS")]
    max_write_units: Option<NonZeroU32>,
}

impl Prune {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let store = &connection.store;
        let entity = EntityId::new(&self.id)?;
        let now = clock::since_epoch();
        let keep = match (self.keep, self.older_than) {
            (Some(count), _) => Keep::Newest(count.get()),
            (None, Some(age)) => Keep::Since(RecordedAt::since_epoch(now.saturating_sub(age))),
            (None, None) => return Err(CliError::Usage("prune needs --keep or --older-than".to_owned())),
        };
        let limits = Limits {
            read: self.max_read_units,
            write: self.max_write_units,
        };
        let pace = RateLimiter::new(connection.pace_meter.clone(), limits);
        let plan = store.plan_prune(&entity, keep, self.over_gaps, &pace).await?;
        let plan = plan.ok_or_else(|| CliError::no_entity(&self.id))?;
        if let Some(missing) = plan.stopped_at {
            output::note(&format!(
                "version {missing} is missing, and the floor stays below it; --over-gaps raises it all the same"
            ));
        }
        let expires = now + self.grace;
        let marked = if self.dry_run {
            plan.mark.len()
        } else {
            let bar = Bar::new(plan.mark.len());
            prune::carry_out(store, &entity, &plan, expires, &pace, &bar).await?
        };
        output.object(&json!({
            "ID": self.id,
            "Floor": plan.floor,
            "Marked": marked,
            "Left": plan.settled,
            "Undated": plan.undated,
            "Expires": expires.as_secs(),
            "DryRun": self.dry_run,
        }))
    }
}
