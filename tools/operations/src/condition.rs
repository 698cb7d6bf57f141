//! Result of a request with a condition.

use aws_sdk_dynamodb::{
    config::http::HttpResponse,
    error::{ProvideErrorMetadata, SdkError},
    operation::{delete_item::DeleteItemError, put_item::PutItemError, update_item::UpdateItemError},
    types::error::ConditionalCheckFailedException,
};
use shared::{domain::Item, dynamodb::client::error::ServiceError};

/// Error of a request with a condition.
pub(crate) trait Conditional: ProvideErrorMetadata + std::error::Error + 'static {
    fn failure(&self) -> Option<&ConditionalCheckFailedException>;
}

macro_rules! conditional {
    ($($error:ident),*) => {$(
        impl Conditional for $error {
            fn failure(&self) -> Option<&ConditionalCheckFailedException> {
                match self {
                    Self::ConditionalCheckFailedException(failure) => Some(failure),
                    _ => None,
                }
            }
        }
    )*};
}

conditional!(DeleteItemError, PutItemError, UpdateItemError);

/// Returns the output. If the condition failed, returns the stored item, if there is one and the request asks for it.
pub(crate) fn outcome<T, E: Conditional>(
    operation: &'static str,
    result: Result<T, SdkError<E, HttpResponse>>,
) -> Result<Result<T, Option<Item>>, ServiceError> {
    let error = match result {
        Ok(output) => return Ok(Ok(output)),
        Err(error) => error,
    };
    match error.as_service_error().and_then(Conditional::failure) {
        Some(failure) => Ok(Err(failure.item().cloned().map(Item::from))),
        None => Err(ServiceError::new(operation, &error)),
    }
}
