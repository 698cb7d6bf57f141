//! Feeds updates from JSON Lines to writer-fn. Updates of one entity keep their order; different entities run in parallel.

use std::{
    collections::BTreeMap,
    fmt::Display,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::BufRead,
    sync::Mutex,
};

use futures::{
    Stream, StreamExt as _,
    future::{try_join, try_join_all},
};
use serde_json::Value;
use shared::json;
use tokio::sync::mpsc;
use uuid::Uuid;
use writer_fn::update::ID;

use crate::{
    error::{LocalError, failed},
    lambda::{EXITED, InvokeOutput, Lambda, TIMED_OUT},
    lock,
};

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
pub fn read(reader: impl BufRead) -> impl Iterator<Item = Result<Line, LocalError>> {
    let lines = reader.lines().enumerate().map(|(index, line)| (index + 1, line));
    lines.filter_map(|(number, line)| match line {
        Ok(json) if json.trim().is_empty() => None,
        Ok(json) => Some(Line::parse(number, json)),
        Err(error) => Some(Err(failed(format!("line {number} of the feed cannot be read"))(error))),
    })
}

impl Line {
    fn parse(number: usize, json: String) -> Result<Self, LocalError> {
        let update = json::parse(&json).map_err(|_| bad(number, "it is not JSON"))?;
        if !update.is_object() {
            return Err(bad(number, "it is not a JSON object"));
        }
        // The entity of an envelope is nested: all lines without `ID` share a lane and keep their order.
        let entity = update.get(ID).and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(Self { number, entity, json })
    }
}

/// Reads standard input on a separate thread, because reads block.
pub fn standard_input() -> mpsc::Receiver<Result<Line, LocalError>> {
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
/// Returns the error of a line that cannot be read, is invalid, or could not be written. Lines after it may have been sent.
pub async fn send(
    lambda: &Lambda,
    mut lines: impl Stream<Item = Result<Line, LocalError>> + Unpin,
) -> Result<Summary, LocalError> {
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
    let summary = Mutex::new(Summary::default());
    let lanes = receivers.into_iter().map(async |mut lines: mpsc::Receiver<Line>| {
        while let Some(line) = lines.recv().await {
            let (name, conflict) = invoke(lambda, &line).await?;
            let mut summary = lock(&summary);
            *summary.outcomes.entry(name).or_default() += 1;
            summary.conflicts.extend(conflict.map(|message| (line.number, message)));
        }
        Ok(())
    });
    try_join(dispatch, try_join_all(lanes)).await?;
    let mut summary = std::mem::take(&mut *lock(&summary));
    summary.conflicts.sort();
    Ok(summary)
}

/// Sends a line, and returns the name of the outcome, and the message of a version conflict. If the function is killed or times out, the line is sent again, with the same request id: writer-fn then recognizes
/// an update that it has applied.
async fn invoke(lambda: &Lambda, line: &Line) -> Result<(String, Option<String>), LocalError> {
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
            None => return Err(bad(number, "there is no function writer-fn")),
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
        kind if kind == "InvalidEvent" => Err(bad(number, message)),
        kind => Err(LocalError::new(format!(
            "line {number} of the feed could not be written: {kind}: {message}"
        ))),
    }
}

fn response(output: &InvokeOutput) -> Value {
    json::parse_bytes(&output.payload).unwrap_or_default()
}

fn bad(number: usize, why: impl Display) -> LocalError {
    LocalError::new(format!("line {number} of the feed is bad: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(feed: &[u8]) -> Result<Vec<Line>, LocalError> {
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
