//! Replay of records by stream-fn's own code.

use std::{
    cell::RefCell,
    collections::{HashMap, hash_map::Entry},
    time::Duration,
};

use shared::{
    clock::Deadline,
    domain::{
        attributes::same_item, entity::EntityId, keys::VersionDigits, version::Version, version_item::VersionItem,
    },
};
use stream_fn::{
    HistoryWriter,
    error::RecordFailure,
    record::{self, Content},
    response::{Outcome, ProcessedRecord},
};

use super::{Dropped, Options, Services, Sink, Tally};
use crate::connection::Connection;

pub(super) struct Replay {
    writer: HistoryWriter,
    drop: Dropped,
    timeout: Duration,
    /// `None` if it is no dry run.
    plan: Option<Plan>,
}

/// Version items that a dry run would have put: the same record can be in several documents, and only the first one would put it.
struct Plan {
    /// `None` for an attached table, of which a record in two documents counts in both.
    digits: Option<VersionDigits>,
    items: RefCell<HashMap<(EntityId, Version), VersionItem>>,
}

impl Replay {
    pub(super) fn new(connection: &Connection, services: &Services, options: &Options) -> Self {
        let (store, writer) = (&connection.store, HistoryWriter::from_store(connection.store.clone()));
        Self {
            writer: if options.is_dry { writer.previewing() } else { writer },
            drop: options.drop,
            // Shorter than the visibility timeout, so that the message is still hidden.
            timeout: Duration::from_secs(services.visibility_timeout.into()) * 2 / 3,
            plan: options.is_dry.then(|| Plan {
                digits: store.attached_table().is_none().then(|| store.digits()),
                items: RefCell::default(),
            }),
        }
    }
}

impl Sink for Replay {
    async fn records(&self, _: &str, records: Vec<&str>) -> Vec<ProcessedRecord> {
        let deadline = Deadline::after(self.timeout);
        let mut processed = self.writer.process(records.clone(), deadline).await;
        if let Some(plan) = &self.plan {
            for (processed, record) in processed.iter_mut().zip(records) {
                if matches!(processed.outcome, Outcome::Recorded) {
                    processed.outcome = plan.outcome(record);
                }
            }
        }
        processed
    }

    fn may_delete(&self, tally: &Tally) -> bool {
        self.plan.is_none() && tally.is_in(self.drop)
    }
}

impl Plan {
    /// Returns the outcome of a record whose version could be put now, after those of earlier records.
    fn outcome(&self, record: &str) -> Outcome {
        let content = self.digits.map(|digits| record::parse(record, digits).content);
        let Some(Ok(Content::Version(version))) = content else {
            return Outcome::Recorded;
        };
        match self
            .items
            .borrow_mut()
            .entry((version.entity().clone(), version.version()))
        {
            Entry::Vacant(entry) => {
                entry.insert(version);
                Outcome::Recorded
            }
            Entry::Occupied(entry) if same_item(entry.get().item(), version.item()) => Outcome::AlreadyRecorded,
            Entry::Occupied(_) => Outcome::from(RecordFailure::Conflict).with_version(version),
        }
    }
}
