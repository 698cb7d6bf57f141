//! Explanation of a cancelled transaction by its reasons: failed conditions and errors.

use aws_sdk_dynamodb::{error::SdkError, operation::transact_write_items::TransactWriteItemsError};

use crate::dynamodb::client::error::{ErrorKind, ServiceError};

/// Operation that is cancelled.
pub const OPERATION: &str = "TransactWriteItems";

/// Returns `true` if a transaction was cancelled because a condition failed.
pub fn condition_failed<R>(error: &SdkError<TransactWriteItemsError, R>) -> bool {
    match error.as_service_error() {
        Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
            let mut reasons = cancelled.cancellation_reasons().iter();
            reasons.any(|reason| reason.code() == Some("ConditionalCheckFailed"))
        }
        _ => false,
    }
}

/// Returns the error of a request. A cancelled transaction has the kind of its first reason.
pub fn service_error<R>(error: &SdkError<TransactWriteItemsError, R>) -> ServiceError
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
