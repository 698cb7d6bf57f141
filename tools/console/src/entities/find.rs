//! Search: reads a chunk of the table and sorts what it finds.

use std::time::{Duration, Instant};

use futures::future::try_join_all;
use operations::{
    read::{
        scan_latest::{LatestFilter, LatestItem, scan_latest},
        scan_request::scan_request,
    },
    segments::scan::Segment,
};
use shared::{
    domain::{entity::EntityId, version::Version},
    dynamodb::{Store, client::error::ServiceError},
};

use super::{
    PAGE, SEGMENTS,
    cursor::{PageCursor, SegmentCursor},
};

/// Number of items that the first request of each segment reads, and each further one while the search finds something. Without a
/// result, whole pages of up to 1 MB are read.
const ITEMS: i32 = 25;
const TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum number of requests of each segment for one page.
const MAX_ROUNDS: u32 = 1000;

pub(super) enum Search {
    /// Latest items.
    Latest(LatestFilter),
    /// Versions that a request created.
    Request(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hit {
    Latest(LatestItem),
    Request(EntityId, Version),
}

pub(super) struct Found {
    /// Results of the page.
    pub(super) results: Vec<Hit>,
    /// Number of items that were read up to here.
    pub(super) read: u64,
    pub(super) next: Option<PageCursor>,
}

/// Returns the segments to read, with their tables. A request ID can be in the history table.
pub(super) fn segments(store: &Store, search: &Search) -> Vec<(String, Segment)> {
    // The latest items are in the first table.
    let count = match search {
        Search::Latest(_) => 1,
        Search::Request(_) => usize::MAX,
    };
    let segment = |index| Segment { index, total: SEGMENTS };
    let tables = store.tables().take(count);
    tables
        .flat_map(|table| (0..SEGMENTS).map(move |index| (table.to_owned(), segment(index))))
        .collect()
}

pub(super) async fn find(
    store: &Store,
    search: &Search,
    segments: &[(String, Segment)],
    start: PageCursor,
) -> Result<Found, ServiceError> {
    let started = Instant::now();
    let mut cursors = start.segments.clone();
    let (mut hits, mut read, mut rounds) = (Vec::new(), 0, 0);
    loop {
        let is_at_end = cursors.iter().all(|cursor| *cursor == SegmentCursor::End);
        let is_full = match start.rounds {
            0 => rounds > 0 && (hits.len() >= PAGE || started.elapsed() >= TIMEOUT),
            known => rounds >= known,
        };
        if is_at_end || is_full || rounds == MAX_ROUNDS {
            break;
        }
        let limit = (rounds == 0 || !hits.is_empty()).then_some(ITEMS);
        let pages = segments
            .iter()
            .zip(&cursors)
            .map(async |((table, segment), cursor)| match cursor {
                SegmentCursor::End => Ok(None),
                cursor => page(store, search, table, *segment, cursor, limit).await.map(Some),
            });
        let pages = try_join_all(pages).await?;
        for (page, cursor) in pages.into_iter().zip(&mut cursors) {
            let Some((found, items, next)) = page else { continue };
            hits.extend(found);
            read += items;
            *cursor = next;
        }
        rounds += 1;
    }
    sort(&mut hits);
    let has_more = cursors.iter().any(|cursor| *cursor != SegmentCursor::End);
    let end = start.skip.saturating_add(PAGE);
    let next = match hits.len() > end {
        true => Some(PageCursor {
            rounds,
            skip: end,
            ..start.clone()
        }),
        false => has_more.then(|| PageCursor {
            segments: cursors,
            rounds: 0,
            skip: 0,
            read: start.read.saturating_add(read),
        }),
    };
    Ok(Found {
        results: hits.into_iter().skip(start.skip).take(PAGE).collect(),
        read: start.read.saturating_add(read),
        next,
    })
}

async fn page(
    store: &Store,
    search: &Search,
    table: &str,
    segment: Segment,
    cursor: &SegmentCursor,
    limit: Option<i32>,
) -> Result<(Vec<Hit>, u64, SegmentCursor), ServiceError> {
    let start = cursor.start_key();
    Ok(match search {
        Search::Latest(filter) => {
            let page = scan_latest(store, segment, filter, start, limit).await?;
            let hits = page.items.into_iter().map(Hit::Latest).collect();
            (hits, page.read, SegmentCursor::after(page.next.as_ref()))
        }
        Search::Request(id) => {
            let page = scan_request(store, table, segment, id, start, limit).await?;
            let hits = page.items.into_iter();
            let hits = hits.map(|(entity, version)| Hit::Request(entity, version)).collect();
            (hits, page.read, SegmentCursor::after(page.next.as_ref()))
        }
    })
}

/// Sorts by time, the most recent first, then by key. Entities without a known time come last.
fn sort(hits: &mut Vec<Hit>) {
    let entity = |hit: &Hit| match hit {
        Hit::Latest(latest) => (std::cmp::Reverse(latest.recorded_at), latest.entity.clone(), None),
        Hit::Request(entity, version) => (std::cmp::Reverse(None), entity.clone(), Some(*version)),
    };
    hits.sort_by_cached_key(entity);
    hits.dedup();
}

#[cfg(test)]
mod tests {
    use shared::domain::recorded_at::RecordedAt;

    use super::*;

    #[test]
    fn the_last_change_comes_first() {
        let latest = |id: &str, time: Option<&str>| {
            Hit::Latest(LatestItem {
                entity: EntityId::new(id).unwrap(),
                version: Some(Version::FIRST),
                deleted: false,
                recorded_at: time.map(|time| RecordedAt::parse(time).unwrap()),
            })
        };
        let request = |id: &str| Hit::Request(EntityId::new(id).unwrap(), Version::FIRST);
        let mut hits = vec![
            latest("a", None),
            latest("d", Some("2026-01-01")),
            latest("c", Some("2026-01-02")),
            latest("b", Some("2026-01-01")),
        ];
        sort(&mut hits);
        let ids = |hits: &[Hit]| -> Vec<_> {
            let id = |hit: &Hit| match hit {
                Hit::Latest(latest) => latest.entity.as_str().to_owned(),
                Hit::Request(entity, _) => entity.as_str().to_owned(),
            };
            hits.iter().map(id).collect()
        };
        assert_eq!(ids(&hits), ["c", "b", "d", "a"]);
        // The same version, from its version item and from the latest item.
        let mut hits = vec![request("b"), request("a"), request("b")];
        sort(&mut hits);
        assert_eq!(ids(&hits), ["a", "b"]);
    }
}
