//! Width of a table's version keys, stored in the table under `PK` `#vzero`, `SK` `config`.
//!
//! A table without a stored width has width 1 or is empty. The writer claims its width before the first write, so that two
//! writers with different widths cannot write to one table.

use aws_sdk_dynamodb::{
    operation::update_item::{UpdateItemError, builders::UpdateItemInputBuilder},
    types::ReturnValuesOnConditionCheckFailure,
};
use thiserror::Error;

use crate::{
    domain::{AttributeValue, Item, entity::EntityId, keys::VersionDigits, names},
    dynamodb::{Store, client::error::ServiceError, n, s},
};

/// Partition key of the library's own items.
pub const PARTITION_KEY: &str = crate::domain::entity::RESERVED;
/// Sort key of the settings.
pub const SORT_KEY: &str = "config";
/// Attribute of the width.
pub const VERSION_DIGITS: &str = "VersionDigits";

const OPERATION: &str = "UpdateItem";

impl Store {
    /// Reads the stored width.
    ///
    /// # Errors
    ///
    /// Returns [`WidthError::Service`] if a request fails, [`WidthError::Unreadable`] if the stored width is invalid.
    pub async fn stored_digits(&self) -> Result<Option<VersionDigits>, WidthError> {
        let config = self.get(&EntityId::reserved(), SORT_KEY, true).await?;
        config.map(|config| digits_of(&config)).transpose()
    }

    /// Stores the width of this store.
    ///
    /// # Errors
    ///
    /// Returns [`WidthError::Service`] if a request fails, [`WidthError::Unreadable`] if the stored width is invalid,
    /// [`WidthError::Other`] if another width is stored.
    pub async fn store_digits(&self) -> Result<(), WidthError> {
        self.claim_digits("attribute_not_exists(#digits) OR #digits = :digits")
            .await
            .map(drop)
    }

    /// Checks that the table has no other width, and stores this one if it is not the default. It sends one write, and one
    /// read if a width other than the default is not stored yet.
    ///
    /// # Errors
    ///
    /// Returns [`WidthError::Service`] if a request fails, [`WidthError::Unreadable`] if the stored width is invalid,
    /// [`WidthError::Other`] if the table has another width.
    pub async fn claim_width(&self) -> Result<(), WidthError> {
        let default = VersionDigits::default();
        if self.is_stored().await? || self.digits == default {
            return Ok(());
        }
        // A table with items but without a stored width has the default, unless another client has just stored one.
        if !self.is_empty().await? && !self.is_stored().await? {
            return Err(WidthError::Other {
                stored: default,
                requested: self.digits,
            });
        }
        self.store_digits().await
    }

    /// Returns `true` if this width is stored, and an error if another one is.
    async fn is_stored(&self) -> Result<bool, WidthError> {
        self.claim_digits("attribute_exists(#digits) AND #digits = :digits")
            .await
    }

    /// Returns `false` if no width is stored and the condition requires one.
    async fn claim_digits(&self, condition: &str) -> Result<bool, WidthError> {
        let output = request(self.digits, condition, &self.table)
            .send_with(&self.client)
            .await;
        let Err(error) = output else { return Ok(true) };
        match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(failure)) => {
                match failure.item().filter(|item| !item.is_empty()) {
                    Some(config) => Err(WidthError::Other {
                        stored: digits_of(&Item::from(config.clone()))?,
                        requested: self.digits,
                    }),
                    None => Ok(false),
                }
            }
            _ => Err(ServiceError::new(OPERATION, &error).into()),
        }
    }
}

/// Builds the request.
pub fn request(digits: VersionDigits, condition: &str, table: &str) -> UpdateItemInputBuilder {
    UpdateItemInputBuilder::default()
        .table_name(table)
        .key(names::PK, s(PARTITION_KEY))
        .key(names::SK, s(SORT_KEY))
        .update_expression("SET #digits = :digits")
        .condition_expression(condition)
        .expression_attribute_names("#digits", VERSION_DIGITS)
        .expression_attribute_values(":digits", n(digits))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
}

fn digits_of(config: &Item) -> Result<VersionDigits, WidthError> {
    match config.get(VERSION_DIGITS) {
        Some(AttributeValue::N(digits)) => digits.parse().map_err(|_| WidthError::Unreadable),
        _ => Err(WidthError::Unreadable),
    }
}

/// Error of the width of version keys.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WidthError {
    /// The table has another width.
    #[error("the table's version keys have {stored} digits, not {requested}")]
    Other {
        /// Width that the table was created with.
        stored: VersionDigits,
        /// Width that was requested.
        requested: VersionDigits,
    },
    /// The stored width is invalid.
    #[error("the table's width of version keys cannot be read")]
    Unreadable,
    /// A request failed.
    #[error("failed to read the table's width of version keys")]
    Service(#[from] ServiceError),
}
