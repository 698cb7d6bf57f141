//! A document's records, through stream-fn's own code.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use futures::{StreamExt as _, stream};
use serde_json::value::RawValue;
use shared::{
    clock::Deadline,
    domain::{attributes::same_item, entity::EntityId, version::Version, version_item::VersionItem},
    dynamodb::{
        Store,
        put::put_version::{RecordError, RecordOutcome},
    },
};
use stream_fn::{
    HistoryWriter,
    error::RecordFailure,
    record::{self, Content},
    response::{Outcome, ProcessedRecord},
};

use super::{Services, Sink, TableStream, Tally, reader::Reader};
use crate::{connection::Connection, error::CliError, failures::document::Document};

/// How many versions a dry run reads at once.
const READS: usize = 32;

/// Where records go.
pub(crate) struct Replay {
    pub(crate) store: Store,
    pub(crate) reader: Reader,
    /// Whether a message may go though records of it were in conflict.
    pub(crate) drop_conflicts: bool,
    /// How long one document may take.
    pub(crate) patience: Duration,
    /// What a dry run would have written. `None` where it is not dry.
    pub(crate) plan: Option<Plan>,
}

/// The versions that a dry run found to be missing.
pub(crate) type Plan = Mutex<HashMap<(EntityId, Version), VersionItem>>;

impl Sink for Replay {
    async fn document(&self, name: &str, document: Document) -> Result<Tally, CliError> {
        let read = self.reader.read(name, document).await?;
        let mut tally = read.tally;
        let mut done = self.replay(read.records.iter().map(|record| &**record).collect()).await;
        if let Some((batch, fetched)) = read.fetched {
            // The stream also holds what the mapping leaves out.
            done.retain(|done| !matches!(done.outcome, Outcome::Skipped));
            if !fetched.is_whole {
                let lost = batch.size.saturating_sub(done.len() as u64).max(1);
                tally.lose(&batch, fetched.first.as_ref(), lost);
            }
        }
        tally.count_all(name, done);
        Ok(tally)
    }

    fn lets_go(&self, tally: &Tally) -> bool {
        self.plan.is_none() && tally.is_in(self.drop_conflicts)
    }
}

impl Replay {
    /// Of the connection's own table. Conflicts are not let go.
    pub(crate) fn new(connection: &Connection, services: &Services, is_dry: bool) -> Self {
        Self {
            store: connection.store.clone(),
            reader: Reader {
                stream: TableStream::new(connection),
                table: connection.table.clone(),
            },
            drop_conflicts: false,
            // Whatever is not done by then is not done, and its message is still hidden.
            patience: Duration::from_secs(services.visibility_timeout.into()) * 2 / 3,
            plan: is_dry.then(Default::default),
        }
    }

    async fn replay(&self, records: Vec<&RawValue>) -> Vec<ProcessedRecord> {
        match &self.plan {
            None => {
                let writer = HistoryWriter::from_store(self.store.clone());
                writer.process(records, Deadline::after(self.patience)).await
            }
            Some(plan) => {
                let tried = stream::iter(records).map(|record| self.try_out(record, plan));
                tried.buffered(READS).collect().await
            }
        }
    }

    /// What these records would come to, in their order, if there is no other document.
    pub(crate) async fn try_all(&self, records: &[Box<RawValue>]) -> Vec<ProcessedRecord> {
        let plan = Plan::default();
        let tried = stream::iter(records).map(|record| self.try_out(record, &plan));
        tried.buffered(READS).collect().await
    }

    /// What a record would come to.
    async fn try_out(&self, raw: &RawValue, plan: &Plan) -> ProcessedRecord {
        let parsed = record::parse(raw, self.store.digits());
        let outcome = match parsed.content {
            Ok(Content::Skipped) => Outcome::Skipped,
            Err(failure) => failure.into(),
            Ok(Content::Version(version)) => {
                let found = self.store.would_record(&version).await;
                planned(&version, found, plan).with_version(version)
            }
        };
        ProcessedRecord {
            sequence_number: parsed.sequence_number,
            created: parsed.created,
            request: None,
            outcome,
        }
    }
}

/// The same record can be in several documents: only the first of them would write it.
fn planned(version: &VersionItem, found: Result<RecordOutcome, RecordError>, plan: &Plan) -> Outcome {
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
