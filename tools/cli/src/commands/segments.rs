//! Options of commands that read a whole table: rate limits, parallel segments and the file of the progress.

use std::{num::NonZeroU32, path::PathBuf};

use operations::{
    connection::Connection,
    rate_limit::{Consumed, Limits, RateLimiter},
    segments::Plan,
};
use serde::Serialize;
use serde_json::{Value, json};
use shared::dynamodb::read::describe_table::items_of;

use crate::{error::CliError, progress::Bar};

#[derive(Debug, clap::Args)]
pub(crate) struct ReadRate {
    /// Maximum number of read units a second
    #[arg(long, visible_alias = "max-rcu", value_name = "UNITS")]
    pub(super) max_read_units: Option<NonZeroU32>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Rates {
    #[command(flatten)]
    read: ReadRate,
    /// Maximum number of write units a second
    #[arg(long, visible_alias = "max-wcu", value_name = "UNITS")]
    pub(super) max_write_units: Option<NonZeroU32>,
}

impl ReadRate {
    /// Returns the limiter of a command's requests.
    pub(super) fn limiter(&self, connection: &Connection) -> RateLimiter {
        self.with_writes(None, connection)
    }

    fn with_writes(&self, write: Option<NonZeroU32>, connection: &Connection) -> RateLimiter {
        let read = self.max_read_units;
        RateLimiter::new(connection.pace_meter.clone(), Limits { read, write })
    }
}

impl Rates {
    /// Returns the limiter of a command's requests.
    pub(super) fn limiter(&self, connection: &Connection) -> RateLimiter {
        self.read.with_writes(self.max_write_units, connection)
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct Segments {
    /// Number of parallel segments of the table [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    segments: Option<u32>,
    /// Store the progress in this file, and resume from it
    #[arg(long, visible_alias = "checkpoint", value_name = "FILE")]
    state: Option<PathBuf>,
}

impl Segments {
    /// Returns the plan of a run over the table.
    pub(super) fn plan<'a>(&'a self, connection: &'a Connection, pace: &'a RateLimiter) -> Plan<'a> {
        Plan {
            segments: self.segments,
            checkpoint: self.state.as_deref(),
            ..Plan::new(&connection.store, pace)
        }
    }

    pub(super) fn has_state(&self) -> bool {
        self.state.is_some()
    }

    /// Returns `true` if there is the file of an earlier run.
    pub(super) fn is_resumed(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.exists())
    }

    /// Rejects the options for single entities.
    pub(super) fn check(&self, is_table: bool) -> Result<(), CliError> {
        match is_table || (self.state.is_none() && self.segments.is_none()) {
            true => Ok(()),
            false => Err(CliError::Usage("--state and --segments need --all".to_owned())),
        }
    }
}

/// Returns the counts of a run, and the units that it consumed.
pub(super) fn summary(counts: impl Serialize, consumed: Consumed, is_dry: bool) -> Value {
    let mut summary = json!(counts);
    summary["ReadUnits"] = consumed.read.into();
    summary["WriteUnits"] = consumed.write.into();
    summary["DryRun"] = is_dry.into();
    summary
}

/// Returns a bar for the items of the table.
pub(super) async fn bar(connection: &Connection) -> Bar {
    let table = connection.store.description().await;
    Bar::new(table.map_or(0, |table| items_of(&table)))
}
