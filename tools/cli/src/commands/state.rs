//! `vzero admin state`.

mod load;

use operations::connection::Connection;
use patterns::time_series::{PutOutcome, StateQuery, StateTime, TimePrefix, TimeSeries};
use serde_json::json;
use shared::domain::entity::EntityId;

use self::load::Load;
use super::values::parsed;
use crate::{
    changes::{self, Changes},
    error::CliError,
    output::{self, Output},
};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum State {
    /// Put a state with its time
    #[command(
        after_help = "Example: vzero admin state put Equipment#1 --time 2020-11-12T20:04:00 --set State=WARNING1"
    )]
    Put {
        /// Partition key of the entity
        id: String,
        /// Time of the state, ISO 8601
        #[arg(long)]
        time: Option<String>,
        /// Replace an existing state of this time
        #[arg(long)]
        replace: bool,
        #[command(flatten)]
        changes: Changes,
    },
    /// Show the newest state
    Latest {
        /// Partition key of the entity
        id: String,
    },
    /// List the states of a range of times, oldest first
    #[command(after_help = LIST_EXAMPLES)]
    List {
        /// Partition key of the entity
        id: String,
        /// First time
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
        /// Last time
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
        /// Beginning of the stored time: 2023-12 is a month, 2023-12-15T08 an hour
        #[arg(long, value_name = "TIME")]
        prefix: Option<String>,
        /// List the newest state first
        #[arg(long)]
        newest_first: bool,
        /// Maximum number of states to show
        #[arg(long, value_name = "COUNT")]
        limit: Option<usize>,
    },
    /// Put many states from a file, and replace existing states of the same time
    Load(Load),
}

const LIST_EXAMPLES: &str = "\
Examples:
  vzero admin state list Equipment#1 --prefix 2023-12 --newest-first
  vzero admin state list Equipment#1 --since 2023-12-15 --limit 10
A state is listed if it is in all ranges that are given. Times are stored in UTC, such as 2023-12-15T08:30:00.";

impl State {
    /// Returns `true` if the command writes nothing.
    pub(crate) fn only_shows(&self) -> bool {
        matches!(self, Self::Latest { .. } | Self::List { .. })
    }

    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let series = TimeSeries::new(connection.client.clone(), &connection.table);
        match self {
            Self::Put {
                id,
                time,
                replace,
                changes,
            } => {
                let time = parsed("--time", time.as_deref(), StateTime::parse)?;
                let time = time.ok_or_else(|| CliError::Usage("a state needs --time".to_owned()))?;
                let item = changes::item(changes.read()?)?;
                match series.put(&EntityId::new(id)?, &time, item, *replace).await? {
                    PutOutcome::Put => output.object(&json!({"ID": id, "Time": time.as_str(), "Outcome": "Put"})),
                    PutOutcome::Taken => Err(CliError::Conflict(format!(
                        "{id} has a state at {time}; --replace replaces it"
                    ))),
                }
            }
            Self::Latest { id } => {
                let state = series.latest(&EntityId::new(id)?, connection.consistent).await?;
                let state = state.ok_or_else(|| CliError::NotFound(format!("{id} has no states")))?;
                output.object(&output::state_json(id, &state))
            }
            Self::List {
                id,
                since,
                until,
                prefix,
                newest_first,
                limit,
            } => {
                let query = StateQuery {
                    from: parsed("--since", since.as_deref(), StateTime::parse)?,
                    to: parsed("--until", until.as_deref(), StateTime::parse)?,
                    prefix: parsed("--prefix", prefix.as_deref(), TimePrefix::parse)?,
                    newest_first: *newest_first,
                    limit: *limit,
                    consistent: connection.consistent,
                };
                let states = series.between(&EntityId::new(id)?, &query).await?;
                output.states(id, &states)
            }
            Self::Load(load) => load.run(&series, &connection.table, output).await,
        }
    }
}
