//! Reads one shard, filters the records, and sends them to lanes, which deliver them. The records of one item are in one lane, in their
//! order. Failure documents are written beside the deliveries that follow.

use std::time::Duration;

use futures::{
    StreamExt as _,
    future::{join_all, join3},
    stream,
};
use tokio::{
    sync::mpsc::{self, Sender},
    time::Instant,
};

use super::{
    delivery::Delivery,
    environment::{Environment, Mapping},
    position::{Position, Positions as _},
    record::Record,
    shard::Shard,
    source::{Page, Source as _, SourceError},
};
use crate::lock;

/// Interval between two polls: four times per second. See <https://docs.aws.amazon.com/lambda/latest/dg/with-ddb.html>.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum number of records of one `GetRecords` page. After a full page, the next one is read at once.
const FULL_PAGE: usize = 1000;
/// Maximum number of pages queued for a lane before polling pauses.
const MAX_QUEUED_PAGES: usize = 8;
/// Maximum number of documents of a shard that are written at the same time. With more, its lanes wait.
const MAX_DOCUMENTS: usize = 16;

/// Processes a shard until its end. An open shard has no end.
pub(super) async fn process<E: Environment>(mapping: &Mapping<E>, id: &str) {
    let shard = &Shard::new(mapping, id);
    let lanes = 0..mapping.settings.parallelization_factor;
    let (senders, receivers): (Vec<_>, Vec<_>) = lanes.map(|_| mpsc::channel(MAX_QUEUED_PAGES)).unzip();
    let (given_up, mut failures) = mpsc::channel(1);
    let lane = |pages| {
        let given_up = given_up.clone();
        async move { Delivery { shard, given_up }.run(pages).await }
    };
    let lanes = join_all(receivers.into_iter().map(lane));
    // Only the lanes have a sender, so that the channel closes after the last of them.
    drop(given_up);
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
            counters.update(|counts| counts.matched += page.len());
            // Cannot fail: a lane ends only after its sender is dropped.
            let _ = lane.send(page).await;
        }
    }
}
