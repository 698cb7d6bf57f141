//! Reads one shard, and filters its records.

use std::{sync::Mutex, time::Duration};

use tokio::{sync::mpsc, time::Instant};

use super::{
    counters::{Progress, add},
    environment::{Environment, Mapping},
    position::{Position, Positions as _, Tracker},
    record::Record,
    source::{Page, Source as _, SourceError},
};
use crate::lock;

/// Interval between two polls: four times per second. See <https://docs.aws.amazon.com/lambda/latest/dg/with-ddb.html>.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum number of records of one `GetRecords` page. After a full page, the next one is read at once.
const FULL_PAGE: usize = 1000;

/// A shard, and which of its records are done.
pub(super) struct Shard<'a, E: Environment> {
    pub(super) mapping: &'a Mapping<E>,
    pub(super) id: &'a str,
    pub(super) tracker: Mutex<Tracker>,
}

impl<E: Environment> Shard<'_, E> {
    /// Polls the shard until its end, and sends the records to the lanes.
    pub(super) async fn poll(&self, lanes: Vec<mpsc::Sender<Vec<Record>>>) {
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
