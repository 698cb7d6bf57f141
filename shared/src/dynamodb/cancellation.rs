//! Transactions, and the explanation of a cancelled one by its reasons: failed conditions and errors.

use aws_sdk_dynamodb::{
    Client,
    error::{ProvideErrorMetadata, SdkError},
    operation::transact_write_items::TransactWriteItemsError,
    types::{CancellationReason, TransactWriteItem},
};

use crate::{
    domain::Item,
    dynamodb::client::error::{ErrorKind, ServiceError, kind_of},
};

/// Operation that is cancelled.
pub const OPERATION: &str = "TransactWriteItems";

/// Reason of a cancellation: the condition of an item failed.
pub const CONDITION: &str = "ConditionalCheckFailed";
/// Reason of a cancellation: another transaction changes an item.
pub const CONFLICT: &str = "TransactionConflict";

/// Sends a transaction. If it is cancelled for one of these reasons, the outcome is the stored item of the first one, if the
/// transaction asks for it.
///
/// # Errors
///
/// Returns [`ServiceError`] if the request fails for another reason.
pub async fn send(
    client: &Client,
    items: Vec<TransactWriteItem>,
    reasons: &[&str],
) -> Result<Result<(), Option<Item>>, ServiceError> {
    let request = client.transact_write_items().set_transact_items(Some(items));
    let Err(error) = request.send().await else {
        return Ok(Ok(()));
    };
    let is_expected = |reason: &&CancellationReason| reason.code().is_some_and(|code| reasons.contains(&code));
    match reasons_of(&error).iter().find(is_expected) {
        Some(reason) => Ok(Err(reason.item.clone().map(Item::from))),
        None => Err(service_error(&error)),
    }
}

/// Returns `true` if a transaction was cancelled because DynamoDB throttled a write, or because of another transaction.
pub fn is_throttled(reason: &CancellationReason) -> bool {
    reason.code().is_some_and(|code| kind_of(code) == ErrorKind::Throttled)
}

/// Returns `true` if the items of a transaction are larger than 4 MB, see
/// [`TransactWriteItems`](https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html).
pub fn exceeds_size<R>(error: &SdkError<TransactWriteItemsError, R>) -> bool {
    let message = error.as_service_error().and_then(ProvideErrorMetadata::message);
    let reasons = reasons_of(error).iter().map(CancellationReason::message);
    let mut messages = reasons.chain([message]).flatten();
    messages.any(|message| message.contains("aggregate size of the items in the transaction"))
}

/// Returns the reasons of a cancelled transaction, none of another error.
pub fn reasons_of<R>(error: &SdkError<TransactWriteItemsError, R>) -> &[CancellationReason] {
    match error.as_service_error() {
        Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => cancelled.cancellation_reasons(),
        _ => &[],
    }
}

/// Returns the error of a request. A cancelled transaction has the kind of its first reason.
pub fn service_error<R>(error: &SdkError<TransactWriteItemsError, R>) -> ServiceError
where
    R: std::fmt::Debug,
    SdkError<TransactWriteItemsError, R>: aws_sdk_dynamodb::operation::RequestId,
{
    let plain = ServiceError::new(OPERATION, error);
    let mut reasons = reasons_of(error)
        .iter()
        .filter_map(|reason| Some((reason.code()?, reason.message())));
    match reasons.find(|(code, _)| *code != "None") {
        Some((code, message)) => plain.with_reason(kind_of(code), code, message),
        None => plain,
    }
}
