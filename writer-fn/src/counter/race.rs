//! Explanation of a cancelled transaction by its reasons: concurrent updates and duplicates.

use aws_sdk_dynamodb::{
    error::SdkError, operation::transact_write_items::TransactWriteItemsError, types::CancellationReason,
};
use shared::domain::Item;

use crate::counter::ledger::Marker;

/// Reason why a transaction was cancelled, if it is not an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Race {
    /// The latest item has changed, or another transaction is in progress.
    Lost,
    /// The same transaction is in progress: it can still be applied.
    InProgress,
    /// The request has a marker: it was applied before.
    AlreadyApplied(Option<Marker>),
    /// The latest item has not changed, but its next version exists.
    Taken,
}

/// Explains a cancelled transaction. Its reasons are in the order of its items: the latest item, the marker of a ledger and
/// the version item, if it has them.
pub(crate) fn race<R>(
    error: &SdkError<TransactWriteItemsError, R>,
    has_marker: bool,
    has_version_item: bool,
) -> Option<Race> {
    let is = |reason: &CancellationReason, code: &str| reason.code() == Some(code);
    let failed = |reason: &&CancellationReason| is(reason, "ConditionalCheckFailed");
    match error.as_service_error()? {
        TransactWriteItemsError::TransactionCanceledException(cancelled) => {
            let all = cancelled.cancellation_reasons();
            let mut reasons = all.iter();
            let latest = reasons.next().filter(failed);
            let marker = has_marker.then(|| reasons.next()).flatten().filter(failed);
            let version_item = has_version_item.then(|| reasons.next()).flatten().filter(failed);
            if let Some(marker) = marker {
                let item = marker.item().cloned().map(Item::from);
                return Some(Race::AlreadyApplied(item.as_ref().and_then(Marker::from_item)));
            }
            if latest.is_some() || all.iter().any(|reason| is(reason, "TransactionConflict")) {
                return Some(Race::Lost);
            }
            version_item.map(|_| Race::Taken)
        }
        TransactWriteItemsError::TransactionInProgressException(_) => Some(Race::InProgress),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::error::TransactionCanceledException;

    use super::*;

    fn cancelled(codes: &[&str]) -> SdkError<TransactWriteItemsError, ()> {
        let reasons = codes
            .iter()
            .map(|code| CancellationReason::builder().code(*code).build())
            .collect();
        let error = TransactionCanceledException::builder()
            .set_cancellation_reasons(Some(reasons))
            .build();
        SdkError::service_error(TransactWriteItemsError::TransactionCanceledException(error), ())
    }

    #[test]
    fn cancelled_transactions_are_explained() {
        const FAILED: &str = "ConditionalCheckFailed";
        const CONFLICT: &str = "TransactionConflict";
        let (lost, taken, applied) = (Some(Race::Lost), Some(Race::Taken), Some(Race::AlreadyApplied(None)));
        // The reasons after that of the latest item are those of the marker, if there is one, and of the version item.
        for (has_marker, has_version_item, codes, expected) in [
            (false, true, &[FAILED, "None"][..], &lost),
            (false, true, &[FAILED, FAILED], &lost),
            (false, true, &[CONFLICT, "None"], &lost),
            (false, true, &["None", CONFLICT], &lost),
            (false, true, &["None", FAILED], &taken),
            (false, true, &["None", "ThrottlingError"], &None),
            (false, true, &["ValidationError", "None"], &None),
            // A previous delivery of the same request takes precedence.
            (true, false, &[FAILED, FAILED], &applied),
            (true, false, &["None", FAILED], &applied),
            (true, true, &["None", FAILED, "None"], &applied),
            (true, true, &["None", "None", FAILED], &taken),
            (true, true, &[FAILED, "None", FAILED], &lost),
            (true, false, &["None", CONFLICT], &lost),
            (true, false, &["None", "ThrottlingError"], &None),
        ] {
            assert_eq!(
                race(&cancelled(codes), has_marker, has_version_item),
                *expected,
                "{codes:?}"
            );
        }
    }
}
