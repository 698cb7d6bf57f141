//! Reads one shard, filters its records, and delivers them in lanes.

use std::{collections::VecDeque, sync::Mutex, time::Duration};

use futures::future::{join_all, join3};
use tokio::{
    sync::mpsc::{self, error::TryRecvError},
    time::Instant,
};

use super::{
    counters::{Progress, add},
    delivery::Delivery,
    documents,
    environment::{Environment, Mapping},
    position::{Position, Positions as _, Tracker},
    record::{Record, fitting},
    source::{Page, Source as _, SourceError},
};
use crate::lock;

/// Interval between two polls: four times per second. See <https://docs.aws.amazon.com/lambda/latest/dg/with-ddb.html>.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum number of records of one `GetRecords` page. After a full page, the next one is read at once.
const FULL_PAGE: usize = 1000;
/// Maximum number of pages queued for a lane before polling pauses.
const MAX_QUEUED_PAGES: usize = 8;

/// A shard, and which of its records are done.
pub(super) struct Shard<'a, E: Environment> {
    pub(super) mapping: &'a Mapping<E>,
    pub(super) id: &'a str,
    tracker: Mutex<Tracker>,
}

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

impl<E: Environment> Shard<'_, E> {
    async fn poll(&self, lanes: Vec<mpsc::Sender<Vec<Record>>>) {
        let Mapping { source, settings, .. } = self.mapping;
        let stored = self.mapping.positions.load(self.id);
        let mut position = stored.unwrap_or_else(|| settings.starting_position.clone());
        let mut iterator: Option<String> = None;
        loop {
            let started = Instant::now();
            let page = match iterator.take() {
                Some(iterator) => source.read(&iterator).await,
                None => match source.iterator(self.id, &position).await {
                    Ok(iterator) => source.read(&iterator).await,
                    Err(error) => Err(error),
                },
            };
            match page {
                Ok(Page { records, next }) => {
                    if let Some(last) = records.last() {
                        position = Position::After(last.sequence_number().clone());
                    }
                    let full = records.len() >= FULL_PAGE;
                    self.dispatch(records, &lanes).await;
                    if next.is_none() {
                        return;
                    }
                    iterator = next;
                    if full {
                        continue;
                    }
                }
                Err(SourceError::ExpiredIterator) => continue,
                Err(SourceError::Trimmed) => position = Position::TrimHorizon,
                Err(SourceError::Unavailable(_)) => {}
            }
            tokio::time::sleep_until(started + POLL_INTERVAL).await;
        }
    }

    /// Sends each record that matches the filter to the lane of its item, and marks the others as done.
    async fn dispatch(&self, records: Vec<Record>, lanes: &[mpsc::Sender<Vec<Record>>]) {
        let Mapping { counters, settings, .. } = self.mapping;
        add(&counters.read, records.len());
        lock(&self.tracker).add(&records);
        let (matched, filtered): (Vec<_>, Vec<_>) = records
            .into_iter()
            .partition(|record| settings.filters.matches(record.json()));
        self.finish(Progress::Filtered, &filtered);
        let mut pages = vec![Vec::new(); lanes.len()];
        for record in matched {
            pages[record.lane(lanes.len())].push(record);
        }
        for (page, lane) in pages.into_iter().zip(lanes).filter(|(page, _)| !page.is_empty()) {
            add(&counters.matched, page.len());
            counters.observe(Progress::Queued, &page);
            // Cannot fail: a lane ends only after its sender is dropped.
            let _ = lane.send(page).await;
        }
    }

    /// Marks records as done, and saves the position.
    pub(super) fn finish(&self, progress: Progress, records: &[Record]) {
        self.mapping.counters.observe(progress, records);
        if let Some(position) = lock(&self.tracker).done(records) {
            // If the position cannot be saved, records may be delivered again, which is allowed.
            let _ = self.mapping.positions.save(self.id, &position);
        }
    }
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
