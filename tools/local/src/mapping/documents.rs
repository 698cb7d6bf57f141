//! Writes failure documents, beside the deliveries that follow.

use std::time::Duration;

use futures::{StreamExt as _, stream::FuturesUnordered};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use super::{
    destination::Destination as _,
    environment::{Clock as _, Environment},
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
    pub(super) tickets: Vec<u64>,
    pub(super) records: Vec<Record>,
    pub(super) request_id: String,
    pub(super) invoke_count: u32,
    pub(super) reason: Reason,
}

pub(super) fn channel() -> (mpsc::Sender<GivenUp>, mpsc::Receiver<GivenUp>) {
    mpsc::channel(1)
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
    let GivenUp {
        tickets,
        records,
        request_id,
        invoke_count,
        reason,
    } = given_up;
    let now = shard.mapping.clock.now();
    let failure = Failure {
        identity: &shard.mapping.identity,
        shard: shard.id,
        records: &records,
        request_id,
        invoke_count,
        reason,
        now,
        id: document_id(shard.id, &records, now),
    };
    if shard.mapping.destination.put(failure.document()).await.is_ok() {
        shard.count(|counters| &counters.documents, 1);
        shard.notify(|observer| observer.failed(&records));
    } else {
        shard.count(|counters| &counters.dropped, records.len());
        shard.notify(|observer| observer.dropped(&records));
    }
    shard.done(tickets);
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
    let bytes: [u8; 32] = hash.finalize().into();
    let (id, _) = bytes.split_at(16);
    uuid::Builder::from_slice(id).map_or_else(
        |_| String::new(),
        |builder| builder.with_version(uuid::Version::Custom).into_uuid().to_string(),
    )
}
