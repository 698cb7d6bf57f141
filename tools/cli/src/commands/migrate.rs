//! `vzero admin migrate`.

use std::{num::NonZeroU32, path::PathBuf, time::Duration};

use operations::{
    connection::Connection,
    migrate::{Migration, NotMoved, Step},
};
use serde_json::json;
use shared::dynamodb::maintain::rate_limit::Limits;

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
  vzero admin migrate --max-read-units 200 --max-write-units 100 --state migrate.json
Functions can write in the meantime. An interrupted migration continues when the command is repeated. Exit code 4 if items
could not be moved; they stay readable.";

impl Migrate {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let limits = Limits {
            read: self.max_read_units,
            write: self.max_write_units,
        };
        let mut migration = Migration::new(connection, self.wait, limits, self.segments, self.state.as_deref())?;
        let bar = Bar::new(connection.store.describe().await.map_or(0, |table| table.items));
        while let Some(step) = migration.step().await? {
            match step {
                Step::Page(refused) => {
                    bar.suspend(|| refused.iter().try_for_each(|refused| print_refused(refused, output)))?;
                    let counts = migration.counts();
                    bar.set(counts.items, format!(", {} moved", counts.moved));
                }
                Step::Wait(wait) if !wait.is_zero() => {
                    let seconds = wait.as_secs_f64().ceil();
                    bar.suspend(|| {
                        output::note(&format!(
                            "waiting {seconds} s for invocations that started before the deployment"
                        ));
                    });
                }
                Step::Wait(_) => {}
            }
        }
        drop(bar);
        let (counts, consumed) = migration.totals();
        output.object(&json!({
            "HistoryTable": connection.store.history_table(),
            "Outcome": if counts.refused == 0 { "Finished" } else { "Incomplete" },
            "Moved": counts.moved,
            "Refused": counts.refused,
            "ReadUnits": consumed.read,
            "WriteUnits": consumed.write,
        }))?;
        match counts.refused {
            0 => Ok(()),
            refused => Err(CliError::Conflict(format!("{refused} items could not be moved"))),
        }
    }
}

fn print_refused(refused: &NotMoved, output: &Output) -> Result<(), CliError> {
    output.object(&json!({
        "Key": {"PK": refused.partition_key, "SK": refused.sort_key},
        "Refused": refused.why.to_string(),
    }))
}
