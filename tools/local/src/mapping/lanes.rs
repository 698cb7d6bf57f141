//! Delivers the records of a shard in lanes: the records of one item are in one lane, in their order.

use std::{collections::VecDeque, sync::Mutex};

use futures::future::{join_all, join3};
use tokio::{
    sync::mpsc::{self, error::TryRecvError},
    time::Instant,
};

use super::{
    delivery::Delivery,
    documents,
    environment::{Environment, Mapping},
    record::{Record, fitting},
    shard::Shard,
};

/// Maximum number of pages queued for a lane before polling pauses.
const MAX_QUEUED_PAGES: usize = 8;

/// Processes a shard until its end. An open shard has no end.
pub(super) async fn run<E: Environment>(mapping: &Mapping<E>, id: &str) {
    let tracker = Mutex::default();
    let shard = Shard { mapping, id, tracker };
    let lanes = 0..mapping.settings.parallelization_factor;
    let (senders, receivers): (Vec<_>, Vec<_>) = lanes.map(|_| mpsc::channel(MAX_QUEUED_PAGES)).unzip();
    let (given_up, received) = mpsc::channel(1);
    let lanes = receivers.into_iter().map(|pages| {
        let (shard, given_up) = (&shard, given_up.clone());
        lane(Delivery { shard, given_up }, pages)
    });
    let lanes = join_all(lanes);
    // Only the lanes have a sender, so that the channel closes after the last of them.
    drop(given_up);
    join3(shard.poll(senders), lanes, documents::run(&shard, received)).await;
}

/// Delivers the queued pages, one batch after the other, until the channel is closed.
async fn lane<E: Environment>(delivery: Delivery<'_, E>, mut pages: mpsc::Receiver<Vec<Record>>) {
    let settings = &delivery.shard.mapping.settings;
    let mut buffer = VecDeque::new();
    loop {
        if buffer.is_empty() {
            match pages.recv().await {
                Some(page) => buffer.extend(page),
                None => return,
            }
        }
        // Until the batch is full or the batching window ends.
        let until = Instant::now() + settings.batching_window;
        while buffer.len() < settings.batch_size && fitting(&buffer) == buffer.len() {
            let page = match pages.try_recv() {
                Err(TryRecvError::Empty) if !settings.batching_window.is_zero() => {
                    tokio::time::timeout_at(until, pages.recv()).await.ok().flatten()
                }
                page => page.ok(),
            };
            match page {
                Some(page) => buffer.extend(page),
                None => break,
            }
        }
        let count = fitting(buffer.iter().take(settings.batch_size)).max(1);
        delivery.deliver(buffer.drain(..count).collect()).await;
    }
}
