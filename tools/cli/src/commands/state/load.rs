//! `vzero admin state load`: parses the whole file, then stores its states.

use std::path::PathBuf;

use operations::progress::Progress as _;
use patterns::time_series::{LoadError, State, StateTime, TimeSeries, check_states};
use serde_json::{Map, Value, json};
use shared::{
    domain::{entity::EntityId, names},
    json::{self, InvalidJson},
};
use writer_fn::update::ID;

use crate::{changes, confirmation::Confirmation, error::CliError, input, output::Output, progress::Bar};

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Load {
    /// File with one JSON object a line, or with one JSON array of objects; - for standard input
    file: PathBuf,
    #[command(flatten)]
    confirmation: Confirmation,
}

const HELP: &str = r#"Examples:
  vzero admin state load states.jsonl --dry-run
  vzero admin state list Equipment#1 --output json | vzero --table Copy admin state load - --yes
Each object is a state: {"ID": "Equipment#1", "Time": "2023-10-03T12:32:00", "State": "NORMAL"},
or an item with its keys: {"PK": "Equipment#1", "SK": "2023-10-03T12:32:00", "State": "NORMAL"}.
The file is checked before the first write: one invalid object, or two objects with the same key, and nothing is stored.
An existing state of the same time is replaced, as with state put --replace, so a load can be repeated."#;

/// Name of the attributes in the output of `state list`.
const ATTRIBUTES: &str = "Attributes";

impl Load {
    pub(super) async fn run(&self, series: &TimeSeries, table: &str, output: &Output) -> Result<(), CliError> {
        self.confirmation.check()?;
        let file = self.file.display();
        let text = input::text_of(&self.file)?;
        let (positions, states) = parse(&text).map_err(|why| CliError::Usage(format!("{file}: {why}")))?;
        let (count, counter) = (states.len(), Bar::counter("states stored", 0));
        let question = format!("Put {count} states into {table}, and replace existing states of the same time?");
        let loaded = match check_states(&states) {
            Ok(()) if self.confirmation.ask(&question)? => series.load(&states, |stored| counter.at(stored)).await,
            Ok(()) => return output.object(&json!({"Loaded": count, "DryRun": true})),
            Err(error) => Err(error),
        };
        drop(counter);
        let at = |index: usize| shown(positions.get(index).copied().unwrap_or_default());
        match loaded {
            Ok(stored) => output.object(&json!({"Loaded": stored})),
            Err(LoadError::Twice { first, second }) => Err(CliError::Usage(format!(
                "{file}: {} and {} have the same entity and time",
                at(first),
                at(second)
            ))),
            Err(LoadError::Invalid { index, source }) => {
                Err(CliError::Usage(format!("{file}: {}: {source}", at(index))))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Place in a file, counted from 1: the line, and the byte in the line.
type Position = (usize, usize);

fn shown(position: Position) -> String {
    match position {
        (line, 0 | 1) => format!("line {line}"),
        (line, column) => format!("line {line}, column {column}"),
    }
}

/// States of a file, and the position of each.
type Parsed = (Vec<Position>, Vec<(EntityId, State)>);

/// Returns the states with their positions, or the first error and the number of all errors. Objects after a syntax error are unknown.
fn parse(text: &str) -> Result<Parsed, String> {
    let (mut positions, mut states, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    let (objects, invalid) = match text.trim_start().starts_with('[') {
        true => json::elements(text).map_or_else(|error| (Vec::new(), Some(error)), |objects| (objects, None)),
        false => json::documents(text),
    };
    let (mut position, mut rest) = ((1, 1), text);
    for object in objects {
        let (passed, after) = rest.split_at(object.as_ptr().addr() - rest.as_ptr().addr());
        position.0 += passed.matches('\n').count();
        position.1 = match passed.rfind('\n') {
            Some(newline) => passed.len() - newline,
            None => position.1 + passed.len(),
        };
        rest = after;
        match state(object) {
            Ok(state) => {
                states.push(state);
                positions.push(position);
            }
            Err(why) => errors.push((position, why)),
        }
    }
    if let Some(InvalidJson { reason, line, column }) = invalid {
        errors.push(((line, column), reason.to_string()));
    }
    errors.sort_by_key(|(position, _)| *position);
    match errors.as_slice() {
        [] => Ok((positions, states)),
        [(position, why)] => Err(format!("{}: {why}", shown(*position))),
        [(position, why), ..] => Err(format!("{}: {why}; {} errors in total", shown(*position), errors.len())),
    }
}

/// Parses one state: with `ID` and `Time`, as `state list` prints it, or with the keys of its item.
fn state(object: &str) -> Result<(EntityId, State), String> {
    let value = json::parse(object).map_err(|error| error.reason.to_string())?;
    let Value::Object(mut members) = value else {
        return Err("it is not a JSON object".to_owned());
    };
    let has_keys = members.contains_key(names::PK) || members.contains_key(names::SK);
    let [id, time] = if has_keys {
        [names::PK, names::SK]
    } else {
        [ID, names::TIME]
    };
    let entity = EntityId::new(take(&mut members, id)?).map_err(|error| format!("{id}: {error}"))?;
    let at = StateTime::parse(&take(&mut members, time)?).map_err(|error| format!("{time}: {error}"))?;
    // As `state list` prints it.
    if !has_keys
        && members.len() == 1
        && let Some(Value::Object(attributes)) = members.get_mut(ATTRIBUTES)
    {
        members = std::mem::take(attributes);
    }
    let attributes = changes::item(members).map_err(|error| error.to_string())?;
    Ok((entity, State { time: at, attributes }))
}

fn take(members: &mut Map<String, Value>, name: &str) -> Result<String, String> {
    match members.remove(name) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(format!("{name} is not a string")),
        None => Err(format!("{name} is missing")),
    }
}
