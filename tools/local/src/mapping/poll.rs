//! Reads one shard, filters its records, and dispatches them to lanes.

use std::time::Duration;

use futures::future::{join_all, join3};
use tokio::{sync::mpsc, time::Instant};

use super::{
    delivery::Delivery,
    documents,
    environment::{Environment, Mapping},
    lane,
    position::{Position, Positions as _},
    record::Record,
    settings::StartingPosition,
    shard::{Entry, Shard},
    source::{Page, Source as _, SourceError},
};

/// Interval between two polls: four times per second. See <https://docs.aws.amazon.com/lambda/latest/dg/with-ddb.html>.
pub const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum number of records of one `GetRecords` page. After a full page, the next one is read at once.
const FULL_PAGE: usize = 1000;
/// Maximum number of pages queued for a lane before polling pauses.
const MAX_QUEUED_PAGES: usize = 8;

/// Processes a shard until its end. An open shard has no end.
pub(super) async fn run<E: Environment>(mapping: &Mapping<E>, id: &str) {
    let shard = Shard::new(mapping, id);
    let lanes = 0..mapping.settings.parallelization_factor;
    let (senders, receivers): (Vec<_>, Vec<_>) = lanes.map(|_| mpsc::channel(MAX_QUEUED_PAGES)).unzip();
    let (given_up, received) = documents::channel();
    let lanes = receivers.into_iter().map(|pages| {
        let (shard, given_up) = (&shard, given_up.clone());
        lane::run(Delivery { shard, given_up }, pages)
    });
    let lanes = join_all(lanes);
    // Only the lanes have a sender, so that the channel closes after the last of them.
    drop(given_up);
    join3(poll(&shard, senders), lanes, documents::run(&shard, received)).await;
}

async fn poll<E: Environment>(shard: &Shard<'_, E>, lanes: Vec<mpsc::Sender<Vec<Entry>>>) {
    let Mapping {
        source,
        positions,
        settings,
        ..
    } = shard.mapping;
    let mut position = positions.load(shard.id).unwrap_or(match settings.starting_position {
        StartingPosition::TrimHorizon => Position::TrimHorizon,
        StartingPosition::Latest => Position::Latest,
    });
    let mut iterator: Option<String> = None;
    loop {
        let started = Instant::now();
        let page = match iterator.take() {
            Some(iterator) => source.read(&iterator).await,
            None => match source.iterator(shard.id, &position).await {
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
                dispatch(shard, records, &lanes).await;
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
async fn dispatch<E: Environment>(shard: &Shard<'_, E>, records: Vec<Record>, lanes: &[mpsc::Sender<Vec<Entry>>]) {
    let mut pages: Vec<Vec<Entry>> = vec![Vec::new(); lanes.len()];
    let mut filtered = Vec::new();
    shard.count(|counters| &counters.read, records.len());
    for record in records {
        let ticket = shard.track(&record);
        if shard.mapping.settings.filters.matches(record.json()) {
            pages[record.lane(lanes.len())].push((ticket, record));
        } else {
            shard.notify(|observer| observer.filtered(&record));
            filtered.push(ticket);
        }
    }
    shard.done(filtered);
    for (page, lane) in pages.into_iter().zip(lanes).filter(|(page, _)| !page.is_empty()) {
        shard.count(|counters| &counters.matched, page.len());
        shard.notify(|observer| observer.queued(&page.iter().map(|(_, record)| record).collect::<Vec<_>>()));
        // Cannot fail: a lane ends only after its sender is dropped.
        let _ = lane.send(page).await;
    }
}
