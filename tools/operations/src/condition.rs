//! Result of a request with a condition.

use aws_sdk_dynamodb::{
    config::http::HttpResponse,
    error::{ProvideErrorMetadata, SdkError},
    operation::{delete_item::DeleteItemError, put_item::PutItemError, update_item::UpdateItemError},
};
use shared::{domain::Item, dynamodb::client::error::ServiceError};

/// The request failed for another reason than its condition.
pub(crate) struct Unconditional;

/// Error of a request with a condition.
pub(crate) trait Conditional: ProvideErrorMetadata + std::error::Error + 'static {
    /// Returns the stored item, if the condition failed and the request asks for it.
    fn stored(&self) -> Result<Option<Item>, Unconditional>;
}

macro_rules! conditional {
    ($($error:ident),*) => {$(
        impl Conditional for $error {
            fn stored(&self) -> Result<Option<Item>, Unconditional> {
                match self {
                    Self::ConditionalCheckFailedException(failure) => Ok(failure.item().cloned().map(Item::from)),
                    _ => Err(Unconditional),
                }
            }
        }
    )*};
}

conditional!(DeleteItemError, PutItemError, UpdateItemError);

/// Returns the output, or the stored item if the condition failed.
pub(crate) fn outcome<T, E: Conditional>(
    operation: &'static str,
    result: Result<T, SdkError<E, HttpResponse>>,
) -> Result<Result<T, Option<Item>>, ServiceError> {
    match result {
        Ok(output) => Ok(Ok(output)),
        Err(error) => match error.as_service_error().map(Conditional::stored) {
            Some(Ok(stored)) => Ok(Err(stored)),
            Some(Err(Unconditional)) | None => Err(ServiceError::new(operation, &error)),
        },
    }
}
