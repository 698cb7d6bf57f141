//! A feed: JSON Lines of updates, each sent to writer-fn by Invoke.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::BufRead,
};

use futures::{
    Stream, StreamExt as _,
    future::{try_join, try_join_all},
};
use serde_json::Value;
use shared::domain::update::ID;
use thiserror::Error;
use tokio::sync::mpsc;

use crate::lambda::Lambda;

/// How many entities are fed at once.
const LANES: usize = 8;
/// How many lines wait for a lane.
const AHEAD: usize = 64;
/// The function that updates are sent to.
pub const WRITER: &str = "writer-fn";

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

/// Reads a feed, line by line. Empty lines are skipped.
pub fn read(reader: impl BufRead) -> impl Iterator<Item = Result<Line, FeedError>> {
    let lines = reader.lines().enumerate().map(|(index, line)| (index + 1, line));
    lines.filter_map(|(number, line)| match line {
        Ok(json) if json.trim().is_empty() => None,
        Ok(json) => Some(Line::parse(number, json)),
        Err(error) => Some(Err(FeedError::Read { number, error })),
    })
}

impl Line {
    fn parse(number: usize, json: String) -> Result<Self, FeedError> {
        let update: Value = serde_json::from_str(&json).map_err(|_| FeedError::bad(number, "it is not JSON"))?;
        if !update.is_object() {
            return Err(FeedError::bad(number, "it is not a JSON object"));
        }
        // An envelope names its entity further in; its order is kept with that of all others without one.
        let entity = update.get(ID).and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Self { number, entity, json })
    }
}

/// Reads standard input on a thread of its own: whoever writes there may take their time.
pub fn standard_input() -> mpsc::Receiver<Result<Line, FeedError>> {
    let (send, lines) = mpsc::channel(AHEAD);
    std::thread::spawn(move || {
        // The feed may end early, and then nobody wants the rest.
        let _ = read(std::io::stdin().lock()).try_for_each(|line| send.blocking_send(line));
    });
    lines
}

/// Sends the updates as they come: those of one entity in their order, different entities side by side. Stops at the
/// first line that is bad, or that writer-fn finds invalid.
pub async fn send(
    lambda: &Lambda,
    mut lines: impl Stream<Item = Result<Line, FeedError>> + Unpin,
    progress: impl Fn(),
) -> Result<Summary, FeedError> {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..LANES).map(|_| mpsc::channel(AHEAD)).unzip();
    let deal_out = async move {
        while let Some(line) = lines.next().await.transpose()? {
            let mut hasher = DefaultHasher::new();
            line.entity.hash(&mut hasher);
            let lane = usize::try_from(hasher.finish() % LANES as u64).unwrap_or_default();
            // A lane ends before this only where the whole feed does.
            let _ = senders[lane].send(line).await;
        }
        Ok(())
    };
    let progress = &progress;
    let lanes = receivers.into_iter().map(async |mut lines: mpsc::Receiver<Line>| {
        let mut outcomes = Vec::new();
        while let Some(line) = lines.recv().await {
            outcomes.push((line.number, invoke(lambda, &line).await?));
            progress();
        }
        Ok(outcomes)
    });
    let ((), lanes) = try_join(deal_out, try_join_all(lanes)).await?;
    let mut summary = Summary::default();
    for (number, outcome) in lanes.into_iter().flatten() {
        *summary.outcomes.entry(outcome.name).or_default() += 1;
        summary
            .conflicts
            .extend(outcome.conflict.map(|message| (number, message)));
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

    fn all(feed: &[u8]) -> Result<Vec<Line>, FeedError> {
        read(feed).collect()
    }

    #[test]
    fn a_bad_line_is_named_by_its_number() {
        let check = |feed: &str, message: &str| assert_eq!(all(feed.as_bytes()).unwrap_err().to_string(), message);
        check("{\"ID\":\"a\"}\n\n{", "line 3 of the feed is bad: it is not JSON");
        check("[]", "line 1 of the feed is bad: it is not a JSON object");
        let error = all(b"{\"ID\":\"\xff\"}").unwrap_err().to_string();
        assert!(error.starts_with("line 1 of the feed cannot be read"), "{error}");
    }

    #[test]
    fn empty_lines_and_carriage_returns_are_skipped() {
        let lines = all(b"\n{\"ID\":\"a\"}\r\n  \n{\"ID\":\"b\"}").unwrap();
        let found: Vec<_> = lines.iter().map(|line| (line.number, line.entity.as_str())).collect();
        assert_eq!(found, [(2, "a"), (4, "b")]);
    }
}
