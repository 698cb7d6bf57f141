//! Puts one version item: `PutItem` on condition that the key is free. An existing item is never overwritten.

use std::collections::HashMap;

use aws_sdk_dynamodb::{
    error::SdkError,
    operation::put_item::{PutItemError, PutItemOutput, builders::PutItemInputBuilder},
    types::{AttributeValue, ReturnValuesOnConditionCheckFailure},
};
use thiserror::Error;

use crate::{
    domain::{
        Item,
        layout::{self, IMAGE_DEFLATE},
        names,
        version_item::VersionItem,
    },
    dynamodb::{
        Store,
        client::error::{ErrorKind, ServiceError},
        put::insert_versions::Insert,
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
        let items = self.stored(version);
        let outcome = self.put_stored(version, &items).await;
        match outcome {
            // DynamoDB counts a value differently.
            Err(PutError(error)) if error.kind == ErrorKind::Rejected && !items[0].contains_key(IMAGE_DEFLATE) => {
                self.put_stored(version, &layout::compact(version.item())).await
            }
            outcome => outcome,
        }
    }

    /// Puts the items of a version, unless its key is taken.
    async fn put_stored(&self, version: &VersionItem, items: &[Item]) -> Result<PutOutcome, PutError> {
        let is_put = match items {
            [item] if self.has_own_history() => {
                // The only write to a table of history that IAM can restrict to new items.
                let insert = Insert::new(item, self.history_table());
                let insert = insert.ok_or_else(|| PutError(ServiceError::not_built(INSERT)))?;
                self.insert_one(&insert).await.map_err(PutError)?
            }
            [item] => match stored_of(request(item, &self.table).send_with(&self.client).await)? {
                None => true,
                Some(stored) => {
                    let flat = self.flat_all(std::iter::once(stored), &self.table).await;
                    let flat = flat.map_err(PutError)?.pop();
                    return Ok(flat.map_or(PutOutcome::Conflict, |stored| PutOutcome::of_existing(&stored, version)));
                }
            },
            items => self.put_together(items).await.map_err(PutError)?,
        };
        match is_put {
            true => Ok(PutOutcome::Recorded),
            false => self.compare_with_stored(version).await,
        }
    }

    /// Compares a version with the item that has its key.
    async fn compare_with_stored(&self, version: &VersionItem) -> Result<PutOutcome, PutError> {
        match self.preview_put(version).await? {
            // The item was deleted in the meantime.
            PutOutcome::Recorded => Ok(PutOutcome::Conflict),
            outcome => Ok(outcome),
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
pub fn request(item: &Item, table: &str) -> PutItemInputBuilder {
    PutItemInputBuilder::default()
        .table_name(table)
        .set_item(Some(item.clone().into()))
        .condition_expression("attribute_not_exists(#pk)")
        .expression_attribute_names("#pk", names::PK)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
}

/// Returns the stored item that has the key, `None` if the item was put.
///
/// # Errors
///
/// Returns [`PutError`] if the request fails. A failed condition is an outcome.
pub fn stored_of<R>(
    output: Result<PutItemOutput, SdkError<PutItemError, R>>,
) -> Result<Option<HashMap<String, AttributeValue>>, PutError>
where
    R: std::fmt::Debug,
    SdkError<PutItemError, R>: aws_sdk_dynamodb::operation::RequestId,
{
    match output {
        Ok(_) => Ok(None),
        Err(error) => match error.as_service_error() {
            Some(PutItemError::ConditionalCheckFailedException(failure)) => {
                Ok(Some(failure.item().cloned().unwrap_or_default()))
            }
            _ => Err(PutError(ServiceError::new(OPERATION, &error))),
        },
    }
}

/// A version item could not be put.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("failed to put the version")]
pub struct PutError(#[source] pub ServiceError);
