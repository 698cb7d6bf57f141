//! `vzero get`.

use std::num::NonZeroU64;

use item_diff::path::Path;
use operations::{
    as_of::effective_at::{client_time, effective_at},
    connection::Connection,
    progress::Progress as _,
};
use shared::{domain::view::VersionView, dynamodb::read::batch_get_items::MAX_KEYS};

use super::values::value_of;
use crate::{
    error::CliError, next, output::Output, progress::Bar, selector::Subject, target::Target, times::TimeFormat,
};

/// Maximum number of versions that a read by the time of the client reads.
const LIMIT: u64 = 10_000;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Get {
    #[command(flatten)]
    target: Target,
    /// The version, also as an argument after the key: 7, latest, -1, @14:05 [default: the latest]
    #[arg(long = "version", value_name = "N", conflicts_with_all = ["at", "effective_at"], allow_negative_numbers = true)]
    number: Option<String>,
    /// Show the version that was the latest at this time by `RecordedAt`
    #[arg(long, value_name = "TIME", conflicts_with = "effective_at")]
    at: Option<String>,
    /// Show the highest version whose Time or Timestamp is not later, ISO 8601 or epoch milliseconds
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    effective_at: Option<String>,
    /// Maximum number of versions to read, with --effective-at [default: 10000]
    #[arg(long, value_name = "COUNT", requires = "effective_at")]
    limit: Option<NonZeroU64>,
    /// Show only the value at this path
    #[arg(long)]
    path: Option<Path>,
    /// Show the version even if it is a tombstone
    #[arg(long)]
    deleted: bool,
    #[command(flatten)]
    times: TimeFormat,
}

const EXAMPLES: &str = "\
Examples:
  vzero get Equipment#1 7
  vzero get Equipment#1 --at 'yesterday 14:05'
  vzero get Order#1 -1 --path 'Lines[2].Price'";

impl Get {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let takes_one = self.number.is_none() && self.at.is_none() && self.effective_at.is_none();
        let item = self.target.subject(connection, 0..=1)?;
        if let Some(word) = item.words.first().filter(|_| !takes_one) {
            let option = self.at.as_ref().map_or("--version or --effective-at", |_| "--at");
            return Err(CliError::Usage(format!(
                "{word} and {option} select two versions: use one of them"
            )));
        }
        let version = item.words.first().or(self.number.as_ref());
        let view = match (version, &self.at, &self.effective_at) {
            (Some(version), ..) => item.find(version).await?,
            (None, Some(time), _) => item.at("--at", time).await?,
            (None, None, Some(time)) => self.effective_at(&item, time).await?,
            (None, None, None) => item.latest().await?,
        };
        // The writers of an attached table have no other way to show that an item is gone.
        let shows_deleted = self.deleted || (version.is_some() && connection.store.attached_table().is_some());
        if view.deleted && !shows_deleted {
            let (id, number, next) = (&item.id, view.version, next::again("--deleted"));
            return Err(CliError::NotFound(format!(
                "{id} is deleted as of version {number}: {next} shows it"
            )));
        }
        match &self.path {
            Some(path) => output.value(value_of(&view, &item, path)?),
            None => output.version(&view, self.times),
        }
    }

    async fn effective_at(&self, item: &Subject<'_>, time: &str) -> Result<VersionView, CliError> {
        let invalid = |_| {
            CliError::Usage(format!(
                "--effective-at: {time} is neither an ISO 8601 date and time nor epoch milliseconds"
            ))
        };
        let time = client_time(time).map_err(invalid)?;
        let limit = self.limit.map_or(LIMIT, NonZeroU64::get);
        let counter = Bar::counter("versions read", MAX_KEYS as u64 + 1);
        let (consistent, progress) = (item.connection.consistent, |read| counter.at(read));
        let found = effective_at(item.store(), &item.entity, time, limit, consistent, progress).await;
        drop(counter);
        item.known(found, time).await
    }
}
