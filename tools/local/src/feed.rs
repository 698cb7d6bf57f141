//! Feeds updates from JSON Lines to writer-fn. Updates of one entity keep their order; different entities run in parallel.

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
use shared::json;
use thiserror::Error;
use tokio::sync::mpsc;
use uuid::Uuid;
use writer_fn::update::ID;

use crate::lambda::{EXITED, InvokeOutput, Lambda, TIMED_OUT};

/// Number of parallel lanes. Each entity belongs to one lane.
const LANES: usize = 8;
/// Maximum number of lines queued for a lane.
const MAX_QUEUED_LINES: usize = 64;
/// Maximum number of times that a line is sent.
const MAX_ATTEMPTS: u32 = 3;
/// The function that receives the updates.
pub const WRITER: &str = "writer-fn";

#[derive(Debug, Clone)]
pub struct Line {
    number: usize,
    entity: String,
    json: String,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub outcomes: BTreeMap<String, usize>,
    /// Line numbers and messages of version conflicts.
    pub conflicts: Vec<(usize, String)>,
}

/// Parses a feed line by line. Empty lines are skipped.
pub fn read(reader: impl BufRead) -> impl Iterator<Item = Result<Line, FeedError>> {
    let lines = reader.lines().enumerate().map(|(index, line)| (index + 1, line));
    lines.filter_map(|(number, line)| match line {
        Ok(json) if json.trim().is_empty() => None,
        Ok(json) => Some(Line::parse(number, json)),
        Err(error) => Some(Err(FeedError::Read(number, error))),
    })
}

impl Line {
    fn parse(number: usize, json: String) -> Result<Self, FeedError> {
        let update = json::parse(&json).map_err(|_| FeedError::Bad(number, "it is not JSON".to_owned()))?;
        if !update.is_object() {
            return Err(FeedError::Bad(number, "it is not a JSON object".to_owned()));
        }
        // The entity of an envelope is nested: all lines without `ID` share a lane and keep their order.
        let entity = update.get(ID).and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Self { number, entity, json })
    }
}

/// Reads standard input on a separate thread, because reads block.
pub fn standard_input() -> mpsc::Receiver<Result<Line, FeedError>> {
    let (send, lines) = mpsc::channel(MAX_QUEUED_LINES);
    std::thread::spawn(move || {
        // The receiver is dropped if the feed ends early.
        let _ = read(std::io::stdin().lock()).try_for_each(|line| send.blocking_send(line));
    });
    lines
}

/// Sends a feed to writer-fn.
///
/// # Errors
///
/// Returns the error of a line that cannot be read ([`FeedError::Read`]), is invalid ([`FeedError::Bad`]), or could not be written
/// ([`FeedError::Failed`]). Lines after it may have been sent.
pub async fn send(
    lambda: &Lambda,
    mut lines: impl Stream<Item = Result<Line, FeedError>> + Unpin,
) -> Result<Summary, FeedError> {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..LANES).map(|_| mpsc::channel(MAX_QUEUED_LINES)).unzip();
    let dispatch = async move {
        while let Some(line) = lines.next().await.transpose()? {
            let mut hasher = DefaultHasher::new();
            line.entity.hash(&mut hasher);
            let lane = usize::try_from(hasher.finish() % LANES as u64).unwrap_or_default();
            // Fails only if another lane has failed and the feed ends.
            let _ = senders[lane].send(line).await;
        }
        Ok(())
    };
    let lanes = receivers.into_iter().map(async |mut lines: mpsc::Receiver<Line>| {
        let mut outcomes = Vec::new();
        while let Some(line) = lines.recv().await {
            outcomes.push((line.number, invoke(lambda, &line).await?));
        }
        Ok(outcomes)
    });
    let ((), lanes) = try_join(dispatch, try_join_all(lanes)).await?;
    let mut summary = Summary::default();
    for (number, (name, conflict)) in lanes.into_iter().flatten() {
        *summary.outcomes.entry(name).or_default() += 1;
        summary.conflicts.extend(conflict.map(|message| (number, message)));
    }
    summary.conflicts.sort();
    Ok(summary)
}

/// Name of the outcome, and the message of a version conflict.
type Outcome = (String, Option<String>);

/// Sends a line. If the function is killed or times out, the line is sent again, with the same request id: writer-fn then recognizes
/// an update that it has applied.
async fn invoke(lambda: &Lambda, line: &Line) -> Result<Outcome, FeedError> {
    let number = line.number;
    let request_id = Uuid::new_v4().to_string();
    let mut attempt = 1;
    let output = loop {
        let is_last = move |output: &InvokeOutput| {
            let kind = &response(output)["errorType"];
            attempt == MAX_ATTEMPTS || !output.is_error || (kind != EXITED && kind != TIMED_OUT)
        };
        let payload = line.json.clone().into_bytes();
        let output = lambda.invoke_as(request_id.clone(), WRITER, payload, is_last).await;
        match output {
            None => return Err(FeedError::Bad(number, "there is no function writer-fn".to_owned())),
            Some(output) if is_last(&output) => break output,
            Some(_) => attempt += 1,
        }
    };
    let response = response(&output);
    let member = |name: &str, default: &str| response[name].as_str().unwrap_or(default).to_owned();
    let message = member("errorMessage", "unknown");
    match member("errorType", "unknown") {
        // The response to a batch has no outcome.
        _ if !output.is_error => Ok((member("Outcome", "Answered"), None)),
        kind if kind == "VersionConflict" => Ok((kind, Some(message))),
        kind if kind == "InvalidEvent" => Err(FeedError::Bad(number, message)),
        kind => Err(FeedError::Failed(number, format!("{kind}: {message}"))),
    }
}

fn response(output: &InvokeOutput) -> Value {
    json::parse_bytes(&output.payload).unwrap_or_default()
}

#[derive(Debug, Error)]
pub enum FeedError {
    #[error("line {0} of the feed cannot be read")]
    Read(usize, #[source] std::io::Error),
    #[error("line {0} of the feed is bad: {1}")]
    Bad(usize, String),
    #[error("line {0} of the feed could not be written: {1}")]
    Failed(usize, String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(feed: &[u8]) -> Result<Vec<Line>, FeedError> {
        read(feed).collect()
    }

    #[test]
    fn an_invalid_line_is_reported_with_its_number() {
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
