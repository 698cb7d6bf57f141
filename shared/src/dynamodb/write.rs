//! A write of one item with a condition: a request of its own, or a part of a transaction. If the condition fails, the stored item is
//! returned.
//!
//! The SDK retries a request whose response was lost. If the first attempt was applied, the condition of the next one fails on the
//! writer's own item: [`Failed::was_unanswered`] tells this case from a concurrent writer.

use std::collections::HashMap;

use aws_sdk_dynamodb::{
    Client,
    error::BuildError,
    operation::{delete_item::DeleteItemError, put_item::PutItemError, update_item::UpdateItemError},
    types::{
        AttributeValue, Delete, Put, ReturnValue, ReturnValuesOnConditionCheckFailure::AllOld, TransactWriteItem,
        Update,
    },
};

use crate::{
    domain::Item,
    dynamodb::{client::error::ServiceError, expression::Expression, unanswered::UnansweredAttempts},
};

/// Key or attributes of an item.
pub type Attributes = HashMap<String, AttributeValue>;

/// Write of one item.
pub struct Write {
    table: String,
    action: Action,
    /// Condition, and changes of an update.
    expression: Expression,
}

enum Action {
    Put(Attributes),
    /// By its key.
    Update(Attributes),
    /// By its key.
    Delete(Attributes),
}

/// Failed condition of a request.
pub struct Failed {
    /// Stored item, `None` if the key does not exist.
    pub stored: Option<Item>,
    /// `true` if an earlier attempt of the same request got no answer, so that DynamoDB can have applied it.
    pub was_unanswered: bool,
}

/// Sets table and condition on a builder of the SDK, which has a type for each kind of write.
macro_rules! conditional {
    ($builder:expr, $write:expr, $parts:expr) => {
        $builder
            .table_name($write.table)
            .set_condition_expression($parts.get_condition_expression().clone())
            .set_expression_attribute_names($parts.get_expression_attribute_names().clone())
            .set_expression_attribute_values($parts.get_expression_attribute_values().clone())
            .return_values_on_condition_check_failure(AllOld)
    };
}

/// Sends an operation with this name and error type.
macro_rules! send {
    ($operation:expr, $name:literal, $error:ident) => {{
        let unanswered = UnansweredAttempts::default();
        match $operation.customize().interceptor(unanswered.clone()).send().await {
            Ok(output) => Ok(Ok(output.attributes.map(Item::from))),
            Err(error) => match error.as_service_error() {
                Some($error::ConditionalCheckFailedException(failure)) => Ok(Err(Failed {
                    stored: failure.item().cloned().map(Item::from),
                    was_unanswered: unanswered.any(),
                })),
                _ => Err(ServiceError::new($name, &error)),
            },
        }
    }};
}

impl Write {
    /// Creates the put of an item.
    pub fn put(table: &str, item: impl Into<Attributes>, condition: Expression) -> Self {
        Self::new(table, Action::Put(item.into()), condition)
    }

    /// Creates the update of the item with a key.
    pub fn update(table: &str, key: impl Into<Attributes>, expression: Expression) -> Self {
        Self::new(table, Action::Update(key.into()), expression)
    }

    /// Creates the deletion of the item with a key.
    pub fn delete(table: &str, key: impl Into<Attributes>, condition: Expression) -> Self {
        Self::new(table, Action::Delete(key.into()), condition)
    }

    fn new(table: &str, action: Action, expression: Expression) -> Self {
        Self {
            table: table.to_owned(),
            action,
            expression,
        }
    }

    /// Sends the write as a request of its own. The result of an update is the new item.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if the request fails. A failed condition is an outcome.
    pub async fn send(self, client: &Client) -> Result<Result<Option<Item>, Failed>, ServiceError> {
        let parts = self.expression.apply_to_transaction(Update::builder());
        match self.action {
            Action::Put(item) => {
                let operation = conditional!(client.put_item(), self, parts).set_item(Some(item));
                send!(operation, "PutItem", PutItemError)
            }
            Action::Update(key) => {
                let operation = conditional!(client.update_item(), self, parts).set_key(Some(key));
                let operation = operation.set_update_expression(parts.get_update_expression().clone());
                let operation = operation.return_values(ReturnValue::AllNew);
                send!(operation, "UpdateItem", UpdateItemError)
            }
            Action::Delete(key) => {
                let operation = conditional!(client.delete_item(), self, parts).set_key(Some(key));
                send!(operation, "DeleteItem", DeleteItemError)
            }
        }
    }

    /// Returns the write as a part of a transaction.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if the SDK cannot build it.
    pub fn into_transaction(self) -> Result<TransactWriteItem, ServiceError> {
        let not_built = |_: BuildError| ServiceError::not_built("TransactWriteItems");
        let part = TransactWriteItem::builder();
        let parts = self.expression.apply_to_transaction(Update::builder());
        let part = match self.action {
            Action::Put(item) => {
                let put = conditional!(Put::builder(), self, parts).set_item(Some(item));
                part.put(put.build().map_err(not_built)?)
            }
            Action::Update(key) => {
                let update = parts.table_name(self.table).set_key(Some(key));
                let update = update.return_values_on_condition_check_failure(AllOld);
                part.update(update.build().map_err(not_built)?)
            }
            Action::Delete(key) => {
                let delete = conditional!(Delete::builder(), self, parts).set_key(Some(key));
                part.delete(delete.build().map_err(not_built)?)
            }
        };
        Ok(part.build())
    }
}
