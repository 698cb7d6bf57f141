//! Puts one version item: `PutItem` on condition that the key is free. An existing item is never overwritten.

use aws_sdk_dynamodb::{
    error::SdkError,
    operation::put_item::{PutItemError, PutItemOutput, builders::PutItemInputBuilder},
    types::ReturnValuesOnConditionCheckFailure,
};
use thiserror::Error;

use crate::{
    domain::{Item, names, version_item::VersionItem},
    dynamodb::{
        Store,
        client::error::{ErrorKind, ServiceError},
        put::insert_versions::{Insert, Inserted},
    },
};

const OPERATION: &str = "PutItem";
const INSERT: &str = "BatchExecuteStatement";

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
        if self.has_own_history() {
            return self.insert_version(version).await;
        }
        let output = request(version, &self.table).send_with(&self.client).await;
        outcome(version, output)
    }

    /// As [`Self::put_version`], by a statement: the only write to a table of history that IAM can restrict to new items.
    async fn insert_version(&self, version: &VersionItem) -> Result<PutOutcome, PutError> {
        let item = self.stored(version);
        let rejected = |reason| {
            let error = ServiceError::not_built(INSERT);
            Err(PutError(error.with_reason(ErrorKind::Rejected, reason, None)))
        };
        let Some(insert) = Insert::new(&item, self.history_table()) else {
            return rejected("a statement that is too long");
        };
        let inserted = self.insert(&[&insert]).await.pop();
        match inserted {
            Some(Inserted::Recorded) => Ok(PutOutcome::Recorded),
            // The item can have been deleted in the meantime.
            Some(Inserted::Taken) => match self.preview_put(version).await? {
                PutOutcome::Recorded => Ok(PutOutcome::Conflict),
                outcome => Ok(outcome),
            },
            Some(Inserted::Retry(error) | Inserted::Failed(error)) => Err(PutError(error)),
            Some(Inserted::Rejected) | None => rejected("ValidationError"),
        }
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
