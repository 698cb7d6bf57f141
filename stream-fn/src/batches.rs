//! The versions of an invocation, many in a request.

use futures::{StreamExt as _, stream};
use serde_json::value::RawValue;
use shared::{
    clock::Deadline,
    domain::version_item::VersionItem,
    dynamodb::{
        record_version::RecordOutcome,
        record_versions::{InBatch, batches},
    },
};

use crate::{
    CONCURRENCY, Done, Recorder,
    error::RecordFailure,
    record::{self, Record},
    settled,
};

/// The most batches under way at once.
const BATCHES: usize = 8;

type Settled = Result<RecordOutcome, RecordFailure>;

impl Recorder {
    /// Comes to the same as a put each.
    pub(crate) async fn record_in_batches(&self, records: Vec<&RawValue>, deadline: Deadline) -> Vec<Done> {
        let parse = |raw| record::parse(raw, self.store.digits());
        let records: Vec<_> = records.into_iter().map(parse).collect();
        let versions = records.iter().filter_map(|record| match &record.content {
            Ok(Record::Version(version)) => Some(version),
            _ => None,
        });
        let versions: Vec<_> = versions.collect();
        let mut settled = self.settle(&versions, deadline).await.into_iter();
        let mut done = Vec::with_capacity(records.len());
        for record in records {
            let outcome = match record.content {
                Ok(Record::Skipped) => Ok(None),
                Ok(Record::Version(version)) => {
                    let settled = settled.next().unwrap_or(Err(RecordFailure::NotReached));
                    settled.map(Some).map_err(|failure| (Some(version), failure))
                }
                Err(failure) => Err((None, failure)),
            };
            done.push((record.sequence_number, outcome));
        }
        done
    }

    /// What becomes of each version, in their order.
    async fn settle(&self, versions: &[&VersionItem], deadline: Deadline) -> Vec<Settled> {
        let written: Vec<_> = stream::iter(batches(versions.iter().copied()))
            .map(|batch| self.write(versions, batch, deadline))
            .buffer_unordered(BATCHES)
            .collect()
            .await;
        let mut settled: Vec<_> = stream::iter(written.into_iter().flatten())
            .map(|(index, became)| self.finish(index, versions[index], became, deadline))
            .buffer_unordered(CONCURRENCY)
            .collect()
            .await;
        settled.sort_unstable_by_key(|(index, _)| *index);
        settled.into_iter().map(|(_, settled)| settled).collect()
    }

    async fn write(
        &self,
        versions: &[&VersionItem],
        batch: Vec<usize>,
        deadline: Deadline,
    ) -> impl Iterator<Item = (usize, InBatch)> + use<> {
        let together: Vec<_> = batch.iter().map(|index| versions[*index]).collect();
        let became = self.store.record_batch(&together, deadline).await;
        batch.into_iter().zip(became)
    }

    async fn finish(
        &self,
        index: usize,
        version: &VersionItem,
        became: InBatch,
        deadline: Deadline,
    ) -> (usize, Settled) {
        let settled = match became {
            InBatch::Done(outcome) => settled(outcome),
            InBatch::Alone => self.put(version, deadline).await,
            InBatch::NotReached => Err(RecordFailure::NotReached),
        };
        (index, settled)
    }
}
