//! `vzero migrate`.

use std::{num::NonZeroU32, path::PathBuf, time::Duration};

use operations::{
    connection::Connection,
    migrate::{Counts, NotMoved, Pass},
};
use serde_json::json;
use shared::dynamodb::maintain::rate_limit::{Consumed, Limits, RateLimiter};
use tokio::time::Instant;

use super::values::age;
use crate::{
    error::CliError,
    output::{self, Output},
    progress::Bar,
};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Migrate {
    /// Wait at least this long before the last pass, for invocations that started before the deployment
    #[arg(long, value_name = "AGE", default_value = "60s", value_parser = age)]
    wait: Duration,
    /// Maximum number of read units a second
    #[arg(long, value_name = "UNITS")]
    max_read_units: Option<NonZeroU32>,
    /// Maximum number of write units a second
    #[arg(long, value_name = "UNITS")]
    max_write_units: Option<NonZeroU32>,
    /// Number of parallel segments [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    segments: Option<u32>,
    /// Store the progress of a pass in this file, and resume from it
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Example:
  vzero migrate --max-read-units 200 --max-write-units 100 --state migrate.json
Functions can write in the meantime. An interrupted migration continues when the command is repeated. Exit code 4 if items
could not be moved; they stay readable.";

impl Migrate {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let started = Instant::now();
        let (mut total, mut consumed) = (Counts::default(), Consumed::default());
        let mut is_last = false;
        let limits = Limits {
            read: self.max_read_units,
            write: self.max_write_units,
        };
        loop {
            if is_last {
                wait(started + self.wait).await;
            }
            let pace = RateLimiter::new(connection.pace_meter.clone(), limits);
            let (counts, units) = self.pass(connection, &pace, output).await?;
            total.moved += counts.moved;
            total.refused = counts.refused;
            consumed.read += units.read;
            consumed.write += units.write;
            // Items that cannot be moved do not become movable by another pass.
            if (is_last && counts.moved == 0) || counts.refused > 0 {
                break;
            }
            is_last = true;
        }
        let is_finished = total.refused == 0;
        if is_finished && connection.store.is_migrating() {
            connection.store.finish_migration().await?;
        }
        output.object(&json!({
            "HistoryTable": connection.store.history_table(),
            "Outcome": if is_finished { "Finished" } else { "Incomplete" },
            "Moved": total.moved,
            "Refused": total.refused,
            "ReadUnits": consumed.read,
            "WriteUnits": consumed.write,
        }))?;
        match total.refused {
            0 => Ok(()),
            refused => Err(CliError::Conflict(format!("{refused} items could not be moved"))),
        }
    }

    async fn pass(
        &self,
        connection: &Connection,
        pace: &RateLimiter,
        output: &Output,
    ) -> Result<(Counts, Consumed), CliError> {
        let mut pass = Pass::new(connection, pace, self.segments, self.state.as_deref())?;
        let bar = Bar::new(connection.store.describe().await.map_or(0, |table| table.items));
        while let Some(refused) = pass.step().await? {
            bar.suspend(|| refused.iter().try_for_each(|refused| print_refused(refused, output)))?;
            let counts = pass.counts();
            bar.set(counts.items, format!(", {} moved", counts.moved));
        }
        drop(bar);
        Ok((pass.counts(), pass.consumed()))
    }
}

async fn wait(until: Instant) {
    let left = until.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        let seconds = left.as_secs_f64().ceil();
        output::note(&format!(
            "waiting {seconds} s for invocations that started before the deployment"
        ));
        tokio::time::sleep(left).await;
    }
}

fn print_refused(refused: &NotMoved, output: &Output) -> Result<(), CliError> {
    output.object(&json!({
        "Key": {"PK": refused.partition_key, "SK": refused.sort_key},
        "Refused": refused.why.to_string(),
    }))
}
