//! The next version in one transaction: both items, or neither.

use std::time::Duration;

use aws_sdk_dynamodb::{
    error::{BuildError, SdkError},
    operation::transact_write_items::{TransactWriteItemsError, builders::TransactWriteItemsInputBuilder},
    types::{CancellationReason, Put, TransactWriteItem, Update as UpdateItem},
};

use crate::{
    domain::{
        Item,
        decision::{apply, decide},
        keys::VersionDigits,
        ledger::Marker,
        names, size,
        update::Update,
        version::Version,
        version_item::{VersionItem, latest_of},
    },
    dynamodb::{
        Store,
        client::error::{ErrorKind, ServiceError},
        n, s,
        write::{
            ledger,
            modes::{Idempotency, WriteMode, WriteOptions, unchanged},
            outcome::{WriteError, WriteOutcome},
            recent_requests::RecentRequests,
            write_version,
        },
    },
};

const OPERATION: &str = "TransactWriteItems";
/// How often a lost race is run again.
const MAX_ATTEMPTS: u32 = 10;
/// The longest wait before the second attempt; it doubles up to [`MAX_WAIT`].
const INITIAL_WAIT: Duration = Duration::from_millis(20);
/// The longest wait between two attempts.
const MAX_WAIT: Duration = Duration::from_millis(500);

impl Store {
    /// Reads the latest item, and writes it and what goes with it together, on condition that it is still what was read:
    /// the version item in [`WriteMode::Transaction`], the marker of a ledger. A lost race is read and run again, with
    /// jitter, up to a bound; where the update expects a version, what was lost against decides.
    pub async fn write_transaction(&self, update: &Update, options: WriteOptions) -> Result<WriteOutcome, WriteError> {
        let retention = match options.idempotency {
            Idempotency::Ledger(retention) => Some(retention),
            Idempotency::Recent(_) => None,
        };
        for attempt in 0..MAX_ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(wait(attempt)).await;
            }
            let stored = self.get(&update.entity, &self.digits.latest_key(), true).await?;
            if let Some(refusal) = self.refusal(update, stored.as_ref(), options)? {
                // An applied update may fail any of the rules afterwards. Only the ledger knows.
                let applied = match retention {
                    Some(_) => self.ledgered(update).await?,
                    None => None,
                };
                return match applied {
                    Some(version) => self.duplicate(version, stored, options).await,
                    None => self.settle(refusal, stored, options).await,
                };
            }
            let image = apply(update, stored.as_ref(), self.digits)?;
            let version_item = VersionItem::from_image(image, self.digits)?;
            let version = version_item.version();
            size::check_version_item(version_item.item()).map_err(WriteError::TooLarge)?;
            let parts = Parts {
                recent_requests: match options.idempotency {
                    Idempotency::Recent(window) => RecentRequests::fitting(update, window, stored.as_ref())?,
                    Idempotency::Ledger(_) => RecentRequests::Marker,
                },
                marker_expires: retention.map(ledger::expires),
                version_item: (options.mode == WriteMode::Transaction).then_some(&version_item),
            };
            let request = request(update, version, &parts, &self.table, self.digits);
            let sent = match request {
                Ok(request) => request.send_with(&self.client).await,
                Err(error) => Err(SdkError::construction_failure(error)),
            };
            let error = match sent {
                Ok(_) if options.mode == WriteMode::Inline => {
                    self.put_with_retries(version, version_item).await?;
                    return Ok(WriteOutcome::Written { version });
                }
                Ok(_) => return Ok(WriteOutcome::Written { version }),
                Err(error) => error,
            };
            match race(&error, &parts) {
                Some(Race::Lost) => {}
                Some(Race::Ledgered(marker)) => {
                    let applied = match marker {
                        Some(marker) => Some(ledger::known(update, &marker)?),
                        None => self.ledgered(update).await?,
                    };
                    if let Some(version) = applied {
                        return self.duplicate(version, stored, options).await;
                    }
                }
                Some(Race::Taken) => return Err(WriteError::Taken { version }),
                None => return Err(service_error(&error).into()),
            }
        }
        Err(WriteError::Contended { attempts: MAX_ATTEMPTS })
    }

    /// The outcome of an update that is not to be applied.
    fn refusal(
        &self,
        update: &Update,
        stored: Option<&Item>,
        options: WriteOptions,
    ) -> Result<Option<WriteOutcome>, WriteError> {
        if let Some(refusal) = decide(update, stored)?.refusal() {
            return Ok(Some(refusal));
        }
        let skipped = match stored {
            Some(stored) if options.skip_unchanged => unchanged(update, stored, self.digits)?,
            _ => None,
        };
        Ok(skipped.map(|version| WriteOutcome::Unchanged { version }))
    }

    async fn settle(
        &self,
        refusal: WriteOutcome,
        stored: Option<Item>,
        options: WriteOptions,
    ) -> Result<WriteOutcome, WriteError> {
        match refusal {
            WriteOutcome::Duplicate { version } => self.duplicate(version, stored, options).await,
            refusal => Ok(refusal),
        }
    }

    /// An update that had been applied. In [`WriteMode::Inline`] its first delivery may have stopped before the put.
    async fn duplicate(
        &self,
        version: Version,
        stored: Option<Item>,
        options: WriteOptions,
    ) -> Result<WriteOutcome, WriteError> {
        if options.mode == WriteMode::Inline
            && let Some(stored) = stored
            && latest_of(&stored).ok() == Some(version)
        {
            self.put_with_retries(version, VersionItem::from_image(stored, self.digits)?)
                .await?;
        }
        Ok(WriteOutcome::Duplicate { version })
    }
}

/// What goes into the transaction besides the latest item's attributes.
#[derive(Debug)]
pub struct Parts<'a> {
    /// What the latest item remembers of requests.
    pub recent_requests: RecentRequests,
    /// When the request's marker expires, in epoch seconds, where there is a ledger.
    pub marker_expires: Option<u64>,
    /// The version item, where it is not left to others.
    pub version_item: Option<&'a VersionItem>,
}

/// The request: the latest item, the marker, the version item, each as far as it is part of it.
pub fn request(
    update: &Update,
    version: Version,
    parts: &Parts<'_>,
    table: &str,
    digits: VersionDigits,
) -> Result<TransactWriteItemsInputBuilder, BuildError> {
    let mut expression = write_version::expression(update, &parts.recent_requests);
    // The decision holds only for the version that was read.
    match version.get() {
        1 => expression.condition_first("attribute_not_exists(#latest)"),
        next => expression
            .condition_first("#latest = :read")
            .value(":read", n(next - 1)),
    };
    let latest = UpdateItem::builder()
        .table_name(table)
        .key(names::PK, s(update.entity.as_str()))
        .key(names::SK, s(digits.latest_key()));
    let latest = expression.apply_to_transaction(latest).build()?;
    let mut request =
        TransactWriteItemsInputBuilder::default().transact_items(TransactWriteItem::builder().update(latest).build());
    if let Some(expires) = parts.marker_expires {
        let put = ledger::request(update, version, expires, table)?;
        request = request.transact_items(TransactWriteItem::builder().put(put).build());
    }
    if let Some(version_item) = parts.version_item {
        let put = Put::builder()
            .table_name(table)
            .set_item(Some(version_item.item().clone().into()))
            .condition_expression("attribute_not_exists(#pk)")
            .expression_attribute_names("#pk", names::PK);
        request = request.transact_items(TransactWriteItem::builder().put(put.build()?).build());
    }
    Ok(request)
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Race {
    /// The latest item is no longer what was read, or another transaction was at work on one of the items.
    Lost,
    /// The request has a marker: it was applied before.
    Ledgered(Option<Marker>),
    /// The latest item is what was read, and the version is there all the same.
    Taken,
}

/// A condition that fails inside a transaction comes as one of its reasons, in the order of its items.
fn race<R>(error: &SdkError<TransactWriteItemsError, R>, parts: &Parts<'_>) -> Option<Race> {
    const FAILED: Option<&str> = Some("ConditionalCheckFailed");
    match error.as_service_error()? {
        TransactWriteItemsError::TransactionCanceledException(cancelled) => {
            let reasons = cancelled.cancellation_reasons();
            let mut reasons_of_puts = reasons.iter().skip(1);
            let marker = parts.marker_expires.and_then(|_| reasons_of_puts.next());
            let version_item = parts.version_item.and_then(|_| reasons_of_puts.next());
            let code =
                |reason: Option<&CancellationReason>| reason.and_then(CancellationReason::code).map(str::to_owned);
            let failed = |reason: Option<&CancellationReason>| code(reason).as_deref() == FAILED;
            if failed(marker) {
                let item = marker
                    .and_then(CancellationReason::item)
                    .map(|item| Item::from(item.clone()));
                return Some(Race::Ledgered(item.as_ref().and_then(Marker::from_item)));
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
        TransactWriteItemsError::TransactionInProgressException(_) => Some(Race::Lost),
        _ => None,
    }
}

/// The kind of a cancelled transaction is that of its reasons.
fn service_error<R>(error: &SdkError<TransactWriteItemsError, R>) -> ServiceError
where
    R: std::fmt::Debug,
    SdkError<TransactWriteItemsError, R>: aws_sdk_dynamodb::operation::RequestId,
{
    let plain = ServiceError::new(OPERATION, error);
    let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) = error.as_service_error() else {
        return plain;
    };
    let mut reasons = cancelled
        .cancellation_reasons()
        .iter()
        .filter_map(|reason| Some((reason.code()?, reason.message())));
    match reasons.find(|(code, _)| *code != "None") {
        Some((code @ ("ThrottlingError" | "ProvisionedThroughputExceeded"), message)) => {
            plain.with_reason(ErrorKind::Throttled, code, message)
        }
        Some((code @ ("ValidationError" | "ItemCollectionSizeLimitExceeded"), message)) => {
            plain.with_reason(ErrorKind::Rejected, code, message)
        }
        Some((code, message)) => plain.with_reason(ErrorKind::Unavailable, code, message),
        None => plain,
    }
}

/// A random part of a bound that doubles.
fn wait(attempt: u32) -> Duration {
    let bound = INITIAL_WAIT.saturating_mul(1 << attempt.min(16)).min(MAX_WAIT);
    bound.mul_f64(fastrand::f64())
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::error::TransactionCanceledException;
    use serde_json::json;

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
    fn the_reasons_of_a_cancelled_transaction_are_told_apart() {
        let image = serde_json::from_value(json!({"PK": {"S": "E"}, "Latest": {"N": "1"}})).unwrap();
        let version_item = VersionItem::from_image(image, VersionDigits::default()).unwrap();
        let check = |ledger: bool, version: bool, codes: &[&str], expected: Option<Race>| {
            let parts = Parts {
                recent_requests: RecentRequests::LastRequest,
                marker_expires: ledger.then_some(1),
                version_item: version.then_some(&version_item),
            };
            assert_eq!(race(&cancelled(codes), &parts), expected, "{codes:?}");
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
        let ledgered = || Some(Race::Ledgered(None));
        // One's own earlier success comes before all else.
        check(
            true,
            false,
            &["ConditionalCheckFailed", "ConditionalCheckFailed"],
            ledgered(),
        );
        check(true, false, &["None", "ConditionalCheckFailed"], ledgered());
        check(true, true, &["None", "ConditionalCheckFailed", "None"], ledgered());
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

    #[test]
    fn waits_are_random_within_a_bound() {
        for attempt in 1..40 {
            assert!(wait(attempt) <= MAX_WAIT);
        }
        assert!((0..100).any(|_| wait(1) != wait(1)));
    }
}
