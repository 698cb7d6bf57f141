//! The width that a table's version keys were begun with, kept in the table: `PK` `#vzero`, `SK` `config`.
//!
//! A table without it has the width 1, or has nothing in it yet.

use aws_sdk_dynamodb::{
    operation::update_item::{UpdateItemError, builders::UpdateItemInputBuilder},
    types::ReturnValuesOnConditionCheckFailure,
};
use thiserror::Error;

use crate::{
    domain::{AttributeValue, Item, entity::EntityId, keys::VersionDigits, names},
    dynamodb::{Store, client::error::ServiceError, n, s},
};

/// The partition key of what the library keeps for itself.
pub const PARTITION_KEY: &str = crate::domain::entity::RESERVED;
/// The sort key of the settings.
pub const SORT_KEY: &str = "config";
/// The attribute of the width.
pub const VERSION_DIGITS: &str = "VersionDigits";

const OPERATION: &str = "UpdateItem";

impl Store {
    /// The width that the table was begun with, if it is kept.
    pub async fn stored_digits(&self) -> Result<Option<VersionDigits>, WidthError> {
        let config = self.get(&EntityId::reserved(), SORT_KEY, true).await?;
        config.map(|config| digits_of(&config)).transpose()
    }

    /// Keeps the width of this store in the table, unless another one is kept there.
    pub async fn store_digits(&self) -> Result<(), WidthError> {
        self.claim_digits("attribute_not_exists(#digits) OR #digits = :digits")
            .await
            .map(drop)
    }

    /// Makes sure that the table was not begun with another width, and keeps this one where it is not the default: by one
    /// write, and by one read more where another width than the default is new to the table.
    pub async fn claim_width(&self) -> Result<(), WidthError> {
        let default = VersionDigits::default();
        if self.is_kept().await? || self.digits == default {
            return Ok(());
        }
        // A table that has items, but no width, has the default one; unless somebody kept one just now.
        if !self.is_empty().await? && !self.is_kept().await? {
            let wanted = self.digits;
            return Err(WidthError::Other {
                stored: default,
                requested: wanted,
            });
        }
        self.store_digits().await
    }

    /// Whether this width is kept, refusing another one. It keeps nothing.
    async fn is_kept(&self) -> Result<bool, WidthError> {
        self.claim_digits("attribute_exists(#digits) AND #digits = :digits")
            .await
    }

    /// False where nothing is kept and the condition asks for something.
    async fn claim_digits(&self, condition: &str) -> Result<bool, WidthError> {
        let answer = request(self.digits, condition, &self.table)
            .send_with(&self.client)
            .await;
        let Err(error) = answer else { return Ok(true) };
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

/// The request.
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

/// Why a table cannot be worked on with a width.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WidthError {
    /// It was begun with another.
    #[error("the table's version keys have {stored} digits, not {requested}")]
    Other {
        /// Width that the table was created with.
        stored: VersionDigits,
        /// Width that was requested.
        requested: VersionDigits,
    },
    /// What is kept there is no width.
    #[error("the table's width of version keys cannot be read")]
    Unreadable,
    /// A request failed.
    #[error("failed to read the table's width of version keys")]
    Service(#[from] ServiceError),
}
