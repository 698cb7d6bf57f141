//! One lane of a shard: batches, one after the other.

use std::collections::VecDeque;

use tokio::{
    sync::mpsc::{Receiver, error::TryRecvError},
    time::Instant,
};

use super::{
    Clock, Invoker,
    delivery::deliver,
    destination::Destination,
    position::Positions,
    settings::Settings,
    shard::{Entry, Shard},
    source::Source,
};

/// The most payload of one invocation, in bytes.
const MAX_PAYLOAD: usize = 6 * 1024 * 1024;
/// What a batch adds to its records: `{"Records":[…]}` and a comma each.
const AROUND_RECORDS: usize = 14;

/// Delivers what comes, until no more can come.
pub(super) async fn work<S, I, D, P, C>(shard: &Shard<'_, S, I, D, P, C>, mut pages: Receiver<Vec<Entry>>)
where
    S: Source,
    I: Invoker,
    D: Destination,
    P: Positions,
    C: Clock,
{
    let mut buffer = VecDeque::new();
    loop {
        if buffer.is_empty() {
            match pages.recv().await {
                Some(page) => buffer.extend(page),
                None => return,
            }
        }
        fill(&mut buffer, &mut pages, &shard.mapping.settings).await;
        let batch = take_batch(&mut buffer, shard.mapping.settings.batch_size);
        deliver(shard, batch).await;
    }
}

/// Waits until a batch is full or its window ends.
async fn fill(buffer: &mut VecDeque<Entry>, pages: &mut Receiver<Vec<Entry>>, settings: &Settings) {
    let until = Instant::now() + settings.batching_window;
    while buffer.len() < settings.batch_size && payload(buffer) < MAX_PAYLOAD {
        let page = match pages.try_recv() {
            Ok(page) => page,
            Err(TryRecvError::Disconnected) => return,
            Err(TryRecvError::Empty) if settings.batching_window.is_zero() => return,
            Err(TryRecvError::Empty) => match tokio::time::timeout_at(until, pages.recv()).await {
                Ok(Some(page)) => page,
                _ => return,
            },
        };
        buffer.extend(page);
    }
}

fn payload(buffer: &VecDeque<Entry>) -> usize {
    AROUND_RECORDS + buffer.iter().map(|(_, record)| record.size() + 1).sum::<usize>()
}

/// Takes as many records as a batch may have, and at least one.
fn take_batch(buffer: &mut VecDeque<Entry>, batch_size: usize) -> Vec<Entry> {
    let mut batch = Vec::new();
    let mut size = AROUND_RECORDS;
    while let Some((_, record)) = buffer.front() {
        size += record.size() + 1;
        if batch.len() == batch_size || (size > MAX_PAYLOAD && !batch.is_empty()) {
            break;
        }
        batch.extend(buffer.pop_front());
    }
    batch
}
