//! Puts one version item: `PutItem` on condition that the key is free. An existing item is never overwritten.

use aws_sdk_dynamodb::{
    error::SdkError,
    operation::put_item::{PutItemError, PutItemOutput, builders::PutItemInputBuilder},
    types::ReturnValuesOnConditionCheckFailure,
};
use thiserror::Error;

use crate::{
    domain::{Item, names, version_item::VersionItem},
    dynamodb::{Store, client::error::ServiceError},
};

const OPERATION: &str = "PutItem";

/// Outcome of a put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutOutcome {
    /// The item was written.
    Recorded,
    /// An equal item exists, ignoring marks: a previous delivery of the same record wrote it.
    AlreadyRecorded,
    /// A different item exists, and was not changed.
    Conflict,
}

impl Store {
    /// Puts a version item, unless its key is taken.
    ///
    /// # Errors
    ///
    /// Returns [`PutError`] if the request fails.
    pub async fn put_version(&self, version: &VersionItem) -> Result<PutOutcome, PutError> {
        let output = request(version, &self.table).send_with(&self.client).await;
        outcome(version, output)
    }

    /// Returns the outcome that [`Self::put_version`] would have now. Nothing is written.
    ///
    /// # Errors
    ///
    /// Returns [`PutError`] if the request fails.
    pub async fn preview_put(&self, version: &VersionItem) -> Result<PutOutcome, PutError> {
        let key = self.digits.version_key(version.version());
        let stored = self.get(version.entity(), &key, true).await.map_err(PutError)?;
        Ok(stored.map_or(PutOutcome::Recorded, |stored| PutOutcome::of_existing(&stored, version)))
    }
}

impl PutOutcome {
    /// Returns the outcome of a put whose key has the stored item.
    pub(crate) fn of_existing(stored: &Item, version: &VersionItem) -> Self {
        match version.is_same_as(stored) {
            true => Self::AlreadyRecorded,
            false => Self::Conflict,
        }
    }
}

/// Builds the request.
pub fn request(version: &VersionItem, table: &str) -> PutItemInputBuilder {
    PutItemInputBuilder::default()
        .table_name(table)
        .set_item(Some(version.item().clone().into()))
        .condition_expression("attribute_not_exists(#pk)")
        .expression_attribute_names("#pk", names::PK)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
}

/// Returns the outcome of the request's output.
///
/// # Errors
///
/// Returns [`PutError`] for every error except a failed condition.
pub fn outcome<R>(
    version: &VersionItem,
    output: Result<PutItemOutput, SdkError<PutItemError, R>>,
) -> Result<PutOutcome, PutError>
where
    R: std::fmt::Debug,
    SdkError<PutItemError, R>: aws_sdk_dynamodb::operation::RequestId,
{
    match output {
        Ok(_) => Ok(PutOutcome::Recorded),
        Err(error) => match error.as_service_error() {
            Some(PutItemError::ConditionalCheckFailedException(failure)) => {
                let stored = failure.item().map(|item| Item::from(item.clone()));
                Ok(stored.map_or(PutOutcome::Conflict, |stored| PutOutcome::of_existing(&stored, version)))
            }
            _ => Err(PutError(ServiceError::new(OPERATION, &error))),
        },
    }
}

/// A version item could not be put.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("failed to put the version")]
pub struct PutError(#[source] pub ServiceError);
