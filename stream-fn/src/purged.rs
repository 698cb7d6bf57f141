//! Versions of a purged entity, which are never put.
//!
//! A purge writes a [marker](shared::domain::purge_marker), and then waits until stream-fn has processed the records that it
//! puts without reading the marker: those that are younger than [`MAX_UNCHECKED_AGE`]. So the common case needs no request.
//! An older record was delivered again, or waited in the stream or in a failure document.

use std::time::Duration;

use shared::{
    clock::Deadline,
    domain::{entity::EntityId, time::EpochMillis},
    dynamodb::{
        Store,
        maintain::purge::MAX_UNCHECKED_AGE,
        put::{purged::PurgeMarkers, put_version::PutError},
    },
};

use crate::{
    error::RecordFailure,
    record::{Content, Record},
    response::Outcome,
};

/// Where records come from, which decides what is checked before a version is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// An invocation: the purge marker is read for records above [`MAX_UNCHECKED_AGE`], by the clock of the store.
    Stream,
    /// A failure document or quarantine: the purge marker and the latest item are read for all records.
    Kept,
}

impl Origin {
    /// Returns `true` if the purge marker of a record of this time is read.
    pub(crate) fn is_checked(self, created: Option<EpochMillis>, now: Duration) -> bool {
        match self {
            Self::Kept => true,
            Self::Stream => !is_fresh(created, now),
        }
    }
}

/// Returns, for each record, the outcome of one that must not be put, neither as a version nor into quarantine: it was purged,
/// or its marker could not be read.
pub(crate) async fn outcomes(
    store: &Store,
    records: &[Record],
    origin: Origin,
    deadline: Deadline,
) -> Vec<Option<Outcome>> {
    let now = store.clock().now();
    let is_checked = |record: &Record| origin.is_checked(record.created, now);
    let doubtful: Vec<_> = records
        .iter()
        .map(|record| match &record.content {
            Ok(Content::Version(version)) => Some(version.entity()),
            Ok(Content::Skipped) => None,
            Err(_) => record.entity.as_ref(),
        })
        .zip(records)
        .map(|(entity, record)| entity.filter(|_| is_checked(record)))
        .collect();
    if doubtful.iter().all(Option::is_none) {
        return records.iter().map(|_| None).collect();
    }
    let entities: Vec<_> = doubtful.iter().copied().flatten().collect();
    let markers = markers(store, &entities, deadline).await;
    let outcome = |(record, entity): (&Record, Option<&EntityId>)| match (&markers, entity?) {
        (Ok(markers), entity) => {
            let marker = markers.of(entity)?;
            let is_purged = match &record.content {
                Ok(Content::Version(version)) => marker.covers(version),
                _ => marker.covers_record(record.created),
            };
            is_purged.then_some(Outcome::Purged)
        }
        (Err(None), _) => Some(RecordFailure::NotReached.into()),
        (Err(Some(error)), _) => Some(RecordFailure::of_read(error.clone()).into()),
    };
    records.iter().zip(doubtful).map(outcome).collect()
}

/// Reads the markers of these entities. The error is `None` if there is no time left.
pub(crate) async fn markers(
    store: &Store,
    entities: &[&EntityId],
    deadline: Deadline,
) -> Result<PurgeMarkers, Option<PutError>> {
    if !deadline.allows_start() {
        return Err(None);
    }
    let read = tokio::time::timeout_at(deadline.finish_by, store.purge_markers(entities.iter().copied())).await;
    read.map_err(|_| None)?.map_err(|error| Some(PutError(error)))
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
