//! Versions that were removed, by a purge or by pruning, which are never put again, and values that were erased, without which a version
//! is put.
//!
//! A purge writes a [marker](shared::domain::purge_marker), and then waits until stream-fn has processed the records that it
//! puts without reading the marker: those that are younger than [`MAX_UNCHECKED_AGE`]. So the common case needs no request.
//! An older record was delivered again, or waited in the stream or in a failure document.
//!
//! The same request reads the floor, which pruning raises before it marks versions. A pruned version can be put again only after
//! `DynamoDB` has deleted it, and then its record is no longer young.

use std::time::Duration;

use shared::{
    clock::Deadline,
    domain::{entity::EntityId, purge_marker::MAX_UNCHECKED_AGE, time::EpochMillis, version_item::VersionItem},
    dynamodb::{
        Store,
        client::error::ServiceError,
        put::{purged::Removed, put_version::PutOutcome},
    },
};

use crate::{error::RecordFailure, record::Record, response::Outcome};

/// Purpose for which records are processed: it decides what is checked before a version is put, and what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// An invocation delivers the records: purge marker and floor are read for records above [`MAX_UNCHECKED_AGE`], by the clock of
    /// the store. Records that can never become a version are put into quarantine.
    Invocation,
    /// The records are in a failure document or in quarantine, and stay there if they fail: purge marker, floor and latest item are read
    /// for all of them, and only versions that the latest item counts are put.
    Redrive,
    /// As [`Self::Redrive`], but nothing is written: the outcomes are those that the records would have now.
    Preview,
}

impl Purpose {
    /// Returns `true` if purge marker and floor are read for a record of this time.
    fn is_checked(self, created: Option<EpochMillis>, now: Duration) -> bool {
        self != Self::Invocation || !is_fresh(created, now)
    }
}

/// Returns, for each record, the outcome of one that must not be put, neither as a version nor into quarantine: it was purged or
/// pruned, or marker and floor could not be read; and what was removed of the entities of the others. `of` returns the entity of a record, unless it is skipped, and its version. Only
/// versions have floors.
pub(crate) async fn outcomes<C>(
    store: &Store,
    records: &[Record<C>],
    of: impl Fn(&Record<C>) -> (Option<&EntityId>, Option<&VersionItem>),
    purpose: Purpose,
    deadline: Deadline,
) -> (Vec<Option<Outcome>>, Removed) {
    let now = store.clock().now();
    let mut outcomes: Vec<_> = records.iter().map(|_| None).collect();
    let doubtful = records.iter().enumerate().filter_map(|(index, record)| {
        let (entity, version) = of(record);
        Some((
            index,
            entity.filter(|_| purpose.is_checked(record.created(), now))?,
            version,
        ))
    });
    let doubtful: Vec<_> = doubtful.collect();
    if doubtful.is_empty() {
        return (outcomes, Removed::default());
    }
    let entities: Vec<_> = doubtful.iter().map(|(_, entity, _)| *entity).collect();
    let removed = in_time(store.removed(entities, store.attached_table().is_none()), deadline).await;
    for (index, entity, version) in doubtful {
        outcomes[index] = match (&removed, version) {
            (Err(failed), _) => Some(not_read(failed.clone()).into()),
            (Ok(removed), Some(version)) => removed_version(store, removed, version, deadline).await,
            (Ok(removed), None) => {
                let marker = removed.marker(entity);
                let is_purged = marker.is_some_and(|marker| marker.covers_record(records[index].created()));
                is_purged.then_some(Outcome::Purged)
            }
        };
    }
    (outcomes, removed.unwrap_or_default())
}

/// Returns the outcome of a version that was purged or pruned. A version below the floor can be stored: pinned, or not expired.
async fn removed_version(
    store: &Store,
    removed: &Removed,
    version: &VersionItem,
    deadline: Deadline,
) -> Option<Outcome> {
    if removed.is_purged(version) {
        return Some(Outcome::Purged);
    }
    if !removed.is_below_floor(version) {
        return None;
    }
    Some(match in_time(store.preview_put(version), deadline).await {
        Ok(PutOutcome::Recorded) => Outcome::Pruned,
        Ok(stored) => Ok(stored).into(),
        Err(failed) => not_read(failed).into(),
    })
}

/// Reads before the deadline. The error is `None` if there is no time left.
pub(crate) async fn in_time<T>(
    read: impl Future<Output = Result<T, ServiceError>>,
    deadline: Deadline,
) -> Result<T, Option<ServiceError>> {
    if !deadline.allows_start() {
        return Err(None);
    }
    let read = tokio::time::timeout_at(deadline.finish_by, read).await;
    read.map_err(|_| None)?.map_err(Some)
}

/// Returns the failure of a record because of an item that was not read, see [`in_time`].
pub(crate) fn not_read(failed: Option<ServiceError>) -> RecordFailure {
    match failed.map(RecordFailure::from) {
        // The version itself was not rejected.
        Some(RecordFailure::Rejected(error)) => RecordFailure::Internal(error),
        failure => failure.unwrap_or(RecordFailure::NotReached),
    }
}

/// Returns `true` if a record of this time is younger than [`MAX_UNCHECKED_AGE`]. A record without a time is not.
fn is_fresh(created: Option<EpochMillis>, now: Duration) -> bool {
    let created = created.and_then(|created| u64::try_from(created.get()).ok());
    created.is_some_and(|created| now.saturating_sub(Duration::from_millis(created)) < MAX_UNCHECKED_AGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marker_is_read_for_records_of_20_seconds_and_more() {
        let now = Duration::from_millis(1_000_000);
        let fresh = |created: i64| is_fresh(Some(EpochMillis::new(created)), now);
        assert!(fresh(1_000_000) && fresh(980_001));
        assert!(!fresh(980_000) && !fresh(0) && !fresh(-1));
        // The clock of the function is behind.
        assert!(fresh(1_005_000));
        assert!(!is_fresh(None, now));
    }
}
