//! States under their time.

use serde_json::{Value, json};
use shared::{
    domain::plain,
    time_series::{PutOutcome, State, StateTime, TimeSeries},
};

use crate::{
    args::{self, Changes},
    change,
    connection::{Connection, entity},
    error::CliError,
    output::Output,
};

pub(crate) async fn run(
    connection: &Connection,
    time: Option<&str>,
    command: &args::State,
    output: &Output,
) -> Result<(), CliError> {
    let series = TimeSeries::new(connection.client.clone(), &connection.table);
    match command {
        args::State::Put { id, replace, changes } => put(&series, id, time, *replace, changes, output).await,
        args::State::Latest { id } => {
            let state = series.latest(&entity(id)?, connection.consistent).await?;
            let state = state.ok_or_else(|| CliError::NotFound(format!("{id} has no states")))?;
            output.object(&shown(id, &state))
        }
        args::State::List { id, from, to } => {
            let (from, to) = (parse(from.as_deref(), "--from")?, parse(to.as_deref(), "--to")?);
            let states = series
                .between(&entity(id)?, from.as_ref(), to.as_ref(), connection.consistent)
                .await?;
            output.objects(&states.iter().map(|state| shown(id, state)).collect::<Vec<_>>())
        }
    }
}

async fn put(
    series: &TimeSeries,
    id: &str,
    time: Option<&str>,
    replace: bool,
    changes: &Changes,
    output: &Output,
) -> Result<(), CliError> {
    let time = parse(time, "--time")?.ok_or_else(|| CliError::Usage("a state needs --time".to_owned()))?;
    match series.put(&entity(id)?, &time, change::item(changes)?, replace).await? {
        PutOutcome::Put => output.object(&json!({"ID": id, "Time": time.as_str(), "Outcome": "Put"})),
        PutOutcome::Taken => Err(CliError::Conflict(format!(
            "{id} has a state at {time}; --replace replaces it"
        ))),
    }
}

fn shown(id: &str, state: &State) -> Value {
    json!({"ID": id, "Time": state.time.as_str(), "Attributes": plain::attributes(&state.attributes)})
}

fn parse(time: Option<&str>, flag: &str) -> Result<Option<StateTime>, CliError> {
    time.map(StateTime::parse)
        .transpose()
        .map_err(|error| CliError::usage(flag, error))
}
