//! Versions that the index by time shows in a period of insertion.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use operations::{
    rate_limit::RateLimiter,
    read::paced::Paced,
    time_index::{pages::IndexPages, source::Window},
};
use sha2::{Digest as _, Sha256};
use shared::{
    domain::{
        Item,
        attributes::text,
        entity::EntityId,
        keys::{partition_key_of, sort_key_of},
        recorded_at::RecordedAt,
        time_index::{self, AHEAD, INSERTED_AT, late_partitions, parse, partitions},
        version::Version,
    },
    dynamodb::{Store, client::error::ServiceError},
};

use crate::{staged::Known, state::Request};

/// Number of partitions that are read at the same time.
const CONCURRENCY: usize = 8;

/// A version that the log may lack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Entity.
    pub entity: EntityId,
    /// Version.
    pub version: Version,
    /// Time of insertion, as the index has it. Empty for a version that it lacks.
    pub inserted: String,
    /// By which the next runs know it.
    pub known: Known,
    /// Time from which on the log can contain it already, if it was not inserted on time: such a version can have been inserted before, and
    /// lost. An empty text is any time.
    pub since: Option<String>,
}

impl Candidate {
    /// Returns the candidate of a version that an operator wants to be sealed. The log is read first.
    pub(crate) fn requested(store: &Store, request: &Request) -> Self {
        let inserted = parse(&request.inserted).map_or(0, |(inserted, _)| millis(inserted));
        let version_key = store.digits().version_key(request.version);
        Self {
            entity: request.entity.clone(),
            version: request.version,
            inserted: request.inserted.clone(),
            known: Known {
                inserted,
                key: key_of(request.entity.as_str(), &version_key),
            },
            since: Some(String::new()),
        }
    }
}

/// Returns the versions that were inserted at this time or later, and before another one. `None` if there are more than `limit`.
///
/// # Errors
///
/// A request fails.
pub async fn candidates(
    store: &Store,
    since: RecordedAt,
    before: Option<RecordedAt>,
    limit: usize,
) -> Result<Option<Vec<Candidate>>, ServiceError> {
    let pages = IndexPages {
        table: Paced::new(store, &RateLimiter::unlimited()),
        window: Window::all().inserted_since(since).inserted_before(before),
    };
    let partitions = partitions().chain(late_partitions());
    let reads = partitions.map(async |partition| {
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let (entries, next) = pages.page(&partition, cursor).await?;
            found.extend(entries.iter().filter_map(|entry| candidate(store, &partition, entry)));
            cursor = next;
            if cursor.is_none() || found.len() > limit {
                return Ok::<_, ServiceError>(found);
            }
        }
    });
    let mut reads = stream::iter(reads).buffer_unordered(CONCURRENCY);
    let mut all = Vec::new();
    while let Some(found) = reads.try_next().await? {
        all.extend(found);
        if all.len() > limit {
            return Ok(None);
        }
    }
    Ok(Some(all))
}

fn candidate(store: &Store, partition: &str, entry: &Item) -> Option<Candidate> {
    let inserted_at = text(entry, INSERTED_AT)?;
    let (inserted, _) = parse(inserted_at)?;
    let is_late = partition.starts_with("late");
    Some(Candidate {
        entity: EntityId::new(partition_key_of(entry)?).ok()?,
        version: store.digits().version_of_item(entry)?,
        inserted: inserted_at.to_owned(),
        known: Known {
            inserted: millis(inserted),
            key: key_of(partition_key_of(entry)?, sort_key_of(entry)?),
        },
        since: is_late.then(|| earliest(inserted_at)),
    })
}

/// Returns the earliest time at which a version with this mark can have been inserted.
pub(crate) fn earliest(mark: &str) -> String {
    let recorded = parse(mark).and_then(|(_, recorded)| recorded);
    recorded.map_or(String::new(), |time| time_index::millis(time.before(AHEAD)))
}

fn millis(time: RecordedAt) -> u64 {
    u64::try_from(time.to_duration().as_millis()).unwrap_or(u64::MAX)
}

fn key_of(partition_key: &str, sort_key: &str) -> [u8; 16] {
    let mut hasher = Sha256::new();
    hasher.update((partition_key.len() as u64).to_be_bytes());
    hasher.update(partition_key);
    hasher.update(sort_key);
    let hash = hasher.finalize();
    let mut key = [0; 16];
    key.copy_from_slice(&hash[..16]);
    key
}
