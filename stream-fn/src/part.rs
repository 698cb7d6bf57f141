//! A part of a batch: its records are parsed, written together, and let go.

use futures::{StreamExt as _, stream};
use serde_json::value::RawValue;
use shared::{
    clock::Deadline,
    domain::version_item::VersionItem,
    dynamodb::{
        record_version::{RecordError, RecordOutcome},
        record_versions::{InBatch, batches},
    },
};

use crate::{
    Done, Recorder,
    error::RecordFailure,
    record::{self, Record},
};

/// The most requests of a part under way at once. All are idempotent, and none overwrites, so that their order is free.
const REQUESTS: usize = 8;

type Settled = Result<RecordOutcome, RecordFailure>;

impl Recorder {
    /// Writes down what these records ask for, and says what became of each, in their order.
    pub(crate) async fn record(&self, part: &[&RawValue], deadline: Deadline) -> Vec<Done> {
        let parse = |raw: &&RawValue| record::parse(raw, self.store.digits());
        let records: Vec<_> = part.iter().map(parse).collect();
        let versions = records.iter().filter_map(|record| match &record.content {
            Ok(Record::Version(version)) => Some(version),
            _ => None,
        });
        let versions: Vec<_> = versions.collect();
        let mut settled = self.settle(&versions, deadline).await.into_iter();
        let mut done = Vec::with_capacity(records.len());
        for record in records {
            let request = match &record.content {
                Ok(Record::Version(version)) => version.request_id(),
                _ => None,
            };
            let outcome = match record.content {
                Ok(Record::Skipped) => Ok(None),
                Ok(Record::Version(version)) => {
                    let settled = settled.next().unwrap_or(Err(RecordFailure::NotReached));
                    settled.map(Some).map_err(|failure| (Some(version), failure))
                }
                Err(failure) => Err((None, failure)),
            };
            done.push(Done {
                sequence_number: record.sequence_number,
                created: record.created,
                request,
                outcome,
            });
        }
        done
    }

    /// What becomes of each version, in their order.
    async fn settle(&self, versions: &[&VersionItem], deadline: Deadline) -> Vec<Settled> {
        let written: Vec<_> = stream::iter(batches(versions.iter().copied()))
            .map(|batch| self.write(versions, batch, deadline))
            .buffer_unordered(REQUESTS)
            .collect()
            .await;
        let mut settled: Vec<_> = stream::iter(written.into_iter().flatten())
            .map(|(index, settled)| self.finish(index, versions[index], settled, deadline))
            .buffer_unordered(REQUESTS)
            .collect()
            .await;
        settled.sort_unstable_by_key(|(index, _)| *index);
        settled.into_iter().map(|(_, settled)| settled).collect()
    }

    /// What becomes of the versions of a batch, by their indexes. `None` for what it could not take.
    async fn write(
        &self,
        versions: &[&VersionItem],
        batch: Vec<usize>,
        deadline: Deadline,
    ) -> Vec<(usize, Option<Settled>)> {
        // A put that fails brings back what has the key, and a statement does not.
        if let [index] = batch[..] {
            return vec![(index, Some(self.put(versions[index], deadline).await))];
        }
        let together: Vec<_> = batch.iter().map(|index| versions[*index]).collect();
        let became = self.store.record_batch(&together, deadline).await;
        let became = became.into_iter().map(|became| match became {
            InBatch::Done(outcome) => Some(settled(outcome)),
            InBatch::Alone => None,
            InBatch::NotReached => Some(Err(RecordFailure::NotReached)),
        });
        batch.into_iter().zip(became).collect()
    }

    async fn finish(
        &self,
        index: usize,
        version: &VersionItem,
        settled: Option<Settled>,
        deadline: Deadline,
    ) -> (usize, Settled) {
        match settled {
            Some(settled) => (index, settled),
            None => (index, self.put(version, deadline).await),
        }
    }

    async fn put(&self, version: &VersionItem, deadline: Deadline) -> Settled {
        if !deadline.allows_start() {
            return Err(RecordFailure::NotReached);
        }
        let put = self.store.record_version(version);
        match tokio::time::timeout_at(deadline.finish_by, put).await {
            Ok(outcome) => settled(outcome),
            Err(_) => Err(RecordFailure::NotReached),
        }
    }
}

fn settled(outcome: Result<RecordOutcome, RecordError>) -> Settled {
    match outcome {
        Ok(RecordOutcome::Conflict) => Err(RecordFailure::Conflict),
        outcome => Ok(outcome?),
    }
}
