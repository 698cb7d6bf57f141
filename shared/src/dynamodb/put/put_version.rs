//! A version, written down once and for ever: one `PutItem` on condition that its key is free.

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

/// What became of a version item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutOutcome {
    /// It is written.
    Recorded,
    /// The identical item was there, whatever its marks: an earlier delivery of the same record.
    AlreadyRecorded,
    /// A different item is there, and it was left as it is.
    Conflict,
}

impl Store {
    /// Writes a version down, unless its key is taken.
    pub async fn put_version(&self, version: &VersionItem) -> Result<PutOutcome, PutError> {
        let answer = request(version, &self.table).send_with(&self.client).await;
        outcome(version, answer)
    }

    /// What [`Self::put_version`] would come to now. Nothing is written.
    pub async fn preview_put(&self, version: &VersionItem) -> Result<PutOutcome, PutError> {
        let key = self.digits.version_key(version.version());
        let stored = self.get(version.entity(), &key, true).await.map_err(PutError)?;
        Ok(stored.map_or(PutOutcome::Recorded, |stored| PutOutcome::beside(&stored, version)))
    }
}

impl PutOutcome {
    /// What a put comes to where this item has the key.
    pub(crate) fn beside(stored: &Item, version: &VersionItem) -> Self {
        match version.is_same_as(stored) {
            true => Self::AlreadyRecorded,
            false => Self::Conflict,
        }
    }
}

/// The request.
pub fn request(version: &VersionItem, table: &str) -> PutItemInputBuilder {
    PutItemInputBuilder::default()
        .table_name(table)
        .set_item(Some(version.item().clone().into()))
        .condition_expression("attribute_not_exists(#pk)")
        .expression_attribute_names("#pk", names::PK)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
}

/// What the answer to the request means.
pub fn outcome<R>(
    version: &VersionItem,
    answer: Result<PutItemOutput, SdkError<PutItemError, R>>,
) -> Result<PutOutcome, PutError>
where
    R: std::fmt::Debug,
    SdkError<PutItemError, R>: aws_sdk_dynamodb::operation::RequestId,
{
    match answer {
        Ok(_) => Ok(PutOutcome::Recorded),
        Err(error) => match error.as_service_error() {
            Some(PutItemError::ConditionalCheckFailedException(failure)) => {
                let stored = failure.item().map(|item| Item::from(item.clone()));
                Ok(stored.map_or(PutOutcome::Conflict, |stored| PutOutcome::beside(&stored, version)))
            }
            _ => Err(PutError(ServiceError::new(OPERATION, &error))),
        },
    }
}

/// Why a version could not be written down.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("failed to record the version")]
pub struct PutError(#[source] pub ServiceError);
