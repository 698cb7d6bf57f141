//! Writes the changes of an attached table to its history.
//!
//! ```text
//! batch ─> headers ─> lanes, one for each item ─┬─> wave: read, decide ─> up to 25 versions in a request ─┬─> outcomes
//!                                               └────────────────────<────────────────────────────────────┘
//! ```
//!
//! The number of a version follows from the newest version in history, so the records of an item are processed one after the
//! other, and a record that fails ends the later records of its item. Different items are processed in parallel: each wave has at
//! most one version of each item. A record that is delivered again finds its version in history.
//!
//! The images of a record are parsed when it is processed, and at most [`MAX_ACTIVE`] items are processed at a time, to limit
//! memory.

mod lane;
mod record;

use std::collections::{HashMap, VecDeque};

use futures::{StreamExt as _, stream};
use shared::{
    clock::Deadline,
    domain::{attached::AttachedTable, entity::EntityId, version_item::VersionItem},
    dynamodb::{
        Store,
        put::{
            append::{self, Append},
            insert_versions::Inserted,
        },
    },
    panics,
};

use self::{
    lane::{Batch, Lane},
    record::Header,
};
use crate::{
    error::RecordFailure,
    purged::{self, Purpose},
    record::caught,
    response::{Outcome, ProcessedRecord},
};

/// Maximum number of items processed concurrently.
const MAX_ACTIVE: usize = 100;
const MAX_CONCURRENT_READS: usize = 32;
const MAX_CONCURRENT_WRITES: usize = 8;

/// Writes the versions of these stream records, and returns the outcome of each record, in their order.
pub(crate) async fn write(
    store: &Store,
    table: &AttachedTable,
    records: &[&str],
    purpose: Purpose,
    deadline: Deadline,
) -> Vec<ProcessedRecord> {
    let mut headers: Vec<_> = records
        .iter()
        .map(|raw| caught(raw, |raw| record::header(table, raw)))
        .collect();
    let (mut outcomes, removed) = purged::outcomes(store, &headers, checked, purpose, deadline).await;
    for header in &mut headers {
        if let Some(entity) = &header.entity {
            header.erasures = removed.erasures_of_record(entity, header.created());
        }
    }
    let batch = Batch {
        store,
        table,
        records,
        headers: &headers,
        deadline,
        is_dry: purpose == Purpose::Preview,
    };
    let lanes = lanes(&headers, &mut outcomes);
    for (index, outcome) in process(batch, lanes).await {
        outcomes[index] = Some(outcome);
    }
    let processed = |(header, outcome): (Header, Option<Outcome>)| ProcessedRecord {
        created: header.created(),
        sequence_number: header.sequence_number,
        entity: header.entity,
        request: None,
        ahead: None,
        erasures: header.erasures,
        outcome: match (header.content, outcome) {
            (_, Some(outcome)) => outcome,
            (Err(failure), None) => failure.into(),
            (Ok(_), None) => RecordFailure::NotReached.into(),
        },
    };
    headers.into_iter().zip(outcomes).map(processed).collect()
}

/// Returns the entity of a record, which is purged as a whole.
fn checked(header: &Header) -> (Option<&EntityId>, Option<&VersionItem>) {
    (header.entity.as_ref(), None)
}

/// Returns the lanes of the records that are processed, in the order of their first records. Records after one that failed are not
/// reached.
fn lanes(headers: &[Header], outcomes: &mut [Option<Outcome>]) -> VecDeque<Lane> {
    let mut lanes: Vec<Lane> = Vec::new();
    let mut by_entity: HashMap<&EntityId, Option<usize>> = HashMap::new();
    for (index, (header, outcome)) in headers.iter().zip(outcomes).enumerate() {
        let (Some(entity), Ok(_)) = (&header.entity, &header.content) else {
            continue;
        };
        match outcome {
            Some(Outcome::Failed { .. }) => {
                by_entity.insert(entity, None);
            }
            Some(_) => {}
            None => {
                let lane = by_entity.entry(entity).or_insert_with(|| {
                    lanes.push(Lane::new(entity.clone()));
                    Some(lanes.len() - 1)
                });
                match lane.and_then(|lane| lanes.get_mut(lane)) {
                    Some(lane) => lane.push(index),
                    None => *outcome = Some(RecordFailure::NotReached.into()),
                }
            }
        }
    }
    lanes.into()
}

/// Processes the lanes in waves, and returns the outcomes by the indexes of the records.
async fn process(batch: Batch<'_>, mut waiting: VecDeque<Lane>) -> Vec<(usize, Outcome)> {
    let (mut active, mut outcomes): (Vec<Lane>, _) = (Vec::new(), Vec::new());
    loop {
        let free = MAX_ACTIVE.saturating_sub(active.len()).min(waiting.len());
        active.extend(waiting.drain(..free));
        if active.is_empty() {
            return outcomes;
        }
        let advanced: Vec<_> = stream::iter(active)
            .map(async |mut lane| {
                let append = panics::caught_async(Box::pin(lane.next_append(batch))).await;
                let append = append.unwrap_or_else(|panicked| {
                    lane.fail(panicked.into());
                    None
                });
                (lane, append)
            })
            .buffered(MAX_CONCURRENT_READS)
            .collect()
            .await;
        let (mut lanes, mut appends) = (Vec::new(), Vec::new());
        for (mut lane, append) in advanced {
            outcomes.append(&mut lane.outcomes);
            if let Some(append) = append {
                lanes.push(lane);
                appends.push(append);
            }
        }
        let appended = append(batch, &appends).await;
        for (lane, appended) in lanes.iter_mut().zip(appended) {
            lane.settle(appended, batch.table);
        }
        active = lanes;
    }
}

async fn append(batch: Batch<'_>, appends: &[Append]) -> Vec<Option<Inserted>> {
    if batch.is_dry {
        return vec![Some(Ok(true)); appends.len()];
    }
    let ranges = append::batches(appends);
    // By index: the future must be `Send` for each lifetime of the slices.
    let appended: Vec<_> = stream::iter(0..ranges.len())
        .map(|index| {
            let appends = &appends[ranges[index].clone()];
            async move {
                let appended = panics::caught_async(batch.store.append_versions(appends, batch.deadline)).await;
                // Those that were written are found by their next delivery.
                appended.unwrap_or_else(|_| vec![None; appends.len()])
            }
        })
        .buffered(MAX_CONCURRENT_WRITES)
        .collect()
        .await;
    appended.into_iter().flatten().collect()
}
