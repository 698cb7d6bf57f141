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
    match error.as_service_error()? {
        TransactWriteItemsError::TransactionInProgressException(_) => Some(Race::InProgress),
        _ => explain(cancellation::reasons_of(error), has_marker, has_version_item),
    }
}

fn explain(all: &[CancellationReason], has_marker: bool, has_version_item: bool) -> Option<Race> {
    let is = |reason: &CancellationReason, code: &str| reason.code() == Some(code);
    let failed = |reason: &&CancellationReason| is(reason, cancellation::CONDITION);
    let mut reasons = all.iter();
    let latest = reasons.next().filter(failed);
    let marker = has_marker.then(|| reasons.next()).flatten().filter(failed);
    let version_item = has_version_item.then(|| reasons.next()).flatten().filter(failed);
    if let Some(marker) = marker {
        let item = marker.item().cloned().map(Item::from);
        return Some(Race::AlreadyApplied(item.as_ref().and_then(Marker::from_item)));
    }
    if latest.is_some() || all.iter().any(|reason| is(reason, cancellation::CONFLICT)) {
        return Some(Race::Lost);
    }
    version_item.map(|_| Race::Taken)
}

/// Reason why the transaction of a change set was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetRace {
    /// A latest item has changed, a request has a marker, or DynamoDB was busy: the set is decided again.
    Lost,
    /// The latest items have not changed, but the next version of this one exists.
    Taken(usize),
    /// DynamoDB rejects the write of this entity.
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
    let all = cancellation::reasons_of(error);
    let is_lost = |race: &Option<Race>| matches!(race, Some(Race::Lost | Race::AlreadyApplied(_)));
    let mut rest = all;
    let of_each = lengths.iter().map(|length| {
        let (own, others) = rest.split_at(rest.len().min(*length));
        rest = others;
        (explain(own, has_marker, true), own)
    });
    let of_each: Vec<_> = of_each.collect();
    if of_each.iter().any(|(race, _)| is_lost(race)) || all.iter().any(cancellation::is_throttled) {
        return Some(SetRace::Lost);
    }
    let is_failed = |own: &[CancellationReason]| own.iter().any(|reason| reason.code() != Some("None"));
    let taken = of_each.iter().position(|(race, _)| *race == Some(Race::Taken));
    let rejected = || of_each.iter().position(|(_, own)| is_failed(own));
    taken.map(SetRace::Taken).or_else(|| rejected().map(SetRace::Rejected))
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
        // Two entities, without and with a marker.
        for (codes, of_two, of_three) in [
            (
                ["None", "None", "None", FAILED, "None", "None"],
                Some(SetRace::Taken(1)),
                Some(SetRace::Lost),
            ),
            (
                ["None", "None", "None", "None", FAILED, "None"],
                Some(SetRace::Lost),
                Some(SetRace::Lost),
            ),
            (
                ["None", "None", "None", "None", "None", FAILED],
                None,
                Some(SetRace::Taken(1)),
            ),
            (
                ["None", FAILED, FAILED, "None", "None", "None"],
                Some(SetRace::Lost),
                Some(SetRace::Lost),
            ),
            (
                ["None", FAILED, CONFLICT, "None", "None", "None"],
                Some(SetRace::Lost),
                Some(SetRace::Lost),
            ),
            (
                ["None", "None", "None", "ThrottlingError", "None", "None"],
                Some(SetRace::Lost),
                Some(SetRace::Lost),
            ),
            (
                ["None", "None", "ProvisionedThroughputExceeded", "None", "None", "None"],
                Some(SetRace::Lost),
                Some(SetRace::Lost),
            ),
            (
                ["None", "None", "ValidationError", "None", "None", "None"],
                Some(SetRace::Rejected(1)),
                Some(SetRace::Rejected(0)),
            ),
        ] {
            let of_two_items = codes
                .iter()
                .take(if of_two.is_some() { 6 } else { 4 })
                .copied()
                .collect::<Vec<_>>();
            if of_two.is_some() {
                assert_eq!(
                    set_race(&cancelled(&of_two_items), &[2, 2, 2], false),
                    of_two,
                    "{codes:?}"
                );
            }
            assert_eq!(set_race(&cancelled(&codes), &[3, 3], true), of_three, "{codes:?}");
        }
        let other = SdkError::service_error(TransactWriteItemsError::unhandled("other"), ());
        assert_eq!(set_race(&other, &[1, 1], false), None);
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
