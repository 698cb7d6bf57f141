//! Explanation of a cancelled transaction by its reasons: concurrent updates and duplicates.

use aws_sdk_dynamodb::{
    error::SdkError, operation::transact_write_items::TransactWriteItemsError, types::CancellationReason,
};
use shared::{domain::Item, dynamodb::cancellation};

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

/// Reason why the transaction of a change set was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetRace {
    /// A latest item has changed, a request has a marker, or DynamoDB was busy: the set is decided again.
    Lost,
    /// The latest items have not changed, but the next version of this one exists.
    Taken(usize),
    /// DynamoDB rejects a write of this entity.
    Rejected(usize),
}

/// Explains the cancelled transaction of a change set. `lengths` has the number of its items for each entity. `None` for another error.
pub(crate) fn set_race<R>(
    error: &SdkError<TransactWriteItemsError, R>,
    lengths: &[usize],
    has_marker: bool,
) -> Option<SetRace> {
    if let Some(TransactWriteItemsError::TransactionInProgressException(_)) = error.as_service_error() {
        return Some(SetRace::Lost);
    }
    let of_entity = |(entity, length): (usize, &usize)| (0..*length).map(move |place| (entity, place));
    let items = lengths.iter().enumerate().flat_map(of_entity);
    let reasons = items.zip(cancellation::reasons_of(error));
    let failed: Vec<_> = reasons.filter(|(_, reason)| reason.code() != Some("None")).collect();
    let is_condition = |reason: &CancellationReason| reason.code() == Some(cancellation::CONDITION);
    let mut lost = failed.iter().filter(|((_, place), reason)| {
        let is_latest_or_marker = *place <= usize::from(has_marker);
        cancellation::is_throttled(reason) || is_condition(reason) && is_latest_or_marker
    });
    if lost.next().is_some() {
        return Some(SetRace::Lost);
    }
    let ((entity, _), reason) = failed.first()?;
    Some(match is_condition(reason) {
        true => SetRace::Taken(*entity),
        false => SetRace::Rejected(*entity),
    })
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

    const FAILED: &str = "ConditionalCheckFailed";
    const CONFLICT: &str = "TransactionConflict";

    #[test]
    fn the_cancelled_transaction_of_a_set_is_explained() {
        use SetRace::{Lost, Rejected, Taken};
        // The index of the only reason, and what it means for three entities without a marker, and for two with one.
        for (index, code, of_three, of_two) in [
            (0, FAILED, Lost, Lost),
            (1, FAILED, Taken(0), Lost),
            (3, FAILED, Taken(1), Lost),
            (4, FAILED, Lost, Lost),
            (5, FAILED, Taken(2), Taken(1)),
            (5, CONFLICT, Lost, Lost),
            (1, "ThrottlingError", Lost, Lost),
            (3, "ProvisionedThroughputExceeded", Lost, Lost),
            (3, "ValidationError", Rejected(1), Rejected(1)),
        ] {
            let mut codes = ["None"; 6];
            codes[index] = code;
            assert_eq!(
                set_race(&cancelled(&codes), &[2, 2, 2], false),
                Some(of_three),
                "{codes:?}"
            );
            assert_eq!(set_race(&cancelled(&codes), &[3, 3], true), Some(of_two), "{codes:?}");
        }
        assert_eq!(set_race(&cancelled(&["None"; 6]), &[3, 3], true), None);
    }

    #[test]
    fn cancelled_transactions_are_explained() {
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
