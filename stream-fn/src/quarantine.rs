//! Quarantine of stream records that can never become a version.
//!
//! The event source mapping would deliver such a record again until its retries or its age end, and deliver later records of
//! its shard only afterwards. So the record is stored beside the versions of its entity, with the reason, and counts as
//! processed. If that fails, or if the record names no entity, it fails, and the mapping delivers it again.

use futures::{StreamExt as _, stream};
use shared::{
    clock::Deadline,
    domain::{attached::AttachedTable, quarantine::QuarantinedRecord, version_item::VersionItem},
    dynamodb::{Store, client::error::ServiceError},
    logging::{chain, variant},
    panics,
};

use crate::{
    error::RecordFailure,
    redaction,
    response::{Outcome, ProcessedRecord},
};

const MAX_CONCURRENT_REQUESTS: usize = 8;

/// Puts the records of a chunk that can never become a version into quarantine, and replaces their outcomes. `processed` has
/// the outcomes of the records in `chunk`.
pub(crate) async fn put(store: &Store, chunk: &[&str], processed: &mut [ProcessedRecord], deadline: Deadline) {
    let permanent = processed.iter_mut().zip(chunk).filter_map(|(processed, raw)| {
        let record = record_of(processed, raw, store.attached_table())?;
        Some((processed, record))
    });
    stream::iter(permanent)
        .for_each_concurrent(MAX_CONCURRENT_REQUESTS, async |(processed, mut record)| {
            record.at = Some(store.now());
            let put = match deadline.allows_start() {
                true => {
                    let put = tokio::time::timeout_at(deadline.finish_by, store.quarantine(&record));
                    // After a panic, the record fails, and is delivered again.
                    panics::caught_async(put).await.ok().and_then(Result::ok)
                }
                false => None,
            };
            let outcome = std::mem::replace(&mut processed.outcome, Outcome::Skipped);
            processed.outcome = outcome.quarantined(put);
        })
        .await;
}

/// Returns the quarantined form of a record, without what was erased, `None` if it is processed or worth a retry, or cannot be stored.
fn record_of(processed: &ProcessedRecord, raw: &str, table: Option<&AttachedTable>) -> Option<QuarantinedRecord> {
    let Outcome::Failed { version, failure } = &processed.outcome else {
        return None;
    };
    failure.is_permanent().then_some(())?;
    Some(QuarantinedRecord {
        entity: processed.entity.clone()?,
        number: processed.sequence_number.clone()?,
        kind: variant(failure),
        reason: chain(failure),
        version: version.as_ref().map(VersionItem::version),
        at: None,
        record: redaction::without_erased(raw, &processed.erasures, table),
    })
}

impl Outcome {
    /// Returns the outcome of a permanent failure after the put into quarantine, `None` if that had no time.
    fn quarantined(self, put: Option<Result<bool, ServiceError>>) -> Self {
        match (self, put) {
            // Also if an earlier delivery of the record is in quarantine.
            (Self::Failed { version, failure }, Some(Ok(_))) => Self::Quarantined { version, failure },
            (Self::Failed { version, .. }, failed) => {
                let failure = match failed {
                    Some(Err(error)) => RecordFailure::NotQuarantined(error),
                    _ => RecordFailure::NotReached,
                };
                Self::Failed { version, failure }
            }
            (outcome, _) => outcome,
        }
    }
}
