//! Chunks of a batch: at most 25 stream records, which are parsed, written, and then dropped.
//!
//! The versions of a chunk are inserted with `BatchExecuteStatement` where possible. A version that cannot be part of such a
//! request is put alone, in a second pass. All requests are idempotent and none overwrites an item, so their order is free.

use futures::{StreamExt as _, stream};
use shared::{
    clock::Deadline,
    domain::{entity::EntityId, layout::table_name, recorded_at::RecordedAt, version_item::VersionItem},
    dynamodb::{
        Store,
        put::put_versions::{BatchOutcome, batches},
    },
    panics,
};

use crate::{
    counted,
    error::RecordFailure,
    purged::{self, Purpose},
    record::{self, Content, Record},
    response::{Outcome, ProcessedRecord},
};

const MAX_CONCURRENT_REQUESTS: usize = 8;

/// Writes the versions of these stream records, and returns the outcome of each record, in their order. After a panic, it
/// processes the records one by one, so that only those fail that cause one.
pub(crate) async fn write(store: &Store, chunk: &[&str], purpose: Purpose, deadline: Deadline) -> Vec<ProcessedRecord> {
    // Boxed, to keep the future small.
    let together = panics::caught_async(Box::pin(write_together(store, chunk, purpose, deadline))).await;
    if let Ok(processed) = together {
        return processed;
    }
    // Versions of the chunk can be written already: they are found.
    let mut processed = Vec::with_capacity(chunk.len());
    for raw in chunk {
        let alone = Box::pin(write_together(store, std::slice::from_ref(raw), purpose, deadline));
        match panics::caught_async(alone).await {
            Ok(alone) => processed.extend(alone),
            Err(panicked) => processed.push(ProcessedRecord::failed(raw, panicked.into())),
        }
    }
    processed
}

async fn write_together(store: &Store, chunk: &[&str], purpose: Purpose, deadline: Deadline) -> Vec<ProcessedRecord> {
    // A redrive can be of the records of another table.
    let table = (purpose == Purpose::Invocation).then(|| table_name(store.latest_table()));
    let parse = |raw: &str| record::parse(raw, store.digits()).of_table(table);
    let records: Vec<_> = chunk.iter().map(|raw| record::caught(raw, parse)).collect();
    let (mut outcomes, removed) = purged::outcomes(store, &records, checked, purpose, deadline).await;
    let records: Vec<_> = records.into_iter().map(|record| record.erased(&removed)).collect();
    if purpose != Purpose::Invocation {
        counted::add_outcomes(store, &records, &mut outcomes, deadline).await;
    }
    let to_put = records
        .iter()
        .enumerate()
        .filter(|(index, _)| outcomes[*index].is_none());
    let to_put = to_put.filter_map(|(index, record)| Some((index, record.version()?)));
    let (indexes, versions): (Vec<_>, Vec<_>) = to_put.unzip();
    let put = write_versions(store, &versions, purpose, deadline).await;
    for (index, outcome) in indexes.into_iter().zip(put) {
        outcomes[index] = Some(outcome);
    }
    records.into_iter().zip(outcomes).map(processed).collect()
}

/// Returns the entity of a record that is not skipped, and its version.
fn checked(record: &Record) -> (Option<&EntityId>, Option<&VersionItem>) {
    match &record.content {
        Ok(Content::Version(version)) => (Some(version.entity()), Some(version)),
        Ok(Content::Skipped) => (None, None),
        Err(_) => (record.entity.as_ref(), None),
    }
}

fn processed((record, outcome): (Record, Option<Outcome>)) -> ProcessedRecord {
    let (mut request, mut ahead) = (None, None);
    let created = record.created();
    let outcome = match record.content {
        Ok(Content::Skipped) => Outcome::Skipped,
        Ok(Content::Version(version)) => {
            let created = created.map(RecordedAt::from_millis);
            let recorded = RecordedAt::of(version.item()).zip(created);
            let is_ahead = recorded.is_some_and(|(recorded, created)| recorded.is_ahead_of(created));
            ahead = is_ahead.then(|| version.version());
            request = version.request_id();
            outcome
                .unwrap_or(RecordFailure::NotReached.into())
                .with_version(version)
        }
        Err(failure) => outcome.unwrap_or(failure.into()),
    };
    ProcessedRecord {
        sequence_number: record.sequence_number,
        created,
        entity: record.entity,
        request,
        ahead,
        erasures: record.erasures,
        outcome,
    }
}

/// Returns the outcome of each version, in their order. A preview looks at each version alone.
async fn write_versions(
    store: &Store,
    versions: &[&VersionItem],
    purpose: Purpose,
    deadline: Deadline,
) -> Vec<Outcome> {
    let inserted: Vec<_> = match purpose {
        Purpose::Preview => vec![(0..versions.len()).map(|index| (index, None)).collect()],
        Purpose::Invocation | Purpose::Redrive => {
            stream::iter(batches(versions.iter().copied()))
                .map(|batch| insert(store, versions, batch, purpose, deadline))
                .buffer_unordered(MAX_CONCURRENT_REQUESTS)
                .collect()
                .await
        }
    };
    let (done, alone): (Vec<_>, Vec<_>) = inserted
        .into_iter()
        .flatten()
        .partition(|(_, outcome)| outcome.is_some());
    // A future for each version that is done already would be a tenth of the CPU time.
    let put = stream::iter(alone)
        .map(async |(index, _)| (index, put(store, versions[index], purpose, deadline).await))
        .buffer_unordered(MAX_CONCURRENT_REQUESTS)
        .collect::<Vec<_>>()
        .await;
    let done = done.into_iter().filter_map(|(index, outcome)| Some((index, outcome?)));
    let mut outcomes: Vec<_> = done.chain(put).collect();
    outcomes.sort_unstable_by_key(|(index, _)| *index);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Returns the outcomes of a batch by the indexes of its versions, `None` for a version that must be put alone.
async fn insert(
    store: &Store,
    versions: &[&VersionItem],
    batch: Vec<usize>,
    purpose: Purpose,
    deadline: Deadline,
) -> Vec<(usize, Option<Outcome>)> {
    // Unlike a statement, a put that fails returns the item that is stored under the key.
    if let [index] = batch[..] {
        return vec![(index, Some(put(store, versions[index], purpose, deadline).await))];
    }
    let batched: Vec<_> = batch.iter().map(|index| versions[*index]).collect();
    let inserted = panics::caught_async(store.put_versions(&batched, deadline)).await;
    let Ok(inserted) = inserted else {
        // Alone, only the version that panics fails.
        return batch.into_iter().map(|index| (index, None)).collect();
    };
    let outcomes = inserted.into_iter().map(|inserted| match inserted {
        BatchOutcome::Done(outcome) => Some(outcome.into()),
        BatchOutcome::Alone => None,
        BatchOutcome::NotReached => Some(RecordFailure::NotReached.into()),
    });
    batch.into_iter().zip(outcomes).collect()
}

/// Puts a version, or returns the outcome that this would have.
async fn put(store: &Store, version: &VersionItem, purpose: Purpose, deadline: Deadline) -> Outcome {
    if !deadline.allows_start() {
        return RecordFailure::NotReached.into();
    }
    let put = panics::caught_async(async {
        match purpose {
            Purpose::Preview => store.preview_put(version).await,
            Purpose::Invocation | Purpose::Redrive => store.put_version(version).await,
        }
    });
    match tokio::time::timeout_at(deadline.finish_by, put).await {
        Ok(Ok(outcome)) => outcome.into(),
        Ok(Err(panicked)) => RecordFailure::from(panicked).into(),
        Err(_) => RecordFailure::NotReached.into(),
    }
}
