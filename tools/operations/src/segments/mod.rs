//! Run over the segments of a table, in parallel. With a checkpoint, an interrupted run resumes from the progress of each
//! segment, if it has the same options.

pub mod entities;
pub mod scan;

use std::path::Path;

use crate::{
    rate_limit::{Consumed, RateLimiter},
    segments::scan::Segment,
};
use futures::{
    Stream, StreamExt as _, TryStreamExt as _,
    stream::{self, LocalBoxStream},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{checkpoint::Checkpoint, connection::Connection, error::OperationError};

/// Default number of segments.
pub const SEGMENTS: u32 = 4;

/// Processes segments in parallel, each from its progress. Yields the index of the segment with each step.
pub(crate) fn in_parallel<P, T, E, S>(
    segments: Vec<P>,
    start: impl Fn(Segment, P) -> S,
) -> LocalBoxStream<'static, Result<(usize, T), E>>
where
    T: 'static,
    E: 'static,
    S: Stream<Item = Result<T, E>> + 'static,
{
    let total = u32::try_from(segments.len()).unwrap_or(u32::MAX);
    let segments = (0..total).zip(segments).map(|(index, progress)| {
        let steps = start(Segment { index, total }, progress);
        steps.map_ok(move |step| (index as usize, step)).boxed_local()
    });
    stream::select_all(segments).boxed_local()
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct State<O, P> {
    command: String,
    table: String,
    version_digits: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    options: Option<O>,
    segments: Vec<P>,
    read_units: f64,
    #[serde(default)]
    write_units: f64,
}

/// Identity of a run, and the file of its state.
pub(crate) struct Plan<'a, O> {
    pub command: &'static str,
    pub connection: &'a Connection,
    /// Options that a resumed run must have as well.
    pub options: Option<O>,
    /// Number of segments, `None` for the default or the number of the checkpoint.
    pub segments: Option<u32>,
    pub checkpoint: Option<&'a Path>,
}

/// Result of one step in a segment, and the progress of the segment after it.
pub(crate) type Step<T, P> = (usize, (T, P));

pub(crate) struct SegmentRun<O, P, T> {
    state: State<O, P>,
    checkpoint: Checkpoint,
    /// `true` if the caller has reported the result of the last step.
    is_reported: bool,
    steps: LocalBoxStream<'static, Result<Step<T, P>, OperationError>>,
    pace: RateLimiter,
    consumed_before: Consumed,
}

impl<O, P, T> SegmentRun<O, P, T>
where
    O: Serialize + DeserializeOwned + PartialEq,
    P: Serialize + DeserializeOwned + Clone + Default + 'static,
    T: 'static,
{
    /// Begins a run, or resumes the one of the checkpoint. `start` returns the steps of a segment from its progress.
    pub(crate) fn new<E, S>(
        plan: Plan<'_, O>,
        pace: &RateLimiter,
        start: impl Fn(Segment, P) -> S,
    ) -> Result<Self, OperationError>
    where
        E: 'static,
        S: Stream<Item = Result<(T, P), E>> + 'static,
        OperationError: From<E>,
    {
        let checkpoint = Checkpoint::new(plan.checkpoint);
        let state = begin(plan, &checkpoint)?;
        let steps = in_parallel(state.segments.clone(), start);
        Ok(Self {
            checkpoint,
            is_reported: false,
            steps: steps.map_err(OperationError::from).boxed_local(),
            pace: pace.clone(),
            consumed_before: Consumed {
                read: state.read_units,
                write: state.write_units,
            },
            state,
        })
    }

    /// Waits for the next step of any segment. Returns `None` at the end. The state contains a step as soon as the caller
    /// has reported its result.
    pub(crate) async fn step(&mut self) -> Result<Option<T>, OperationError> {
        if self.is_reported {
            self.checkpoint.save(&self.state)?;
        }
        loop {
            let next = match self.checkpoint.due() {
                Some(due) => tokio::time::timeout_at(due, self.steps.try_next()).await,
                None => Ok(self.steps.try_next().await),
            };
            let next = match next {
                Err(_) => {
                    self.checkpoint.save(&self.state)?;
                    continue;
                }
                Ok(Err(error)) => {
                    self.checkpoint.save_deferred(&self.state)?;
                    return Err(error);
                }
                Ok(Ok(next)) => next,
            };
            let Some((index, (result, progress))) = next else {
                self.checkpoint.remove()?;
                return Ok(None);
            };
            if let Some(segment) = self.state.segments.get_mut(index) {
                *segment = progress;
            }
            let Consumed { read, write } = self.pace.consumed();
            self.state.read_units = self.consumed_before.read + read;
            self.state.write_units = self.consumed_before.write + write;
            self.is_reported = true;
            return Ok(Some(result));
        }
    }

    /// Returns the progress of each segment.
    pub(crate) fn progress(&self) -> &[P] {
        &self.state.segments
    }

    /// Returns the consumed capacity so far, including earlier runs.
    pub(crate) fn consumed(&self) -> Consumed {
        Consumed {
            read: self.state.read_units,
            write: self.state.write_units,
        }
    }
}

fn begin<O, P>(plan: Plan<'_, O>, checkpoint: &Checkpoint) -> Result<State<O, P>, OperationError>
where
    O: DeserializeOwned + PartialEq,
    P: DeserializeOwned + Clone + Default,
{
    let digits = plan.connection.store.digits().to_string();
    // The progress and the options of another command have another form.
    if let Some(other) = checkpoint.load::<Command>()?
        && other.command != plan.command
    {
        return Err(OperationError::OtherRun(format!(
            "{} of {}",
            other.command, other.table
        )));
    }
    let Some(state) = checkpoint.load::<State<O, P>>()? else {
        return Ok(State {
            command: plan.command.to_owned(),
            table: plan.connection.table.clone(),
            version_digits: digits,
            options: plan.options,
            segments: vec![P::default(); plan.segments.unwrap_or(SEGMENTS) as usize],
            read_units: 0.0,
            write_units: 0.0,
        });
    };
    let segments = state.segments.len();
    let is_same_table = state.table == plan.connection.table && state.version_digits == digits;
    let is_same_number = plan.segments.is_none_or(|wanted| wanted as usize == segments);
    if !is_same_table || !is_same_number {
        let (command, table) = (state.command, state.table);
        return Err(OperationError::OtherRun(format!(
            "{command} of {table} with {segments} segments"
        )));
    }
    if state.options != plan.options {
        let (command, table) = (state.command, state.table);
        return Err(OperationError::OtherRun(format!(
            "{command} of {table} with other options"
        )));
    }
    Ok(state)
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Command {
    command: String,
    table: String,
}

#[cfg(test)]
mod tests {
    use aws_config::{BehaviorVersion, SdkConfig};
    use aws_sdk_dynamodb::Client;
    use shared::domain::keys::VersionDigits;

    use super::*;
    use crate::error::Kind;

    type Steps = Vec<Result<u64, OperationError>>;

    fn run(
        path: &Path,
        options: u64,
        steps: impl Fn(u64) -> Steps,
    ) -> Result<SegmentRun<u64, u64, u64>, OperationError> {
        let sdk = SdkConfig::builder().behavior_version(BehaviorVersion::latest()).build();
        let client = Client::new(&sdk);
        let connection = Connection::new(&client, sdk, "http://127.0.0.1:1", "Table", VersionDigits::default());
        let plan = Plan {
            command: "count",
            connection: &connection,
            options: Some(options),
            segments: Some(1),
            checkpoint: Some(path),
        };
        SegmentRun::new(plan, &RateLimiter::unlimited(), |_, progress| {
            stream::iter(steps(progress)).map_ok(|number| (number, number))
        })
    }

    fn unavailable() -> OperationError {
        OperationError::Retryable("the request failed".to_owned())
    }

    #[tokio::test]
    async fn a_failed_run_resumes_after_its_last_step() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        // Many quick steps: most writes of the state are deferred.
        let mut failing = run(&path, 1, |_| (1..=500).map(Ok).chain([Err(unavailable())]).collect()).unwrap();
        for number in 1..=500 {
            assert_eq!(failing.step().await.unwrap(), Some(number));
        }
        assert_eq!(failing.step().await.unwrap_err().kind(), Kind::Unavailable);
        let other = run(&path, 2, |_| Vec::new()).err().unwrap();
        assert_eq!(
            other.to_string(),
            "the checkpoint belongs to another run: count of Table with other options"
        );
        let mut resumed = run(&path, 1, |progress| vec![Ok(progress + 1)]).unwrap();
        assert_eq!(resumed.step().await.unwrap(), Some(501));
        assert_eq!(resumed.progress(), [501]);
        assert_eq!(resumed.step().await.unwrap(), None);
        assert!(!path.exists());
    }
}
