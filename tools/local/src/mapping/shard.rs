//! One shard: polled, filtered, dealt out to lanes.

use std::{
    sync::{Mutex, PoisonError, atomic::AtomicU64},
    time::Duration,
};

use futures::future::{join, join_all};
use tokio::{sync::mpsc, time::Instant};

use super::{
    Clock, Counters, Invoker, Mapping, Watch,
    destination::Destination,
    lane,
    position::{Position, Positions, Tracker},
    record::Record,
    source::{Page, Source, SourceError},
    start,
};

/// A shard is polled four times a second (Lambda developer guide, "Using AWS Lambda with Amazon DynamoDB").
pub const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// The most records of one page (`GetRecords`). Behind a full page there may be another.
const FULL_PAGE: usize = 1000;
/// How many pages may wait for a lane before polling pauses.
const PAGES_AHEAD: usize = 8;

/// A record on its way through a lane, and its ticket with the tracker.
pub(super) type Entry = (u64, Record);

/// A shard that is being worked on.
pub(super) struct Shard<'a, S, I, D, P, C> {
    pub(super) mapping: &'a Mapping<S, I, D, P, C>,
    pub(super) id: &'a str,
    tracker: Mutex<Tracker>,
}

/// Works on a shard until its end, which an open shard does not have.
pub(super) async fn work<S, I, D, P, C>(mapping: &Mapping<S, I, D, P, C>, id: &str)
where
    S: Source,
    I: Invoker,
    D: Destination,
    P: Positions,
    C: Clock,
{
    let shard = Shard {
        mapping,
        id,
        tracker: Mutex::default(),
    };
    let lanes = 0..mapping.settings.parallelization_factor;
    let (senders, receivers): (Vec<_>, Vec<_>) = lanes.map(|_| mpsc::channel(PAGES_AHEAD)).unzip();
    let lanes = receivers.into_iter().map(|pages| lane::work(&shard, pages));
    join(shard.poll(senders), join_all(lanes)).await;
}

impl<S, I, D, P, C> Shard<'_, S, I, D, P, C>
where
    S: Source,
    P: Positions,
{
    async fn poll(&self, lanes: Vec<mpsc::Sender<Vec<Entry>>>) {
        let source = &self.mapping.source;
        let mut position = start(self.mapping.positions.load(self.id), &self.mapping.settings);
        let mut iterator: Option<String> = None;
        loop {
            let began = Instant::now();
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
                    self.deal_out(records, &lanes).await;
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
            tokio::time::sleep_until(began + POLL_INTERVAL).await;
        }
    }

    /// Filtered records move the position on, the others go to the lane of their item.
    async fn deal_out(&self, records: Vec<Record>, lanes: &[mpsc::Sender<Vec<Entry>>]) {
        let mut pages: Vec<Vec<Entry>> = vec![Vec::new(); lanes.len()];
        let mut filtered = Vec::new();
        self.count(|counters| &counters.read, records.len());
        for record in records {
            let ticket = self.tracker().note(record.sequence_number().clone());
            if self.mapping.settings.filters.matches(record.json()) {
                pages[record.lane(lanes.len())].push((ticket, record));
            } else {
                filtered.push(ticket);
            }
        }
        self.done(filtered);
        for (page, lane) in pages.into_iter().zip(lanes).filter(|(page, _)| !page.is_empty()) {
            self.count(|counters| &counters.matched, page.len());
            self.tell(|watch| watch.taken(&page.iter().map(|(_, record)| record).collect::<Vec<_>>()));
            // A lane ends only after this, its sender.
            let _ = lane.send(page).await;
        }
    }

    /// Notes that records are done, and keeps the position where it moved.
    pub(super) fn done(&self, tickets: impl IntoIterator<Item = u64>) {
        if let Some(position) = self.tracker().done(tickets) {
            // A position that could not be kept means that records are delivered again, which they may be.
            let _ = self.mapping.positions.save(self.id, &position);
        }
    }

    pub(super) fn count(&self, counter: impl Fn(&Counters) -> &AtomicU64, count: usize) {
        Counters::add(counter(&self.mapping.counters), count);
    }

    /// Tells whoever watches.
    pub(super) fn tell(&self, what: impl FnOnce(&dyn Watch)) {
        if let Some(watch) = &self.mapping.counters.watch {
            what(watch.as_ref());
        }
    }

    fn tracker(&self) -> std::sync::MutexGuard<'_, Tracker> {
        self.tracker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
