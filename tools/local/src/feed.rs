//! A feed: JSON Lines of updates, each sent to writer-fn by Invoke.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::BufRead,
};

use futures::{StreamExt as _, stream};
use serde_json::Value;
use shared::domain::update::ID;
use thiserror::Error;

use crate::lambda::Lambda;

/// How many entities are fed at once.
const LANES: usize = 8;
/// The function that updates are sent to.
const WRITER: &str = "writer-fn";

/// One update, and the number of its line.
#[derive(Debug, Clone)]
pub struct Line {
    number: usize,
    entity: String,
    json: String,
}

/// How a feed went: how many updates had which outcome, and which were refused because they expected another version.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many updates had which outcome.
    pub outcomes: BTreeMap<String, usize>,
    /// The lines that met another version than they expected, with the function's words.
    pub conflicts: Vec<(usize, String)>,
}

/// Reads a whole feed, so that nothing is sent where a line is bad. Empty lines are skipped.
pub fn read(reader: impl BufRead) -> Result<Vec<Line>, FeedError> {
    let mut lines = Vec::new();
    for (index, line) in reader.lines().enumerate() {
        let number = index + 1;
        let json = line.map_err(|error| FeedError::Read { number, error })?;
        if json.trim().is_empty() {
            continue;
        }
        let update: Value = serde_json::from_str(&json).map_err(|_| FeedError::bad(number, "it is not JSON"))?;
        if !update.is_object() {
            return Err(FeedError::bad(number, "it is not a JSON object"));
        }
        // An envelope names its entity further in; its order is kept with that of all others without one.
        let entity = update.get(ID).and_then(Value::as_str).unwrap_or_default().to_owned();
        lines.push(Line { number, entity, json });
    }
    Ok(lines)
}

/// Sends the updates: those of one entity in their order, different entities side by side. Stops at the first that
/// writer-fn finds invalid.
pub async fn send(lambda: &Lambda, lines: Vec<Line>, progress: impl Fn()) -> Result<Summary, FeedError> {
    let mut lanes: HashMap<u64, Vec<Line>> = HashMap::new();
    for line in lines {
        let mut hasher = DefaultHasher::new();
        line.entity.hash(&mut hasher);
        lanes.entry(hasher.finish() % LANES as u64).or_default().push(line);
    }
    let progress = &progress;
    let lane = async |lane: Vec<Line>| -> Result<Vec<(usize, Outcome)>, FeedError> {
        let mut outcomes = Vec::new();
        for line in lane {
            outcomes.push((line.number, invoke(lambda, &line).await?));
            progress();
        }
        Ok(outcomes)
    };
    let mut summary = Summary::default();
    let mut lanes = stream::iter(lanes.into_values().map(lane)).buffer_unordered(LANES);
    while let Some(outcomes) = lanes.next().await {
        for (number, outcome) in outcomes? {
            *summary.outcomes.entry(outcome.name).or_default() += 1;
            summary
                .conflicts
                .extend(outcome.conflict.map(|message| (number, message)));
        }
    }
    summary.conflicts.sort();
    Ok(summary)
}

struct Outcome {
    name: String,
    conflict: Option<String>,
}

async fn invoke(lambda: &Lambda, line: &Line) -> Result<Outcome, FeedError> {
    let number = line.number;
    let Some(invoked) = lambda.invoke(WRITER, line.json.clone().into_bytes()).await else {
        return Err(FeedError::bad(number, "there is no function writer-fn"));
    };
    let answer: Value = serde_json::from_slice(&invoked.payload).unwrap_or_default();
    let member = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or("unknown").to_owned();
    if !invoked.is_error {
        // A batch has no outcome of its own.
        let name = answer
            .get("Outcome")
            .and_then(Value::as_str)
            .unwrap_or("Answered")
            .to_owned();
        return Ok(Outcome { name, conflict: None });
    }
    match member("errorType").as_str() {
        "VersionConflict" => Ok(Outcome {
            name: "VersionConflict".to_owned(),
            conflict: Some(member("errorMessage")),
        }),
        "InvalidEvent" => Err(FeedError::bad(number, &member("errorMessage"))),
        kind => Err(FeedError::Failed {
            number,
            message: format!("{kind}: {}", member("errorMessage")),
        }),
    }
}

/// Why a feed was not sent to its end.
#[derive(Debug, Error)]
pub enum FeedError {
    /// The file or the pipe.
    #[error("line {number} of the feed cannot be read: {error}")]
    Read {
        /// Which line.
        number: usize,
        /// Why.
        error: std::io::Error,
    },
    /// A line that is no update.
    #[error("line {number} of the feed is bad: {message}")]
    Bad {
        /// Which line.
        number: usize,
        /// Why.
        message: String,
    },
    /// An update that writer-fn could not write.
    #[error("line {number} of the feed could not be written: {message}")]
    Failed {
        /// Which line.
        number: usize,
        /// Why.
        message: String,
    },
}

impl FeedError {
    fn bad(number: usize, message: &str) -> Self {
        Self::Bad {
            number,
            message: message.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_line_is_named_by_its_number() {
        let check = |feed: &str, message: &str| assert_eq!(read(feed.as_bytes()).unwrap_err().to_string(), message);
        check("{\"ID\":\"a\"}\n\n{", "line 3 of the feed is bad: it is not JSON");
        check("[]", "line 1 of the feed is bad: it is not a JSON object");
        assert!(
            read(&b"{\"ID\":\"\xff\"}"[..])
                .unwrap_err()
                .to_string()
                .starts_with("line 1 of the feed cannot be read")
        );
    }

    #[test]
    fn empty_lines_and_carriage_returns_are_skipped() {
        let lines = read("\n{\"ID\":\"a\"}\r\n  \n{\"ID\":\"b\"}".as_bytes()).unwrap();
        let found: Vec<_> = lines.iter().map(|line| (line.number, line.entity.as_str())).collect();
        assert_eq!(found, [(2, "a"), (4, "b")]);
    }
}
