//! Audits of single entities and of a whole table.
//!
//! Both are runs whose `step` the caller repeats. A version that is missing may still be in the stream, so the auditor
//! reads it again after the lag before it becomes a finding. A table is scanned in parallel segments; with a checkpoint,
//! an interrupted audit resumes. It may return its last findings twice, but never skips one.

mod attached;
pub mod auditor;
pub mod collection;
mod finding;
pub mod segment;

use std::{path::Path, time::Duration, vec};

use crate::{
    audit::{
        auditor::{Auditor, EntityFindings},
        segment::{Progress, SegmentAudit},
    },
    connection::entity_of,
    error::OperationError,
    rate_limit::RateLimiter,
    segments::{self, SegmentRun},
};
use shared::{
    domain::{Item, attached::key, entity::EntityId},
    dynamodb::{Store, client::error::ServiceError},
};

pub use crate::segments::SEGMENTS;

pub struct EntitiesAudit {
    auditor: Auditor,
    /// Entities, with the key attributes of an item of an attached table.
    ids: vec::IntoIter<(EntityId, Option<Item>)>,
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
        let key = |id: &String| -> Result<_, OperationError> {
            let key = store.attached_table().map(|table| key::attributes(table, id));
            Ok((entity_of(&store, id)?, key.transpose()?))
        };
        let ids: Vec<_> = ids.iter().map(key).collect::<Result<_, _>>()?;
        Ok(Self {
            auditor: Auditor::new(store, pace, lag, Vec::new()),
            ids: ids.into_iter(),
        })
    }

    /// Returns `true` if all entities were read, and the next step waits for the lag.
    pub fn is_waiting(&self) -> bool {
        self.ids.len() == 0 && self.auditor.waiting() > 0 && !self.auditor.is_due()
    }

    /// Audits the next entity. Returns `None` at the end.
    pub async fn step(&mut self) -> Result<Option<EntityStep>, ServiceError> {
        let Some((entity, key)) = self.ids.next() else {
            return Ok(self.auditor.settle().await?.map(EntityStep::Settled));
        };
        let examined = self.auditor.entity(&entity, key.as_ref()).await?;
        Ok(Some(match examined {
            Some((versions, findings)) => EntityStep::Examined(versions, EntityFindings { entity, findings }),
            None => EntityStep::NotFound(entity),
        }))
    }
}

/// Audit of a table.
pub type TableAudit = SegmentRun<(), Progress, Vec<EntityFindings>>;

impl TableAudit {
    /// Prepares an audit in this number of segments, or resumes the run of the checkpoint.
    pub fn new(
        store: &Store,
        pace: &RateLimiter,
        lag: Duration,
        segments: Option<u32>,
        checkpoint: Option<&Path>,
    ) -> Result<Self, OperationError> {
        let plan = segments::Plan {
            command: "audit",
            store,
            options: None,
            segments,
            checkpoint,
            pace,
        };
        let audit = |segment, progress| SegmentAudit::new(store.clone(), pace.clone(), lag, segment, progress);
        Self::begin(plan, audit)
    }

    /// Returns the consumed read units so far, including earlier runs.
    pub fn read_units(&self) -> f64 {
        self.consumed().read
    }
}
