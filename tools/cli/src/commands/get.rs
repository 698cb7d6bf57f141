//! `vzero get`.

use std::num::NonZeroU64;

use operations::{
    as_of::{
        as_of,
        effective_at::{client_time, effective_at},
    },
    connection::Connection,
    progress::Progress as _,
};
use shared::{
    domain::{entity::EntityId, recorded_at::RecordedAt, view::VersionView},
    dynamodb::read::{batch_get_items::MAX_KEYS, versions::ReadError},
    logging::chain,
};

use super::values::{missing, version};
use crate::{error::CliError, output::Output, progress::Bar};

/// Maximum number of versions that a read by the time of the client reads.
const LIMIT: u64 = 10_000;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Get {
    /// Partition key of the entity
    id: String,
    /// Number of the version [default: the latest]
    #[arg(long = "version", value_name = "N", conflicts_with_all = ["at", "effective_at"])]
    number: Option<u64>,
    /// Show the version that was the latest at this time by `RecordedAt`, ISO 8601
    #[arg(long, value_name = "TIME", conflicts_with = "effective_at")]
    at: Option<String>,
    /// Show the highest version whose Time or Timestamp is not later, ISO 8601 or epoch milliseconds
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    effective_at: Option<String>,
    /// Maximum number of versions to read, with --effective-at [default: 10000]
    #[arg(long, value_name = "COUNT", requires = "effective_at")]
    limit: Option<NonZeroU64>,
    /// Show the version even if it is a tombstone
    #[arg(long)]
    deleted: bool,
}

const EXAMPLES: &str = "\
Examples:
  vzero get Equipment#1 --at 2020-11-01T20:04:00
  vzero get Equipment#1 --effective-at 2020-11-01T20:04:00";

impl Get {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let entity = connection.entity(&self.id)?;
        let (store, consistent) = (&connection.store, connection.consistent);
        let found = match (self.number, &self.at, &self.effective_at) {
            (Some(number), ..) => store.version(&entity, version(number)?, consistent).await?,
            (None, Some(time), _) => {
                let time = RecordedAt::parse(time).map_err(|error| CliError::usage("--at", error))?;
                let found = as_of(store, &entity, time, consistent).await;
                found.map_err(|error| self.undetermined(error))?
            }
            (None, None, Some(time)) => self.effective_at(connection, &entity, time).await?,
            (None, None, None) => store.latest(&entity, consistent).await?,
        };
        // The writers of an attached table have no other way to show that an item is gone.
        let shows_deleted = self.deleted || (self.number.is_some() && store.attached_table().is_some());
        Err(match (found, self.number) {
            (Some(view), _) if !view.deleted || shows_deleted => return output.version(&view),
            (Some(view), _) => CliError::NotFound(format!("{} is deleted as of version {}", self.id, view.version)),
            (None, Some(number)) => missing(connection, &entity, &self.id, number).await,
            // The time is before the first version.
            (None, None) => match store.latest(&entity, consistent).await? {
                Some(latest) => CliError::NotFound(format!(
                    "{} has no version of this time or an earlier one: the latest is version {}",
                    self.id, latest.version
                )),
                None => CliError::no_entity(&self.id),
            },
        })
    }

    async fn effective_at(
        &self,
        connection: &Connection,
        entity: &EntityId,
        time: &str,
    ) -> Result<Option<VersionView>, CliError> {
        let invalid = |_| {
            CliError::Usage("--effective-at: it is neither an ISO 8601 date and time nor epoch milliseconds".to_owned())
        };
        let time = client_time(time).map_err(invalid)?;
        let limit = self.limit.map_or(LIMIT, NonZeroU64::get);
        let counter = Bar::counter("versions read", MAX_KEYS as u64 + 1);
        let progress = |read| counter.at(read);
        let found = effective_at(&connection.store, entity, time, limit, connection.consistent, progress);
        found.await.map_err(|error| self.undetermined(error))
    }

    /// Adds the next step to an error that leaves the version of a time unknown.
    fn undetermined(&self, error: ReadError) -> CliError {
        let next = match &error {
            ReadError::Limit { .. } => "read more versions with a higher --limit".to_owned(),
            ReadError::Missing { .. } => format!("try again, or run vzero audit {}", self.id),
            ReadError::Pruned { floor } => format!("read the oldest version that is left with --version {floor}"),
            ReadError::NotRecordedAt { .. } => "an older release wrote it: use --effective-at, or --version".to_owned(),
            ReadError::NoTime { .. } => "use --at, or --version".to_owned(),
            ReadError::Service(_) | ReadError::Latest(_) | ReadError::Uncounted => return error.into(),
        };
        CliError::NotFound(format!("{}; {next}", chain(&error)))
    }
}
