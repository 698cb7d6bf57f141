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
    const FAILED: Option<&str> = Some("ConditionalCheckFailed");
    match error.as_service_error()? {
        TransactWriteItemsError::TransactionCanceledException(cancelled) => {
            let reasons = cancelled.cancellation_reasons();
            let mut reasons_of_puts = reasons.iter().skip(1);
            let marker = has_marker.then(|| reasons_of_puts.next()).flatten();
            let version_item = has_version_item.then(|| reasons_of_puts.next()).flatten();
            let code =
                |reason: Option<&CancellationReason>| reason.and_then(CancellationReason::code).map(str::to_owned);
            let failed = |reason: Option<&CancellationReason>| code(reason).as_deref() == FAILED;
            if failed(marker) {
                let item = marker
                    .and_then(CancellationReason::item)
                    .map(|item| Item::from(item.clone()));
                return Some(Race::AlreadyApplied(item.as_ref().and_then(Marker::from_item)));
            }
            if failed(reasons.first())
                || reasons
                    .iter()
                    .any(|reason| reason.code() == Some("TransactionConflict"))
            {
                return Some(Race::Lost);
            }
            failed(version_item).then_some(Race::Taken)
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
        let check = |ledger: bool, version: bool, codes: &[&str], expected: Option<Race>| {
            assert_eq!(race(&cancelled(codes), ledger, version), expected, "{codes:?}");
        };
        let both: &[(&[&str], Option<Race>)] = &[
            (&["ConditionalCheckFailed", "None"], Some(Race::Lost)),
            (&["ConditionalCheckFailed", "ConditionalCheckFailed"], Some(Race::Lost)),
            (&["TransactionConflict", "None"], Some(Race::Lost)),
            (&["None", "TransactionConflict"], Some(Race::Lost)),
            (&["None", "ConditionalCheckFailed"], Some(Race::Taken)),
            (&["None", "ThrottlingError"], None),
            (&["ValidationError", "None"], None),
        ];
        for (codes, expected) in both {
            check(false, true, codes, expected.clone());
        }
        let applied = || Some(Race::AlreadyApplied(None));
        // A previous delivery of the same request takes precedence.
        check(
            true,
            false,
            &["ConditionalCheckFailed", "ConditionalCheckFailed"],
            applied(),
        );
        check(true, false, &["None", "ConditionalCheckFailed"], applied());
        check(true, true, &["None", "ConditionalCheckFailed", "None"], applied());
        check(
            true,
            true,
            &["None", "None", "ConditionalCheckFailed"],
            Some(Race::Taken),
        );
        check(
            true,
            true,
            &["ConditionalCheckFailed", "None", "ConditionalCheckFailed"],
            Some(Race::Lost),
        );
        check(true, false, &["None", "TransactionConflict"], Some(Race::Lost));
        check(true, false, &["None", "ThrottlingError"], None);
    }
}
