//! One lane of a shard: delivers its batches one after the other.

use std::collections::VecDeque;

use tokio::{
    sync::mpsc::{Receiver, error::TryRecvError},
    time::Instant,
};

use super::{
    delivery::Delivery, environment::Environment, invoker::MAX_PAYLOAD, record::ENVELOPE_BYTES, settings::Settings,
    shard::Entry,
};

/// Delivers the queued pages until the channel is closed.
pub(super) async fn run<E: Environment>(delivery: Delivery<'_, E>, mut pages: Receiver<Vec<Entry>>) {
    let settings = &delivery.shard.mapping.settings;
    let mut buffer = VecDeque::new();
    loop {
        if buffer.is_empty() {
            match pages.recv().await {
                Some(page) => buffer.extend(page),
                None => return,
            }
        }
        fill(&mut buffer, &mut pages, settings).await;
        let batch = take_batch(&mut buffer, settings.batch_size);
        delivery.deliver(batch).await;
    }
}

/// Receives pages until the batch is full or the batching window ends.
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
    ENVELOPE_BYTES + buffer.iter().map(|(_, record)| record.size() + 1).sum::<usize>()
}

/// Takes as many records as fit in a batch, and at least one.
fn take_batch(buffer: &mut VecDeque<Entry>, batch_size: usize) -> Vec<Entry> {
    let mut batch = Vec::new();
    let mut size = ENVELOPE_BYTES;
    while let Some((_, record)) = buffer.front() {
        size += record.size() + 1;
        if batch.len() == batch_size || (size > MAX_PAYLOAD && !batch.is_empty()) {
            break;
        }
        batch.extend(buffer.pop_front());
    }
    batch
}
