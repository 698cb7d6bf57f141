//! Run over the segments of a table, in parallel. With a checkpoint, an interrupted run resumes from the progress of each
//! segment, if it has the same options.
//!
//! A run states what it does with one segment, as `Work`. Everything else is here: parallel segments, the state file, consumed
//! capacity, and the sum of the counts.

pub mod entities;
pub mod scan;

use std::{iter::Sum, path::Path};

use futures::{
    StreamExt as _, TryStreamExt as _,
    stream::{self, LocalBoxStream},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    checkpoint::Checkpoint,
    error::OperationError,
    rate_limit::{Consumed, RateLimiter},
    segments::scan::Segment,
};
use shared::dynamodb::Store;

/// Defines counts that are summed over the segments.
macro_rules! counts {
    ($(#[$doc:meta])* pub struct Counts { $($(#[$of_field:meta])* pub $field:ident: u64,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
        #[serde(rename_all = "PascalCase")]
        pub struct Counts {
            $($(#[$of_field])* pub $field: u64,)*
        }

        impl<'a> std::iter::Sum<&'a Self> for Counts {
            fn sum<I: Iterator<Item = &'a Self>>(all: I) -> Self {
                all.fold(Self::default(), |sum, counts| Self {
                    $($field: sum.$field + counts.$field,)*
                })
            }
        }
    };
}
pub(crate) use counts;

/// Default number of segments.
pub const SEGMENTS: u32 = 4;

/// Work on one segment, step by step.
pub(crate) trait Work: 'static {
    type Progress: Clone + 'static;
    /// Result of one step.
    type Found: 'static;

    /// Returns the progress after the last step.
    fn progress(&self) -> &Self::Progress;

    /// Executes the next step, `None` at the end.
    async fn step(&mut self) -> Result<Option<Self::Found>, OperationError>;
}

/// Progress of a segment: the state needed to continue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Progress<K, C, D = ()> {
    /// Key after which the segment continues: of the last item that was processed.
    pub(crate) after: Option<K>,
    /// `true` if the whole segment was read.
    #[serde(alias = "Read")]
    pub(crate) done: bool,
    /// What is decided later.
    #[serde(rename = "Missing", default)]
    pub(crate) deferred: D,
    /// Counts so far.
    pub counts: C,
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

impl<O, P> State<O, P> {
    fn consumed(&self) -> Consumed {
        Consumed {
            read: self.read_units,
            write: self.write_units,
        }
    }
}

/// Identity of a run, its limits, and the file of its state.
pub(crate) struct Plan<'a, O> {
    pub command: &'static str,
    pub store: &'a Store,
    /// Options that a resumed run must have as well.
    pub options: Option<O>,
    /// Number of segments, `None` for the default or the number of the checkpoint.
    pub segments: Option<u32>,
    pub checkpoint: Option<&'a Path>,
    pub pace: &'a RateLimiter,
}

/// Run over the segments of a table.
pub struct SegmentRun<O, P, T> {
    state: State<O, P>,
    checkpoint: Checkpoint,
    /// `true` if the caller has reported the result of the last step.
    is_reported: bool,
    /// Index of a segment, the result of one step in it, and its progress after the step.
    steps: LocalBoxStream<'static, Result<(usize, T, P), OperationError>>,
    pace: RateLimiter,
    consumed_before: Consumed,
}

impl<O, K, C, D, T> SegmentRun<O, Progress<K, C, D>, T>
where
    O: Serialize + DeserializeOwned + PartialEq,
    Progress<K, C, D>: Serialize + DeserializeOwned + Clone + Default + 'static,
    for<'a> C: Sum<&'a C> + 'a,
    T: 'static,
{
    /// Begins a run, or resumes the one of the checkpoint.
    pub(crate) fn begin<W>(plan: Plan<'_, O>, start: impl Fn(Segment, W::Progress) -> W) -> Result<Self, OperationError>
    where
        W: Work<Progress = Progress<K, C, D>, Found = T>,
    {
        let checkpoint = Checkpoint(plan.checkpoint.map(Path::to_owned));
        let pace = plan.pace.clone();
        let state = begin(plan, &checkpoint)?;
        let total = u32::try_from(state.segments.len()).unwrap_or(u32::MAX);
        let segments = (0..total).zip(state.segments.clone()).map(|(index, progress)| {
            let work = start(Segment { index, total }, progress);
            stream::try_unfold(work, move |mut work| async move {
                let found = work.step().await?;
                Ok(found.map(|found| ((index as usize, found, work.progress().clone()), work)))
            })
            .boxed_local()
        });
        Ok(Self {
            checkpoint,
            is_reported: false,
            steps: stream::select_all(segments).boxed_local(),
            pace,
            consumed_before: state.consumed(),
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
            self.checkpoint.save(&self.state)?;
        }
        let Some((index, found, progress)) = self.steps.try_next().await? else {
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
        Ok(Some(found))
    }

    /// Returns the counts so far, including earlier runs.
    pub fn counts(&self) -> C {
        self.state.segments.iter().map(|progress| &progress.counts).sum()
    }

    /// Returns the consumed capacity so far, including earlier runs.
    pub fn consumed(&self) -> Consumed {
        self.state.consumed()
    }
}

fn begin<O, P>(plan: Plan<'_, O>, checkpoint: &Checkpoint) -> Result<State<O, P>, OperationError>
where
    O: DeserializeOwned + PartialEq,
    P: DeserializeOwned + Clone + Default,
{
    let other = |command, table, with: &str| Err(OperationError::OtherRun(format!("{command} of {table}{with}")));
    // The progress and the options of another command have another form.
    if let Some(Command { command, table }) = checkpoint.load()?
        && command != plan.command
    {
        return other(command, table, "");
    }
    let digits = plan.store.digits().to_string();
    let Some(state) = checkpoint.load::<State<O, P>>()? else {
        return Ok(State {
            command: plan.command.to_owned(),
            table: plan.store.latest_table().to_owned(),
            version_digits: digits,
            options: plan.options,
            segments: vec![P::default(); plan.segments.unwrap_or(SEGMENTS) as usize],
            read_units: 0.0,
            write_units: 0.0,
        });
    };
    let segments = state.segments.len();
    let is_same_table = state.table == plan.store.latest_table() && state.version_digits == digits;
    let is_same_number = plan.segments.is_none_or(|wanted| wanted as usize == segments);
    if !is_same_table || !is_same_number {
        return other(state.command, state.table, &format!(" with {segments} segments"));
    }
    if state.options != plan.options {
        return other(state.command, state.table, " with other options");
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
    use aws_sdk_dynamodb::{Client, Config, config::BehaviorVersion};
    use shared::domain::keys::VersionDigits;

    use super::*;
    use crate::error::Kind;

    type Steps = Vec<Result<u64, OperationError>>;

    /// Takes prepared steps, each of which is a number.
    struct Numbers(std::vec::IntoIter<Result<u64, OperationError>>, Progress<u64, Sum>);

    #[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
    struct Sum(u64);

    impl<'a> std::iter::Sum<&'a Sum> for Sum {
        fn sum<I: Iterator<Item = &'a Self>>(all: I) -> Self {
            Self(all.map(|sum| sum.0).sum())
        }
    }

    impl Work for Numbers {
        type Progress = Progress<u64, Sum>;
        type Found = u64;

        fn progress(&self) -> &Self::Progress {
            &self.1
        }

        async fn step(&mut self) -> Result<Option<u64>, OperationError> {
            let number = self.0.next().transpose()?;
            self.1.counts = number.map_or(self.1.counts, Sum);
            Ok(number)
        }
    }

    fn run(
        path: &Path,
        options: u64,
        steps: impl Fn(u64) -> Steps,
    ) -> Result<SegmentRun<u64, Progress<u64, Sum>, u64>, OperationError> {
        let config = Config::builder().behavior_version(BehaviorVersion::latest()).build();
        let plan = Plan {
            command: "count",
            store: &Store::new(Client::from_conf(config), "Table", VersionDigits::default()),
            options: Some(options),
            segments: Some(1),
            checkpoint: Some(path),
            pace: &RateLimiter::unlimited(),
        };
        SegmentRun::begin(plan, |_, progress: Progress<u64, Sum>| {
            Numbers(steps(progress.counts.0).into_iter(), progress)
        })
    }

    fn unavailable() -> OperationError {
        OperationError::Retryable("the request failed".to_owned())
    }

    #[tokio::test]
    async fn a_failed_run_resumes_after_its_last_step() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        let mut failing = run(&path, 1, |_| (1..=50).map(Ok).chain([Err(unavailable())]).collect()).unwrap();
        for number in 1..=50 {
            assert_eq!(failing.step().await.unwrap(), Some(number));
        }
        assert_eq!(failing.step().await.unwrap_err().kind(), Kind::Unavailable);
        let other = run(&path, 2, |_| Vec::new()).err().unwrap();
        assert_eq!(
            other.to_string(),
            "the checkpoint belongs to another run: count of Table with other options"
        );
        let mut resumed = run(&path, 1, |progress| vec![Ok(progress + 1)]).unwrap();
        assert_eq!(resumed.step().await.unwrap(), Some(51));
        assert_eq!(resumed.counts(), Sum(51));
        assert_eq!(resumed.step().await.unwrap(), None);
        assert!(!path.exists());
    }
}
