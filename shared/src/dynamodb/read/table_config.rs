//! Layout of a table: the width of its version keys and the table of its history, stored in the table under `PK` `#vzero`, `SK`
//! `config`.
//!
//! A table without a stored layout has width 1 and its own history, or is empty. The writer claims its layout before the first
//! write, so that two writers with different layouts cannot write to one table. A writer with a history table that finds items
//! but no such layout declares that history is being moved: until [`Store::finish_migration`], reads use both tables, and
//! writers of both layouts start.

use aws_sdk_dynamodb::{
    operation::update_item::{UpdateItemError, UpdateItemOutput, builders::UpdateItemInputBuilder},
    types::{ReturnValue, ReturnValuesOnConditionCheckFailure},
};
use thiserror::Error;

use crate::{
    domain::{
        AttributeValue, Item,
        entity::EntityId,
        keys::{VersionDigits, partition_key_of, sort_key_of},
        layout, names,
    },
    dynamodb::{HistoryTable, Store, client::error::ServiceError, n, read::scan_items, s},
};

/// Partition key of the library's own items.
pub const PARTITION_KEY: &str = crate::domain::entity::RESERVED;
/// Sort key of the layout.
pub const SORT_KEY: &str = "config";
/// Attribute of the width.
pub const VERSION_DIGITS: &str = "VersionDigits";
/// Attribute with the name of the history table, absent if history is in the table itself.
pub const HISTORY_TABLE: &str = "HistoryTable";
/// Attribute that exists while history is being moved to its own table.
pub const MIGRATING: &str = "Migrating";

const OPERATION: &str = "UpdateItem";
const IS_STORED: &str = "attribute_exists(#digits) AND #digits = :digits";
const IS_FREE: &str = "(attribute_not_exists(#digits) OR #digits = :digits)";

/// Layout that a table stores.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layout {
    /// Width of version keys, `None` if it is not stored.
    pub digits: Option<VersionDigits>,
    /// Table of history, `None` if history is in the table itself.
    pub history: Option<HistoryTable>,
}

impl Store {
    /// Reads the stored layout.
    ///
    /// # Errors
    ///
    /// Returns [`LayoutError::Service`] if a request fails, [`LayoutError::Unreadable`] if the stored layout is invalid.
    pub async fn stored_layout(&self) -> Result<Layout, LayoutError> {
        let config = self.get(&EntityId::reserved(), SORT_KEY, true).await?;
        config.map_or_else(|| Ok(Layout::default()), |config| layout_of(&config))
    }

    /// Stores the layout of this store, unless another one is stored.
    ///
    /// # Errors
    ///
    /// Returns [`LayoutError::Service`] if a request fails, [`LayoutError::Unreadable`] if the stored layout is invalid,
    /// [`LayoutError::Width`] or [`LayoutError::History`] if another layout is stored.
    pub async fn store_layout(&self) -> Result<(), LayoutError> {
        let free = match self.has_own_history() {
            true => format!("{IS_FREE} AND (attribute_not_exists(#history) OR #history = :history)"),
            false => IS_FREE.to_owned(),
        };
        self.claim(&free, false).await.map(drop)
    }

    /// Checks that the table has no other layout, and stores this one if it is not the default. Returns `true` if history is being
    /// moved to its own table. It sends one write, and a few requests more before the layout is stored.
    ///
    /// # Errors
    ///
    /// Returns [`LayoutError::Service`] if a request fails, [`LayoutError::Unreadable`] if the stored layout is invalid,
    /// [`LayoutError::Width`] or [`LayoutError::History`] if the table has another layout.
    pub async fn claim_layout(&self) -> Result<bool, LayoutError> {
        if let Some(stored) = self.claim_stored().await? {
            return Ok(stored.is_migrating());
        }
        let default = VersionDigits::default();
        if !self.has_own_history() && self.digits == default {
            return Ok(false);
        }
        let is_empty = self.has_no_entities().await?;
        // Another client can have stored it just now.
        if let Some(stored) = self.claim_stored().await? {
            return Ok(stored.is_migrating());
        }
        if !is_empty && self.digits != default && self.stored_layout().await?.digits.is_none() {
            // A table with items but without a stored width has the default.
            return Err(LayoutError::Width {
                stored: default,
                requested: self.digits,
            });
        }
        if !self.has_own_history() {
            self.store_layout().await?;
            return Ok(false);
        }
        let free = format!("{IS_FREE} AND attribute_not_exists(#history)");
        match self.claim(&free, !is_empty).await? {
            Some(stored) => Ok(stored.is_migrating()),
            None => Ok(self.claim_stored().await?.is_none_or(|stored| stored.is_migrating())),
        }
    }

    /// Declares that all of history is in its own table.
    ///
    /// # Errors
    ///
    /// Returns [`LayoutError::Service`] if the request fails, [`LayoutError::History`] if the table has another layout.
    pub async fn finish_migration(&self) -> Result<(), LayoutError> {
        let request = finish_request(layout::table_name(self.history_table()), &self.table);
        self.outcome(request.send_with(&self.client).await)?
            .map(drop)
            .ok_or(LayoutError::Unreadable)
    }

    /// Returns the layout if it is stored, `None` if none is, and an error if another one is.
    async fn claim_stored(&self) -> Result<Option<Layout>, LayoutError> {
        let is_stored = match self.has_own_history() {
            true => format!("{IS_STORED} AND #history = :history"),
            false => format!("{IS_STORED} AND (attribute_not_exists(#history) OR attribute_exists(#migrating))"),
        };
        self.claim(&is_stored, false).await
    }

    /// Returns `None` if no layout is stored and the condition requires one.
    async fn claim(&self, condition: &str, is_migrating: bool) -> Result<Option<Layout>, LayoutError> {
        let history = self.own_history().map(|history| layout::table_name(&history.name));
        let request = request(self.digits, history, is_migrating, condition, &self.table);
        self.outcome(request.send_with(&self.client).await)
    }

    fn outcome<R>(
        &self,
        output: Result<UpdateItemOutput, aws_sdk_dynamodb::error::SdkError<UpdateItemError, R>>,
    ) -> Result<Option<Layout>, LayoutError>
    where
        R: std::fmt::Debug,
        aws_sdk_dynamodb::error::SdkError<UpdateItemError, R>: aws_sdk_dynamodb::operation::RequestId,
    {
        let error = match output {
            Ok(output) => {
                let stored = output.attributes.map(Item::from).unwrap_or_default();
                return layout_of(&stored).map(Some);
            }
            Err(error) => error,
        };
        match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(failure)) => {
                match failure.item().filter(|item| !item.is_empty()) {
                    Some(config) => self.check(&layout_of(&Item::from(config.clone()))?).map(|()| None),
                    None => Ok(None),
                }
            }
            _ => Err(ServiceError::new(OPERATION, &error).into()),
        }
    }

    /// Compares this store's layout with the stored one. A layout without a history table can still become one with it.
    fn check(&self, stored: &Layout) -> Result<(), LayoutError> {
        match (stored.digits, &stored.history) {
            (Some(digits), _) if digits != self.digits => Err(LayoutError::Width {
                stored: digits,
                requested: self.digits,
            }),
            (_, Some(history)) if history.name != layout::table_name(self.history_table()) => {
                Err(LayoutError::History {
                    stored: history.name.clone(),
                    requested: self.history_table().to_owned(),
                })
            }
            _ => Ok(()),
        }
    }

    /// Returns `true` if the table has no item but its layout.
    async fn has_no_entities(&self) -> Result<bool, ServiceError> {
        let request = scan_items::request(&self.table, None).limit(2);
        let output = request.send_with(&self.client).await;
        let page = output.map_err(|error| ServiceError::new("Scan", &error))?;
        let mut items = page.items.unwrap_or_default().into_iter().map(Item::from);
        Ok(items.all(|item| partition_key_of(&item) == Some(PARTITION_KEY) && sort_key_of(&item) == Some(SORT_KEY)))
    }
}

impl Layout {
    /// Returns `true` while history is being moved to its own table.
    pub fn is_migrating(&self) -> bool {
        self.history.as_ref().is_some_and(|history| history.is_migrating)
    }
}

/// Builds the request that stores a layout.
pub fn request(
    digits: VersionDigits,
    history: Option<&str>,
    is_migrating: bool,
    condition: &str,
    table: &str,
) -> UpdateItemInputBuilder {
    let mut set = "SET #digits = :digits".to_owned();
    let mut request = UpdateItemInputBuilder::default()
        .table_name(table)
        .key(names::PK, s(PARTITION_KEY))
        .key(names::SK, s(SORT_KEY))
        .condition_expression(condition)
        .expression_attribute_names("#digits", VERSION_DIGITS)
        .expression_attribute_values(":digits", n(digits))
        .return_values(ReturnValue::AllNew)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    if let Some(history) = history {
        set.push_str(", #history = :history");
        request = request.expression_attribute_values(":history", s(history));
    }
    if is_migrating {
        set.push_str(", #migrating = :true");
        request = request.expression_attribute_values(":true", AttributeValue::Bool(true).into());
    }
    for (placeholder, name) in [("#history", HISTORY_TABLE), ("#migrating", MIGRATING)] {
        if condition.contains(placeholder) || set.contains(placeholder) {
            request = request.expression_attribute_names(placeholder, name);
        }
    }
    request.update_expression(set)
}

/// Builds the request that ends a migration.
pub fn finish_request(history: &str, table: &str) -> UpdateItemInputBuilder {
    UpdateItemInputBuilder::default()
        .table_name(table)
        .key(names::PK, s(PARTITION_KEY))
        .key(names::SK, s(SORT_KEY))
        .update_expression("REMOVE #migrating")
        .condition_expression("#history = :history")
        .expression_attribute_names("#migrating", MIGRATING)
        .expression_attribute_names("#history", HISTORY_TABLE)
        .expression_attribute_values(":history", s(history))
        .return_values(ReturnValue::AllNew)
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
}

fn layout_of(config: &Item) -> Result<Layout, LayoutError> {
    let digits = match config.get(VERSION_DIGITS) {
        Some(AttributeValue::N(digits)) => digits.parse().map_err(|_| LayoutError::Unreadable)?,
        _ => return Err(LayoutError::Unreadable),
    };
    let history = match config.get(HISTORY_TABLE) {
        Some(AttributeValue::S(name)) => Some(HistoryTable {
            name: name.clone(),
            is_migrating: config.contains_key(MIGRATING),
        }),
        None => None,
        Some(_) => return Err(LayoutError::Unreadable),
    };
    Ok(Layout {
        digits: Some(digits),
        history,
    })
}

/// Error of a table's layout.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// The version keys have another width.
    #[error("the table's version keys have {stored} digits, not {requested}")]
    Width {
        /// Width that the table was created with.
        stored: VersionDigits,
        /// Width that was requested.
        requested: VersionDigits,
    },
    /// History is in another table.
    #[error("the table's history is in the table {stored}, not in {requested}")]
    History {
        /// Table of the stored layout.
        stored: String,
        /// Table that was requested.
        requested: String,
    },
    /// The stored layout is invalid.
    #[error("the table's layout cannot be read")]
    Unreadable,
    /// A request failed.
    #[error("failed to read the table's layout")]
    Service(#[from] ServiceError),
}
