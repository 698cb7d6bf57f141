//! Search: reads a chunk of the table and sorts what it finds.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use aws_sdk_dynamodb::types::AttributeValue::S;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use futures::future::try_join_all;
use operations::{
    read::{
        histories::scan_histories,
        scans::{LatestFilter, LatestItem, scan_latest},
    },
    segments::scan::{Page, Segment},
};
use serde::{Deserialize, Serialize};
use shared::{
    domain::names,
    dynamodb::{Store, client::error::ServiceError, read::query_items::Cursor},
};

/// Number of segments of the table that are scanned in parallel.
const SEGMENTS: u32 = 4;
const PAGE: usize = 50;
/// Number of items that the first request of each segment reads, and each further one while the search finds something. Without a
/// result, whole pages of up to 1 MB are read.
const ITEMS: i32 = 25;
const TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum number of requests of each segment for one page.
const MAX_ROUNDS: u32 = 1000;

/// Position of a page: a chunk, and the first result of the page within it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    /// Segments that are not at their end at the start of the chunk, each with the key of the last item that was read.
    left: BTreeMap<u32, Option<(String, String)>>,
    /// Number of requests of each segment in the chunk, 0 if it is not known yet.
    rounds: u32,
    /// Number of results of the chunk on earlier pages.
    skip: usize,
    /// Number of items that were read for earlier chunks.
    read: u64,
}

impl Position {
    pub(super) fn first() -> Self {
        Self::of_chunk((0..SEGMENTS).map(|index| (index, None)).collect(), 0)
    }

    fn of_chunk(left: BTreeMap<u32, Option<(String, String)>>, read: u64) -> Self {
        Self {
            left,
            rounds: 0,
            skip: 0,
            read,
        }
    }

    /// Returns the text of the position in an address.
    pub(super) fn text(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(self).unwrap_or_default())
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let position: Self = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        position.left.keys().all(|index| *index < SEGMENTS).then_some(position)
    }
}

pub(super) struct Found {
    /// Results of the page.
    pub(super) results: Vec<LatestItem>,
    /// Number of items that were read up to here.
    pub(super) read: u64,
    pub(super) next: Option<Position>,
}

pub(super) async fn find(store: &Store, filter: &LatestFilter, start: Position) -> Result<Found, ServiceError> {
    let started = Instant::now();
    let (mut left, mut read) = (start.left.clone(), start.read);
    let (mut hits, mut rounds) = (Vec::new(), 0);
    loop {
        let is_full = match start.rounds {
            0 => rounds > 0 && (hits.len() >= PAGE || started.elapsed() >= TIMEOUT),
            known => rounds >= known,
        };
        if left.is_empty() || is_full || rounds == MAX_ROUNDS {
            break;
        }
        let limit = (rounds == 0 || !hits.is_empty()).then_some(ITEMS);
        let pages = left.iter().map(async |(index, last)| {
            let start = last.as_ref().map(cursor);
            page(store, filter, *index, start, limit)
                .await
                .map(|page| (*index, page))
        });
        for (index, page) in try_join_all(pages).await? {
            hits.extend(page.items);
            read = read.saturating_add(page.read);
            match page.next.as_ref().and_then(keys) {
                Some(last) => left.insert(index, Some(last)),
                None => left.remove(&index),
            };
        }
        rounds += 1;
    }
    sort(&mut hits);
    let end = start.skip.saturating_add(PAGE);
    let next = match hits.len() > end {
        true => Some(Position {
            rounds,
            skip: end,
            ..start.clone()
        }),
        false => (!left.is_empty()).then(|| Position::of_chunk(left, read)),
    };
    let results = hits.into_iter().skip(start.skip).take(PAGE).collect();
    Ok(Found { results, read, next })
}

/// Reads a page of a segment.
async fn page(
    store: &Store,
    filter: &LatestFilter,
    index: u32,
    start: Option<Cursor>,
    limit: Option<i32>,
) -> Result<Page<LatestItem>, ServiceError> {
    let segment = Segment { index, total: SEGMENTS };
    match store.attached_table() {
        Some(_) => Box::pin(scan_histories(store, segment, filter, start, limit)).await,
        None => scan_latest(store, segment, filter, start, limit).await,
    }
}

fn cursor((partition_key, sort_key): &(String, String)) -> Cursor {
    let keys = [(names::PK, partition_key), (names::SK, sort_key)];
    HashMap::from(keys.map(|(name, key)| (name.to_owned(), S(key.clone()))))
}

fn keys(cursor: &Cursor) -> Option<(String, String)> {
    let key = |name: &str| cursor.get(name)?.as_s().ok().cloned();
    Some((key(names::PK)?, key(names::SK)?))
}

/// Sorts by time, the most recent first, then by key. Entities without a known time come last.
fn sort(hits: &mut Vec<LatestItem>) {
    hits.sort_by_cached_key(|hit| (Reverse(hit.recorded_at), hit.entity.clone(), hit.version));
    hits.dedup();
}
