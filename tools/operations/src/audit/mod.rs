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

use std::{time::Duration, vec};

use crate::{
    audit::{
        auditor::{Auditor, EntityFindings},
        segment::Counts,
    },
    connection::entity_of,
    error::OperationError,
    rate_limit::RateLimiter,
};
use shared::{
    domain::{Item, attached::key, entity::EntityId},
    dynamodb::{Store, client::error::ServiceError},
};

pub use self::segment::TableAudit;

pub struct EntitiesAudit {
    auditor: Auditor,
    /// Entities, with the key attributes of an item of an attached table.
    ids: vec::IntoIter<(EntityId, Option<Item>)>,
    /// Counts so far.
    pub counts: Counts,
    /// Entities that do not exist.
    pub not_found: Vec<EntityId>,
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
            counts: Counts::default(),
            not_found: Vec::new(),
        })
    }

    /// Returns `true` if all entities were read, and the next step waits for the lag.
    pub fn is_waiting(&self) -> bool {
        self.ids.len() == 0 && self.auditor.waiting() > 0 && !self.auditor.is_due()
    }

    /// Audits the next entity: returns the findings that are certain at once, and at the end those that were confirmed after the
    /// lag. Returns `None` at the end.
    pub async fn step(&mut self) -> Result<Option<EntityFindings>, ServiceError> {
        let audited = match self.ids.next() {
            Some((entity, key)) => {
                let examined = self.auditor.entity(&entity, key.as_ref()).await?;
                match examined {
                    Some(_) => self.counts.entities += 1,
                    None => self.not_found.push(entity.clone()),
                }
                let (versions, findings) = examined.unwrap_or_default();
                self.counts.versions += versions;
                Some(EntityFindings { entity, findings })
            }
            None => self.auditor.settle().await?,
        };
        if let Some(audited) = &audited {
            self.counts.add(audited);
        }
        Ok(audited)
    }
}
