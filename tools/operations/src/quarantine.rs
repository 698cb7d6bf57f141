//! Records in quarantine, entity by entity: of the entities that are named, or of the whole table, page by page.

use std::{collections::VecDeque, mem};

use serde_json::{Value, json};
use shared::{
    domain::{entity::EntityId, quarantine::QuarantinedRecord},
    dynamodb::{Store, read::query_items::Cursor},
};

use crate::{
    error::OperationError,
    rate_limit::RateLimiter,
    read::quarantined::{quarantined, scan_quarantined},
};

/// Returns `{"ID": …, "SequenceNumber": …, "Kind": "Conflict", "Reason": …, "Version": 7, "QuarantinedAt": …, "Record": {…}}`.
pub fn to_json(record: &QuarantinedRecord) -> Value {
    json!({
        "ID": record.entity.as_str(), "SequenceNumber": record.number, "Kind": record.kind, "Reason": record.reason,
        "Version": record.version, "QuarantinedAt": record.at.map(|at| at.to_string()),
        "Record": stream_fn::record::to_json(&record.record),
    })
}

pub struct Quarantine {
    store: Store,
    limiter: RateLimiter,
    found: VecDeque<EntityId>,
    last: Option<EntityId>,
    scan: Scan,
    read: u64,
}

enum Scan {
    Next(Option<Cursor>),
    Done,
}

impl Quarantine {
    /// Returns the records of these entities, in their order.
    pub fn named(store: Store, entities: impl IntoIterator<Item = EntityId>) -> Self {
        Self {
            store,
            limiter: RateLimiter::unlimited(),
            found: entities.into_iter().collect(),
            last: None,
            scan: Scan::Done,
            read: 0,
        }
    }

    /// Scans the table.
    pub fn of_table(store: Store, limiter: RateLimiter) -> Self {
        Self {
            limiter,
            scan: Scan::Next(None),
            ..Self::named(store, [])
        }
    }

    /// Returns the records of the next entity, `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<QuarantinedRecord>>, OperationError> {
        loop {
            if let Some(entity) = self.found.pop_front() {
                // Its items can be on two pages.
                if self.last.as_ref() == Some(&entity) {
                    continue;
                }
                let records = quarantined(&self.store, &entity).await?;
                self.last = Some(entity);
                return Ok(Some(records));
            }
            let Scan::Next(cursor) = mem::replace(&mut self.scan, Scan::Done) else {
                return Ok(None);
            };
            let limit = self.limiter.page_limit();
            let scan = async || scan_quarantined(&self.store, cursor.clone(), limit).await;
            let page = self.limiter.run(scan).await?;
            self.read += page.read;
            self.found.extend(page.entities);
            self.scan = page.next.map_or(Scan::Done, |next| Scan::Next(Some(next)));
        }
    }

    /// Returns the number of items that were read so far.
    pub fn read(&self) -> u64 {
        self.read
    }
}
