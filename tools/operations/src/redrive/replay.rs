//! Replay of records by stream-fn's own code.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use futures::{StreamExt as _, stream};
use shared::{
    clock::Deadline,
    domain::{attributes::same_item, entity::EntityId, time::EpochMillis, version::Version, version_item::VersionItem},
    dynamodb::{
        Store,
        put::put_version::{PutError, PutOutcome},
    },
};
use stream_fn::{
    HistoryWriter,
    counted::LatestVersions,
    error::RecordFailure,
    record::{self, Content},
    response::{Outcome, ProcessedRecord},
};

use super::{
    feed::Sink,
    reader::Reader,
    services::Services,
    tally::{Dropped, Tally},
};
use crate::{connection::Connection, error::OperationError, failures::document::Document};

/// Maximum number of concurrent reads of a dry run.
const READS: usize = 32;

pub struct Replay {
    store: Store,
    pub reader: Reader,
    /// Records because of which a message or a quarantine item is not kept.
    pub drop: Dropped,
    timeout: Duration,
    /// Version items that a dry run would have put, or `None` if it is no dry run.
    plan: Option<Plan>,
}

type Plan = Mutex<HashMap<(EntityId, Version), VersionItem>>;

impl Sink for Replay {
    async fn document(&self, name: &str, document: Document) -> Result<Tally, OperationError> {
        let read = self.reader.read(name, document).await?;
        let mut tally = read.tally;
        let mut done = self.replay(read.records.iter().map(String::as_str).collect()).await;
        if let Some((batch, fetched)) = read.fetched {
            // The stream also contains records that the mapping filters out. Those of an attached table are not read.
            if self.store.attached_table().is_none() {
                done.retain(|done| !matches!(done.outcome, Outcome::Skipped));
            }
            if !fetched.is_whole {
                let lost = batch.size.saturating_sub(done.len() as u64).max(1);
                tally.lose(&batch, fetched.first.as_ref(), lost);
            }
        }
        tally.processed(name, done);
        Ok(tally)
    }

    fn may_delete(&self, tally: &Tally) -> bool {
        self.plan.is_none() && tally.is_in(self.drop)
    }
}

impl Replay {
    /// Returns a replay of the connection's own table. Messages with records in conflict are not deleted.
    pub fn new(connection: &Connection, services: &Services, is_dry: bool) -> Self {
        Self {
            store: connection.store.clone(),
            reader: Reader::new(connection),
            drop: Dropped::default(),
            // Shorter than the visibility timeout, so that the message is still hidden.
            timeout: Duration::from_secs(services.visibility_timeout.into()) * 2 / 3,
            plan: is_dry.then(Default::default),
        }
    }

    async fn replay(&self, records: Vec<&str>) -> Vec<ProcessedRecord> {
        match &self.plan {
            None => {
                let writer = HistoryWriter::from_store(self.store.clone());
                writer.process(records, Deadline::after(self.timeout)).await
            }
            Some(plan) => {
                if let Some(tried) = self.preview_attached(&records).await {
                    return tried;
                }
                let tried = stream::iter(records).map(|record| self.try_out(record, plan));
                tried.buffered(READS).collect().await
            }
        }
    }

    /// Returns the outcomes that records of an attached table would have. A record in two documents counts in both. `None` for
    /// another table.
    async fn preview_attached(&self, records: &[&str]) -> Option<Vec<ProcessedRecord>> {
        let writer = HistoryWriter::from_store(self.store.clone());
        writer.preview_attached(records, Deadline::after(self.timeout)).await
    }

    async fn try_out(&self, raw: &str, plan: &Plan) -> ProcessedRecord {
        let parsed = record::parse(raw, self.store.digits());
        let outcome = match parsed.content {
            Ok(Content::Skipped) => Outcome::Skipped,
            Err(failure) => {
                self.preview_malformed(parsed.entity.as_ref(), parsed.created, failure)
                    .await
            }
            Ok(Content::Version(version)) => self.preview(&version, plan).await.with_version(version),
        };
        ProcessedRecord {
            sequence_number: parsed.sequence_number,
            created: parsed.created,
            entity: parsed.entity,
            request: None,
            ahead: None,
            outcome,
        }
    }
}

impl Replay {
    /// Returns the outcome of a record that contains no version: it was purged, or failed.
    async fn preview_malformed(
        &self,
        entity: Option<&EntityId>,
        created: Option<EpochMillis>,
        failure: RecordFailure,
    ) -> Outcome {
        let Some(entity) = entity else {
            return failure.into();
        };
        match self.store.purge_markers([entity]).await {
            Ok(markers) if markers.of(entity).is_some_and(|marker| marker.covers_record(created)) => Outcome::Purged,
            Ok(_) => failure.into(),
            Err(error) => RecordFailure::from(PutError(error)).into(),
        }
    }

    /// Returns the outcome that a replay would have now. Nothing is written.
    async fn preview(&self, version: &VersionItem, plan: &Plan) -> Outcome {
        match self.store.removed([version.entity()]).await {
            Ok(removed) if removed.is_purged(version) => Outcome::Purged,
            Ok(removed) if removed.is_below_floor(version) => match self.store.preview_put(version).await {
                Ok(PutOutcome::Recorded) => Outcome::Pruned,
                stored => stored.into(),
            },
            Ok(_) => match LatestVersions::read(&self.store, [version.entity()]).await {
                Ok(latest) => match latest.outcome(&self.store, version).await {
                    None => planned(version, self.store.preview_put(version).await, plan),
                    Some(outcome) => outcome,
                },
                Err(error) => RecordFailure::from(error).into(),
            },
            Err(error) => RecordFailure::from(PutError(error)).into(),
        }
    }
}

/// Notes a version as put: the same record can be in several documents, and only the first one would put it.
fn planned(version: &VersionItem, found: Result<PutOutcome, PutError>, plan: &Plan) -> Outcome {
    match found.into() {
        Outcome::Recorded => {
            let mut plan = plan.lock().unwrap_or_else(PoisonError::into_inner);
            match plan.entry((version.entity().clone(), version.version())) {
                Entry::Vacant(entry) => {
                    entry.insert(version.clone());
                    Outcome::Recorded
                }
                Entry::Occupied(entry) if same_item(entry.get().item(), version.item()) => Outcome::AlreadyRecorded,
                Entry::Occupied(_) => RecordFailure::Conflict.into(),
            }
        }
        outcome => outcome,
    }
}
