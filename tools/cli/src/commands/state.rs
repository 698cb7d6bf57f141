//! `vzero state`.

use operations::connection::Connection;
use serde_json::{Value, json};
use shared::{
    domain::{entity::EntityId, plain},
    patterns::time_series::{self, PutOutcome, StateTime, TimeSeries},
};

use crate::{
    changes::{self, Changes},
    error::CliError,
    output::Output,
};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum State {
    /// Put a state with its time
    #[command(after_help = "Example: vzero state put Equipment#1 --time 2020-11-12T20:04:00 --set State=WARNING1")]
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
    /// List the states between two times, oldest first
    List {
        /// Partition key of the entity
        id: String,
        /// First time
        #[arg(long, value_name = "TIME")]
        from: Option<String>,
        /// Last time
        #[arg(long, value_name = "TIME")]
        to: Option<String>,
    },
}

impl State {
    pub(crate) async fn run(&self, connection: &Connection, output: &Output) -> Result<(), CliError> {
        let series = TimeSeries::new(connection.client.clone(), &connection.table);
        match self {
            Self::Put {
                id,
                time,
                replace,
                changes,
            } => {
                let time = parse(time.as_deref(), "--time")?;
                let time = time.ok_or_else(|| CliError::Usage("a state needs --time".to_owned()))?;
                let item = changes::item(changes)?;
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
                output.object(&shown(id, &state))
            }
            Self::List { id, from, to } => {
                let (from, to) = (parse(from.as_deref(), "--from")?, parse(to.as_deref(), "--to")?);
                let states = series
                    .between(&EntityId::new(id)?, from.as_ref(), to.as_ref(), connection.consistent)
                    .await?;
                output.objects(&states.iter().map(|state| shown(id, state)).collect::<Vec<_>>())
            }
        }
    }
}

fn shown(id: &str, state: &time_series::State) -> Value {
    json!({"ID": id, "Time": state.time.as_str(), "Attributes": plain::attributes(&state.attributes)})
}

fn parse(time: Option<&str>, option: &str) -> Result<Option<StateTime>, CliError> {
    time.map(StateTime::parse)
        .transpose()
        .map_err(|error| CliError::usage(option, error))
}
