//! The next version in one transaction: both items, or neither.

use std::time::Duration;

use aws_sdk_dynamodb::{
    error::{BuildError, SdkError},
    operation::transact_write_items::{TransactWriteItemsError, builders::TransactWriteItemsInputBuilder},
    types::{CancellationReason, Put, TransactWriteItem, Update as UpdateItem},
};

use super::{
    Store,
    error::{ErrorKind, ServiceError},
    n,
    write::{WriteError, WriteOutcome},
    write_version,
};
use crate::domain::{
    Item,
    decision::{apply, decide},
    keys::VersionDigits,
    names,
    update::Update,
    version_item::VersionItem,
};

const OPERATION: &str = "TransactWriteItems";
/// How often a lost race is run again.
const ATTEMPTS: u32 = 10;
/// The longest wait before the second attempt; it doubles up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(20);
/// The longest wait between two attempts.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

impl Store {
    /// Reads the latest item, and writes it and the version item together, on condition that it is still what was
    /// read. A lost race is read and run again, with jitter, up to a bound; where the update expects a version, what
    /// was lost against decides.
    pub async fn write_transaction(&self, update: &Update) -> Result<WriteOutcome, WriteError> {
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(wait(attempt)).await;
            }
            let stored = self.get(&update.entity, &self.digits.latest_key(), true).await?;
            if let Some(refusal) = decide(update, stored.as_ref())?.refusal() {
                return Ok(refusal);
            }
            let image = apply(update, stored.as_ref(), self.digits)?;
            let version_item = VersionItem::from_image(image, self.digits)?;
            let version = version_item.version();
            let request = request(update, stored.as_ref(), &version_item, &self.table, self.digits);
            let sent = match request {
                Ok(request) => request.send_with(&self.client).await,
                Err(error) => Err(SdkError::construction_failure(error)),
            };
            match sent {
                Ok(_) => return Ok(WriteOutcome::Written { version }),
                Err(error) => match race(&error) {
                    Some(Race::Lost) => {}
                    Some(Race::Taken) => return Err(WriteError::Taken { version }),
                    None => return Err(service_error(&error).into()),
                },
            }
        }
        Err(WriteError::Contended { attempts: ATTEMPTS })
    }
}

/// The request.
pub fn request(
    update: &Update,
    stored: Option<&Item>,
    version: &VersionItem,
    table: &str,
    digits: VersionDigits,
) -> Result<TransactWriteItemsInputBuilder, BuildError> {
    // The condition is another one than that of the plain request: what was read has been decided already.
    let unconditional = Update {
        expected: None,
        ..update.clone()
    };
    let plain = write_version::request(&unconditional, table, digits);
    let head = UpdateItem::builder()
        .table_name(table)
        .set_key(plain.get_key().clone())
        .set_update_expression(plain.get_update_expression().clone())
        .set_expression_attribute_names(plain.get_expression_attribute_names().clone())
        .set_expression_attribute_values(plain.get_expression_attribute_values().clone());
    let head = if stored.is_some_and(|stored| stored.contains_key(names::LATEST)) {
        head.condition_expression("#latest = :read")
            .expression_attribute_values(":read", n(version.version().get() - 1))
    } else {
        head.condition_expression("attribute_not_exists(#latest)")
    };
    let put = Put::builder()
        .table_name(table)
        .set_item(Some(version.item().clone().into()))
        .condition_expression("attribute_not_exists(#pk)")
        .expression_attribute_names("#pk", names::PK);
    Ok(TransactWriteItemsInputBuilder::default()
        .transact_items(TransactWriteItem::builder().update(head.build()?).build())
        .transact_items(TransactWriteItem::builder().put(put.build()?).build()))
}

#[derive(Debug, PartialEq, Eq)]
enum Race {
    /// The latest item is no longer what was read, or another transaction was at work on one of the items.
    Lost,
    /// The latest item is what was read, and the version is there all the same.
    Taken,
}

/// A condition that fails inside a transaction comes as one of its reasons, in the order of its items.
fn race<R>(error: &SdkError<TransactWriteItemsError, R>) -> Option<Race> {
    match error.as_service_error()? {
        TransactWriteItemsError::TransactionCanceledException(cancelled) => {
            let codes: Vec<_> = cancelled
                .cancellation_reasons()
                .iter()
                .map(CancellationReason::code)
                .collect();
            match codes.as_slice() {
                [Some("ConditionalCheckFailed"), ..] => Some(Race::Lost),
                codes if codes.contains(&Some("TransactionConflict")) => Some(Race::Lost),
                [_, Some("ConditionalCheckFailed")] => Some(Race::Taken),
                _ => None,
            }
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
    let mut codes = cancelled
        .cancellation_reasons()
        .iter()
        .filter_map(CancellationReason::code);
    match codes.find(|code| *code != "None") {
        Some(code @ ("ThrottlingError" | "ProvisionedThroughputExceeded")) => plain.because(ErrorKind::Throttled, code),
        Some(code @ ("ValidationError" | "ItemCollectionSizeLimitExceeded")) => {
            plain.because(ErrorKind::Rejected, code)
        }
        Some(code) => plain.because(ErrorKind::Unavailable, code),
        None => plain,
    }
}

/// A random part of a bound that doubles.
fn wait(attempt: u32) -> Duration {
    let bound = FIRST_WAIT.saturating_mul(1 << attempt.min(16)).min(LONGEST_WAIT);
    bound.mul_f64(fastrand::f64())
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
    fn the_reasons_of_a_cancelled_transaction_are_told_apart() {
        for (codes, expected) in [
            (&["ConditionalCheckFailed", "None"], Some(Race::Lost)),
            (&["ConditionalCheckFailed", "ConditionalCheckFailed"], Some(Race::Lost)),
            (&["TransactionConflict", "None"], Some(Race::Lost)),
            (&["None", "TransactionConflict"], Some(Race::Lost)),
            (&["None", "ConditionalCheckFailed"], Some(Race::Taken)),
            (&["None", "ThrottlingError"], None),
            (&["ValidationError", "None"], None),
        ] {
            assert_eq!(race(&cancelled(codes)), expected, "{codes:?}");
        }
    }

    #[test]
    fn waits_are_random_within_a_bound() {
        for attempt in 1..40 {
            assert!(wait(attempt) <= LONGEST_WAIT);
        }
        assert!((0..100).any(|_| wait(1) != wait(1)));
    }
}
