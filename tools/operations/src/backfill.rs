//! Backfill: puts existing items under versioning, as version 1.
//!
//! The source table is scanned in parallel segments, and each page is written before the next one is read. With a
//! checkpoint, an interrupted run resumes at the page that was not complete; writing an item twice changes nothing.

use std::{path::Path, sync::Arc};

use futures::{
    StreamExt as _, TryStreamExt as _,
    stream::{self, LocalBoxStream},
};
use serde::{Deserialize, Serialize};
use shared::{
    domain::{Item, backfill::Refusal},
    dynamodb::{
        maintain::{
            backfill::{Backfill, BackfillError, Counts, Progress},
            rate_limit::{Consumed, RateLimiter},
        },
        read::scan_segment::Segment,
    },
};

use crate::{audit::SEGMENTS, checkpoint::Checkpoint, connection::Connection, error::OperationError};

#[derive(Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "PascalCase")]
struct State {
    command: String,
    table: String,
    from_table: String,
    version_digits: String,
    id: Option<String>,
    segments: Vec<Progress>,
    read_units: f64,
    write_units: f64,
}

/// Items that no version can be made of, each with the reason.
pub type Refused = Vec<(Item, Refusal)>;

pub struct BackfillRun {
    state: State,
    checkpoint: Checkpoint,
    /// `true` if the caller has reported the refused items of the last step.
    is_reported: bool,
    steps: LocalBoxStream<'static, Result<(usize, Refused, Progress), BackfillError>>,
    pace: RateLimiter,
    consumed_before: Consumed,
}

impl BackfillRun {
    /// Prepares a backfill from a table in this number of segments, or resumes the run of the checkpoint.
    pub fn new(
        connection: &Connection,
        backfill: Backfill,
        (from_table, template): (&str, Option<String>),
        segments: Option<u32>,
        checkpoint: Option<&Path>,
    ) -> Result<Self, OperationError> {
        let begun = State {
            command: "backfill".to_owned(),
            table: connection.table.clone(),
            from_table: from_table.to_owned(),
            version_digits: connection.store.digits().to_string(),
            id: template,
            segments: Vec::new(),
            read_units: 0.0,
            write_units: 0.0,
        };
        let checkpoint = Checkpoint::new(checkpoint);
        let state = begin(begun, segments, &checkpoint)?;
        let total = u32::try_from(state.segments.len()).unwrap_or(u32::MAX);
        let pace = backfill.limiter.clone();
        let backfill = Arc::new(backfill);
        let segments = (0..total).zip(state.segments.clone()).map(|(index, progress)| {
            stream::try_unfold(
                (Arc::clone(&backfill), progress),
                move |(backfill, mut progress)| async move {
                    let refused = backfill.step(Segment { index, total }, &mut progress).await?;
                    Ok(refused.map(|refused| ((index as usize, refused, progress.clone()), (backfill, progress))))
                },
            )
            .boxed_local()
        });
        Ok(Self {
            checkpoint,
            is_reported: false,
            steps: stream::select_all(segments).boxed_local(),
            pace,
            consumed_before: Consumed {
                read: state.read_units,
                write: state.write_units,
            },
            state,
        })
    }

    /// Writes the items of the next page. Returns the refused ones, or `None` at the end.
    pub async fn step(&mut self) -> Result<Option<Refused>, OperationError> {
        if self.is_reported {
            self.checkpoint.save(&self.state)?;
        }
        let Some((index, refused, progress)) = self.steps.try_next().await? else {
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
        Ok(Some(refused))
    }

    /// Returns the counts so far, including earlier runs.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.state
            .segments
            .iter()
            .for_each(|progress| counts.merge(&progress.counts));
        counts
    }

    /// Returns the consumed capacity so far, including earlier runs.
    pub fn consumed(&self) -> Consumed {
        Consumed {
            read: self.state.read_units,
            write: self.state.write_units,
        }
    }
}

fn begin(begun: State, segments: Option<u32>, checkpoint: &Checkpoint) -> Result<State, OperationError> {
    let Some(mut state) = checkpoint.load::<State>()? else {
        return Ok(State {
            segments: vec![Progress::default(); segments.unwrap_or(SEGMENTS) as usize],
            ..begun
        });
    };
    let kept = std::mem::take(&mut state.segments);
    let (read_units, write_units) = (state.read_units, state.write_units);
    (state.read_units, state.write_units) = (0.0, 0.0);
    if state != begun || segments.is_some_and(|segments| segments as usize != kept.len()) {
        return Err(OperationError::OtherRun(format!(
            "{} of {}",
            state.command, state.table
        )));
    }
    Ok(State {
        segments: kept,
        read_units,
        write_units,
        ..begun
    })
}
