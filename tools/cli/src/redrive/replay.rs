//! A document's records, through stream-fn's own code.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use futures::{StreamExt as _, stream};
use serde::Deserialize;
use serde_json::value::RawValue;
use shared::{
    clock::Deadline,
    domain::{attributes::same_item, entity::EntityId, version::Version, version_item::VersionItem},
    dynamodb::{
        Store,
        record_version::{RecordError, RecordOutcome},
    },
};
use stream_fn::{
    Done, Recorder,
    error::RecordFailure,
    record::{self, Record},
};
use vzero::failures::document::{Batch, Document, table_of};

use super::{Sink, TableStream, Tally};
use crate::error::CliError;

/// How many versions a dry run reads at once.
const READS: usize = 32;

/// Where records go.
pub(crate) struct Replay {
    pub(crate) store: Store,
    pub(crate) stream: TableStream,
    /// The table that records must come from.
    pub(crate) table: String,
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
        match (document.records, document.batch) {
            (Some(records), batch) => {
                let origin = batch.as_ref().map(|batch| batch.stream_arn.as_str());
                let (own, mut tally) = self.own(name, &records, origin);
                tally.count_all(name, self.replay(own).await);
                Ok(tally)
            }
            (None, Some(batch)) if !self.is_own(Some(&batch.stream_arn)) => {
                Ok(Tally::other_table(name, &batch.stream_arn, batch.size))
            }
            (None, Some(batch)) => self.fetched(name, &batch).await,
            (None, None) => Ok(Tally::left(name, "it names no records")),
        }
    }

    fn lets_go(&self, tally: &Tally) -> bool {
        self.plan.is_none() && tally.is_in(self.drop_conflicts)
    }
}

impl Replay {
    /// Tells the records of this table from those of others.
    fn own<'a>(&self, name: &str, records: &'a [Box<RawValue>], origin: Option<&str>) -> (Vec<&'a RawValue>, Tally) {
        let mut tally = Tally::default();
        let mut own = Vec::new();
        for record in records {
            let source = source_of(record);
            let source = source.as_deref().or(origin);
            if self.is_own(source) {
                own.push(&**record);
            } else {
                tally.add(Tally::other_table(name, source.unwrap_or_default(), 1));
            }
        }
        tally.set_document();
        (own, tally)
    }

    /// Whether a record of this stream is one of the table. One that names no stream is taken to be.
    fn is_own(&self, stream_arn: Option<&str>) -> bool {
        let own = table_of(&self.table).unwrap_or(&self.table);
        stream_arn.is_none_or(|arn| table_of(arn) == Some(own))
    }

    /// The records of a document without them, from the stream.
    async fn fetched(&self, name: &str, batch: &Batch) -> Result<Tally, CliError> {
        let fetched = self.stream.fetch(batch).await?;
        let records = fetched.records.iter().map(|record| &**record).collect();
        // The stream also holds what the mapping leaves out.
        let mut done = self.replay(records).await;
        done.retain(|(_, outcome)| !matches!(outcome, Ok(None)));
        let mut tally = Tally::default();
        if !fetched.is_whole {
            let lost = batch.size.saturating_sub(done.len() as u64).max(1);
            tally.lose(batch, fetched.first.as_ref(), lost);
        }
        tally.count_all(name, done);
        tally.set_document();
        Ok(tally)
    }

    async fn replay(&self, records: Vec<&RawValue>) -> Vec<Done> {
        match &self.plan {
            None => {
                let recorder = Recorder::of(self.store.clone());
                recorder.record_all(records, Deadline::after(self.patience)).await
            }
            Some(plan) => {
                let tried = stream::iter(records).map(|record| self.try_out(record, plan));
                tried.buffered(READS).collect().await
            }
        }
    }

    /// What a record would come to.
    async fn try_out(&self, raw: &RawValue, plan: &Plan) -> Done {
        let parsed = record::parse(raw, self.store.digits());
        let outcome = match parsed.content {
            Ok(Record::Skipped) => Ok(None),
            Err(failure) => Err((None, failure)),
            Ok(Record::Version(version)) => {
                let found = self.store.would_record(&version).await;
                planned(&version, found, plan).map_err(|failure| (Some(version), failure))
            }
        };
        (parsed.sequence_number, outcome)
    }
}

/// The same record can be in several documents: only the first of them would write it.
fn planned(
    version: &VersionItem,
    found: Result<RecordOutcome, RecordError>,
    plan: &Plan,
) -> Result<Option<RecordOutcome>, RecordFailure> {
    match found? {
        RecordOutcome::Conflict => Err(RecordFailure::Conflict),
        RecordOutcome::AlreadyRecorded => Ok(Some(RecordOutcome::AlreadyRecorded)),
        RecordOutcome::Recorded => {
            let mut plan = plan.lock().unwrap_or_else(PoisonError::into_inner);
            match plan.entry((version.entity().clone(), version.version())) {
                Entry::Vacant(entry) => {
                    entry.insert(version.clone());
                    Ok(Some(RecordOutcome::Recorded))
                }
                Entry::Occupied(entry) if same_item(entry.get().item(), version.item()) => {
                    Ok(Some(RecordOutcome::AlreadyRecorded))
                }
                Entry::Occupied(_) => Err(RecordFailure::Conflict),
            }
        }
    }
}

/// The stream that a record says it comes from.
fn source_of(record: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Origin<'a> {
        #[serde(rename = "eventSourceARN", borrow)]
        arn: Option<&'a RawValue>,
    }
    let origin: Origin = serde_json::from_str(record.get()).ok()?;
    // What is no text names no table that could be this one.
    origin
        .arn
        .map(|arn| serde_json::from_str(arn.get()).unwrap_or_default())
}
