//! Audits of single entities and of a whole table.
//!
//! Both are runs whose `step` the caller repeats. A version that is missing may still be in the stream, so the auditor
//! reads it again after the lag before it becomes a finding. A table is scanned in parallel segments; with a checkpoint,
//! an interrupted audit resumes. It may return its last findings twice, but never skips one.

use std::{path::Path, time::Duration, vec};

use futures::{
    Stream, StreamExt as _, TryStreamExt as _,
    stream::{self, LocalBoxStream},
};
use serde::{Deserialize, Serialize};
use shared::{
    domain::entity::EntityId,
    dynamodb::{
        Store,
        client::error::ServiceError,
        maintain::{
            audit::{Auditor, EntityFindings},
            audit_segment::{Counts, Progress, SegmentAudit, Step},
            rate_limit::RateLimiter,
        },
        read::scan_segment::Segment,
    },
};

use crate::{checkpoint::Checkpoint, connection::Connection, error::OperationError};

pub const SEGMENTS: u32 = 4;

pub struct EntitiesAudit {
    auditor: Auditor,
    ids: vec::IntoIter<EntityId>,
}

#[derive(Debug)]
pub enum EntityStep {
    /// An entity with the number of its versions, and what is certain at once.
    Examined(u64, EntityFindings),
    /// A finding that was confirmed after the lag.
    Settled(EntityFindings),
    NotFound(EntityId),
}

impl EntitiesAudit {
    /// Prepares an audit. It waits once for the missing versions of all entities.
    pub fn new(store: Store, pace: RateLimiter, lag: Duration, ids: &[String]) -> Result<Self, OperationError> {
        let ids: Vec<_> = ids.iter().map(EntityId::new).collect::<Result<_, _>>()?;
        Ok(Self {
            auditor: Auditor::new(store, pace, lag, Vec::new()),
            ids: ids.into_iter(),
        })
    }

    /// Audits the next entity. Returns `None` at the end.
    pub async fn step(&mut self) -> Result<Option<EntityStep>, ServiceError> {
        let Some(entity) = self.ids.next() else {
            return Ok(self.auditor.settle().await?.map(EntityStep::Settled));
        };
        Ok(Some(match self.auditor.entity(&entity).await? {
            Some((versions, findings)) => EntityStep::Examined(versions, EntityFindings { entity, findings }),
            None => EntityStep::NotFound(entity),
        }))
    }
}

/// Audits the segments of a table in parallel, each from its progress. Yields the index of the segment with each step.
pub fn segments(
    store: &Store,
    pace: &RateLimiter,
    lag: Duration,
    segments: Vec<Progress>,
) -> impl Stream<Item = Result<(usize, Step), ServiceError>> + use<> {
    let total = u32::try_from(segments.len()).unwrap_or(u32::MAX);
    let segments = (0..total).zip(segments).map(|(index, progress)| {
        let audit = SegmentAudit::new(store.clone(), pace.clone(), lag, Segment { index, total }, progress);
        stream::try_unfold(audit, move |mut audit| async move {
            let step = audit.step().await?;
            Ok(step.map(|step| ((index as usize, step), audit)))
        })
        .boxed_local()
    });
    stream::select_all(segments)
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct State {
    command: String,
    table: String,
    version_digits: String,
    segments: Vec<Progress>,
    read_units: f64,
}

pub struct TableAudit {
    state: State,
    checkpoint: Checkpoint,
    /// `true` if the caller has reported the findings of the last step.
    is_reported: bool,
    steps: LocalBoxStream<'static, Result<(usize, Step), ServiceError>>,
    pace: RateLimiter,
    read_units_before: f64,
}

impl TableAudit {
    /// Prepares an audit in this number of segments, or resumes the run of the checkpoint.
    pub fn new(
        connection: &Connection,
        pace: &RateLimiter,
        lag: Duration,
        segments: Option<u32>,
        checkpoint: Option<&Path>,
    ) -> Result<Self, OperationError> {
        let checkpoint = Checkpoint::new(checkpoint);
        let state = begin(connection, segments, &checkpoint)?;
        Ok(Self {
            checkpoint,
            is_reported: false,
            steps: self::segments(&connection.store, pace, lag, state.segments.clone()).boxed_local(),
            pace: pace.clone(),
            read_units_before: state.read_units,
            state,
        })
    }

    /// Audits further. Returns the audited entities, or `None` at the end.
    pub async fn step(&mut self) -> Result<Option<Vec<EntityFindings>>, OperationError> {
        if self.is_reported {
            self.checkpoint.save(&self.state)?;
        }
        loop {
            let next = match self.checkpoint.due() {
                Some(due) => tokio::time::timeout_at(due, self.steps.try_next()).await,
                None => Ok(self.steps.try_next().await),
            };
            let Ok(next) = next else {
                self.checkpoint.save(&self.state)?;
                continue;
            };
            let Some((index, Step { audited, progress })) = next? else {
                self.checkpoint.remove()?;
                return Ok(None);
            };
            if let Some(segment) = self.state.segments.get_mut(index) {
                *segment = progress;
            }
            self.state.read_units = self.read_units_before + self.pace.consumed().read;
            self.is_reported = true;
            return Ok(Some(audited));
        }
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

    /// Returns the consumed read units so far, including earlier runs.
    pub fn read_units(&self) -> f64 {
        self.state.read_units
    }
}

fn begin(connection: &Connection, segments: Option<u32>, checkpoint: &Checkpoint) -> Result<State, OperationError> {
    let digits = connection.store.digits().to_string();
    let Some(state) = checkpoint.load::<State>()? else {
        return Ok(State {
            command: "audit".to_owned(),
            table: connection.table.clone(),
            version_digits: digits,
            segments: vec![Progress::default(); segments.unwrap_or(SEGMENTS) as usize],
            read_units: 0.0,
        });
    };
    let is_same = state.command == "audit" && state.table == connection.table && state.version_digits == digits;
    if !is_same || segments.is_some_and(|segments| segments as usize != state.segments.len()) {
        return Err(OperationError::OtherRun(format!(
            "{} of {} with {} segments",
            state.command,
            state.table,
            state.segments.len()
        )));
    }
    Ok(state)
}
