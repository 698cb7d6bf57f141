//! Writes failure documents, beside the deliveries that follow.

use std::time::Duration;

use futures::{StreamExt as _, stream::FuturesUnordered};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use super::{
    counters::{Progress, add},
    environment::{Clock as _, Destination as _, Environment},
    failure::{Failure, Reason},
    record::Record,
    shard::Shard,
};

/// Time from giving up records to their document. On AWS, the next part starts 3 to 12 ms before the document's timestamp.
const DOCUMENT_DELAY: Duration = Duration::from_millis(5);
/// Maximum number of documents of a shard that are written at the same time. With more, its lanes wait.
const MAX_DOCUMENTS: usize = 16;

/// Records that are not delivered again.
pub(super) struct GivenUp {
    pub(super) records: Vec<Record>,
    pub(super) request_id: String,
    pub(super) invoke_count: usize,
    pub(super) reason: Reason,
}

/// Writes a document for each received batch until the channel is closed.
pub(super) async fn run<E: Environment>(shard: &Shard<'_, E>, mut given_up: mpsc::Receiver<GivenUp>) {
    let mut writing = FuturesUnordered::new();
    loop {
        tokio::select! {
            // Without it, the choice is random, and a simulation cannot be repeated.
            biased;
            Some(()) = writing.next() => {}
            received = given_up.recv(), if writing.len() < MAX_DOCUMENTS => match received {
                Some(given_up) => writing.push(write(shard, given_up)),
                None => break,
            },
        }
    }
    while writing.next().await.is_some() {}
}

/// Writes one document, and marks its records as done. If the destination refuses it, the records are dropped.
async fn write<E: Environment>(shard: &Shard<'_, E>, given_up: GivenUp) {
    tokio::time::sleep(DOCUMENT_DELAY).await;
    let now = shard.mapping.clock.now();
    let records = &given_up.records;
    let failure = Failure {
        identity: &shard.mapping.identity,
        shard: shard.id,
        records,
        request_id: given_up.request_id,
        invoke_count: given_up.invoke_count,
        reason: given_up.reason,
        now,
        id: document_id(shard.id, records, now),
    };
    let counters = &shard.mapping.counters;
    if shard.mapping.destination.put(failure.document()).await.is_ok() {
        add(&counters.documents, 1);
        shard.finish(Progress::Failed, records);
    } else {
        add(&counters.dropped, records.len());
        shard.finish(Progress::Dropped, records);
    }
}

/// Returns an id in the form of a UUID, derived from the content of the document. It is not random, so that a simulation
/// can be repeated.
fn document_id(shard: &str, records: &[Record], now: Duration) -> String {
    let mut hash = Sha256::new();
    hash.update(shard);
    hash.update(now.as_nanos().to_be_bytes());
    for record in records {
        hash.update(record.sequence_number().as_str());
        hash.update([0]);
    }
    let mut id = [0; 16];
    id.copy_from_slice(&hash.finalize()[..16]);
    uuid::Builder::from_custom_bytes(id).into_uuid().to_string()
}
