//! Processes one shard: reads it, filters the records, and delivers them in lanes. The records of one item are in one lane, in their
//! order. Failure documents are written beside the deliveries that follow.

use std::{collections::VecDeque, sync::Mutex, time::Duration};

use futures::{
    StreamExt as _,
    future::{join_all, join3},
    stream,
};
use tokio::{
    sync::mpsc::{self, Receiver, Sender, error::TryRecvError},
    time::Instant,
};

use super::{
    counters::add,
    delivery::Delivery,
    environment::{Clock as _, Destination as _, Environment, Mapping},
    failure::Failure,
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
/// Time from giving up records to their document. On AWS, the next part starts 3 to 12 ms before the document's timestamp.
const DOCUMENT_DELAY: Duration = Duration::from_millis(5);
/// Maximum number of documents of a shard that are written at the same time. With more, its lanes wait.
const MAX_DOCUMENTS: usize = 16;

/// A shard, and which of its records are done.
pub(super) struct Shard<'a, E: Environment> {
    pub(super) mapping: &'a Mapping<E>,
    id: &'a str,
    tracker: Mutex<Tracker>,
}

/// Processes a shard until its end. An open shard has no end.
pub(super) async fn process<E: Environment>(mapping: &Mapping<E>, id: &str) {
    let tracker = Mutex::default();
    let shard = Shard { mapping, id, tracker };
    let lanes = 0..mapping.settings.parallelization_factor;
    let (senders, receivers): (Vec<_>, Vec<_>) = lanes.map(|_| mpsc::channel(MAX_QUEUED_PAGES)).unzip();
    let (given_up, mut failures) = mpsc::channel(1);
    let lanes = receivers.into_iter().map(|pages| shard.lane(pages, given_up.clone()));
    let lanes = join_all(lanes);
    // Only the lanes have a sender, so that the channel closes after the last of them.
    drop(given_up);
    let shard = &shard;
    let failures = stream::poll_fn(move |context| failures.poll_recv(context));
    let documents = failures.map(move |failure| shard.write(failure));
    let documents = documents.buffer_unordered(MAX_DOCUMENTS).collect::<()>();
    join3(shard.poll(senders), lanes, documents).await;
}

impl<E: Environment> Shard<'_, E> {
    /// Polls the shard until its end, and sends the records to the lanes.
    async fn poll(&self, lanes: Vec<Sender<Vec<Record>>>) {
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
                    let is_full = records.len() >= FULL_PAGE;
                    self.dispatch(records, &lanes).await;
                    if next.is_none() {
                        return;
                    }
                    iterator = next;
                    if is_full {
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
    async fn dispatch(&self, records: Vec<Record>, lanes: &[Sender<Vec<Record>>]) {
        let Mapping { counters, settings, .. } = self.mapping;
        add(&counters.read, records.len());
        lock(&self.tracker).add(&records);
        let (matched, filtered): (Vec<_>, Vec<_>) = records
            .into_iter()
            .partition(|record| settings.filters.matches(record.json()));
        self.finish(&filtered);
        let mut pages = vec![Vec::new(); lanes.len()];
        for record in matched {
            pages[record.lane(lanes.len())].push(record);
        }
        for (page, lane) in pages.into_iter().zip(lanes).filter(|(page, _)| !page.is_empty()) {
            add(&counters.matched, page.len());
            // Cannot fail: a lane ends only after its sender is dropped.
            let _ = lane.send(page).await;
        }
    }

    /// Delivers the queued pages, one batch after the other, until the channel is closed.
    async fn lane(&self, mut pages: Receiver<Vec<Record>>, given_up: Sender<Failure>) {
        let settings = &self.mapping.settings;
        let delivery = Delivery { shard: self, given_up };
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

    /// Writes a failure document, and marks its records as done. If the destination refuses it, the records are dropped.
    async fn write(&self, failure: Failure) {
        tokio::time::sleep(DOCUMENT_DELAY).await;
        let Mapping { identity, counters, .. } = self.mapping;
        let document = failure.document(identity, self.id, self.mapping.clock.now());
        if self.mapping.destination.put(document).await.is_ok() {
            add(&counters.documents, 1);
            add(&counters.failed, failure.records.len());
        } else {
            add(&counters.dropped, failure.records.len());
        }
        self.finish(&failure.records);
    }

    /// Marks records as done, and saves the position.
    pub(super) fn finish(&self, records: &[Record]) {
        if let Some(position) = lock(&self.tracker).done(records) {
            // If the position cannot be saved, records may be delivered again, which is allowed.
            let _ = self.mapping.positions.save(self.id, &position);
        }
    }
}
