//! Run over the segments of a table, in parallel. With a checkpoint, an interrupted run resumes from the progress of each
//! segment, if it has the same options.
//!
//! A run states the next step in one segment, as a closure that changes the segment's progress. Everything else is here: parallel
//! segments, the state file, consumed capacity, and the sum of the counts.

pub mod entities;
pub mod progress;
pub mod scan;
mod state;
pub mod versions;

use std::{
    fs, io,
    iter::Sum,
    path::{Path, PathBuf},
};

use futures::{
    Stream, StreamExt as _, TryStreamExt as _,
    stream::{self, LocalBoxStream},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use crate::{
    error::OperationError,
    rate_limit::{Consumed, RateLimiter},
    segments::{
        progress::Progress,
        scan::Segment,
        state::{Identity, State},
    },
    time_index::source::Source,
};
use shared::dynamodb::Store;

/// Default number of segments.
const SEGMENTS: u32 = 4;

/// Default number of segments of the index, whose partitions are small.
const SEGMENTS_OF_INDEX: u32 = 16;

/// Table of a run, its rate, and the file of its state.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    pub store: &'a Store,
    pub pace: &'a RateLimiter,
    /// Number of segments, `None` for the default or the number of the checkpoint.
    pub segments: Option<u32>,
    pub checkpoint: Option<&'a Path>,
    /// Source of versions or their entities, for runs that can read the index.
    pub source: &'a Source,
}

impl<'a> Plan<'a> {
    /// Creates the plan of a run without a checkpoint, in the default number of segments.
    pub fn new(store: &'a Store, pace: &'a RateLimiter) -> Self {
        Self {
            store,
            pace,
            segments: None,
            checkpoint: None,
            source: &Source::Scan,
        }
    }
}

/// Index of a segment, the result of one step in it, and its progress after the step.
type Step<C, D, T> = (usize, T, Progress<C, D>);

/// Run over the segments of a table.
pub struct SegmentRun<C, D, T> {
    state: State<Progress<C, D>>,
    checkpoint: Option<PathBuf>,
    /// `true` if the caller deletes the state after the end.
    is_kept: bool,
    /// `true` if the caller has reported the result of the last step.
    is_reported: bool,
    steps: LocalBoxStream<'static, Result<Step<C, D, T>, OperationError>>,
    pace: RateLimiter,
}

impl<C, D, T> SegmentRun<C, D, T>
where
    Progress<C, D>: Serialize + DeserializeOwned + Clone + Default + 'static,
    for<'a> C: Sum<&'a C> + 'a,
    T: 'static,
{
    /// Begins a run, or resumes the one of the checkpoint, which must have the same command and options. `start` returns the work
    /// on a segment from its progress on: each call is one step, and returns `None` at the end.
    pub(crate) fn begin<W>(
        plan: Plan<'_>,
        command: &'static str,
        options: impl Serialize,
        start: impl Fn(Segment, &Progress<C, D>) -> W,
    ) -> Result<Self, OperationError>
    where
        W: AsyncFnMut(&mut Progress<C, D>) -> Result<Option<T>, OperationError> + 'static,
    {
        let mut options =
            serde_json::to_value(options).map_err(|error| OperationError::SaveCheckpoint(error.into()))?;
        let mut default = SEGMENTS;
        if let Source::Index(window) = plan.source {
            // The places of an index are not those of a scan.
            options = json!([options, format!("{window:?}")]);
            default = SEGMENTS_OF_INDEX;
        }
        let run = Identity {
            command: command.to_owned(),
            table: plan.store.latest_table().to_owned(),
            version_digits: plan.store.digits().to_string(),
            options,
        };
        let stored = match plan.checkpoint {
            Some(path) => State::load(path, &run, plan.segments)?,
            None => None,
        };
        let state = stored.unwrap_or_else(|| State {
            run,
            segments: vec![Progress::default(); plan.segments.unwrap_or(default) as usize],
            consumed: Consumed::default(),
        });
        plan.pace.resume(state.consumed);
        let total = u32::try_from(state.segments.len()).unwrap_or(u32::MAX);
        let segments = (0..total).zip(state.segments.clone()).map(|(index, progress)| {
            let work = start(Segment { index, total }, &progress);
            stream::try_unfold((work, progress), move |(mut work, mut progress)| async move {
                let found = work(&mut progress).await?;
                Ok(found.map(|found| ((index as usize, found, progress.clone()), (work, progress))))
            })
            .boxed_local()
        });
        Ok(Self {
            checkpoint: plan.checkpoint.map(Path::to_owned),
            is_kept: false,
            is_reported: false,
            steps: stream::select_all(segments).boxed_local(),
            pace: plan.pace.clone(),
            state,
        })
    }

    /// Waits for the next step of any segment. Returns `None` at the end. The state contains a step as soon as the caller
    /// has reported its result.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError`] if the step fails, or if the state cannot be written.
    pub async fn step(&mut self) -> Result<Option<T>, OperationError> {
        if self.is_reported {
            self.at_checkpoint(State::save)?;
        }
        let Some((index, found, progress)) = self.steps.try_next().await? else {
            if !self.is_kept {
                self.remove_checkpoint()?;
            }
            return Ok(None);
        };
        if let Some(segment) = self.state.segments.get_mut(index) {
            *segment = progress;
        }
        self.state.consumed = self.pace.consumed();
        self.is_reported = true;
        Ok(Some(found))
    }

    /// Returns the results of the steps. The state contains a step when the next one is asked for.
    pub fn into_stream(self) -> impl Stream<Item = Result<T, OperationError>> {
        stream::try_unfold(self, async |mut run| Ok(run.step().await?.map(|found| (found, run))))
    }

    /// Stores the state before the first step, for runs that begin only under a condition that their own writes change.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::SaveCheckpoint`] if the state cannot be written.
    pub fn save(&self) -> Result<(), OperationError> {
        self.at_checkpoint(State::save)
    }

    /// Keeps the state after the last step, for a caller that can fail afterwards.
    pub fn keep_checkpoint(&mut self) {
        self.is_kept = true;
    }

    /// Deletes the state.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError::SaveCheckpoint`] if it cannot be deleted.
    pub fn remove_checkpoint(&self) -> Result<(), OperationError> {
        self.at_checkpoint(|_, path| fs::remove_file(path))
    }

    /// Changes the file of the state, if there is one.
    fn at_checkpoint(
        &self,
        change: impl Fn(&State<Progress<C, D>>, &Path) -> io::Result<()>,
    ) -> Result<(), OperationError> {
        match self.checkpoint.as_ref().map(|path| change(&self.state, path)) {
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(OperationError::SaveCheckpoint(error)),
            _ => Ok(()),
        }
    }

    /// Returns the counts so far, including earlier runs.
    pub fn counts(&self) -> C {
        self.state.segments.iter().map(|progress| &progress.counts).sum()
    }

    /// Returns the consumed capacity so far, including earlier runs.
    pub fn consumed(&self) -> Consumed {
        self.state.consumed
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::{Client, Config, config::BehaviorVersion};
    use shared::domain::keys::VersionDigits;

    use super::*;
    use crate::error::Kind;

    /// Starts a run that counts up to a number, and fails after it if it is below 51.
    fn run(path: &Path, options: u64, end: u64) -> Result<SegmentRun<u64, (), u64>, OperationError> {
        let config = Config::builder().behavior_version(BehaviorVersion::latest()).build();
        let store = Store::new(Client::from_conf(config), "Table", VersionDigits::default());
        let plan = Plan {
            store: &store,
            pace: &RateLimiter::unlimited(),
            segments: Some(1),
            checkpoint: Some(path),
            source: &Source::Scan,
        };
        SegmentRun::begin(plan, "count", options, |_, _| {
            async move |progress: &mut Progress<u64>| {
                if progress.counts == end {
                    let failed = OperationError::Retryable("the request failed".to_owned());
                    return if end < 51 { Err(failed) } else { Ok(None) };
                }
                progress.counts += 1;
                Ok(Some(progress.counts))
            }
        })
    }

    #[tokio::test]
    async fn a_failed_run_resumes_after_its_last_step() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        let mut failing = run(&path, 1, 50).unwrap();
        for number in 1..=50 {
            assert_eq!(failing.step().await.unwrap(), Some(number));
        }
        assert_eq!(failing.step().await.unwrap_err().kind(), Kind::Unavailable);
        let other = run(&path, 2, 51).err().unwrap();
        assert_eq!(
            other.to_string(),
            "the checkpoint belongs to another run: count of Table with 1 segments and other options"
        );
        let mut resumed = run(&path, 1, 51).unwrap();
        assert_eq!(resumed.step().await.unwrap(), Some(51));
        assert_eq!(resumed.counts(), 51);
        assert_eq!(resumed.step().await.unwrap(), None);
        assert!(!path.exists());
    }
}
