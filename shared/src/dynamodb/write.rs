//! A write of one item with a condition: a request of its own, or a part of a transaction. If the condition fails, the stored item is
//! returned.
//!
//! The SDK retries a request whose response was lost. If the first attempt was applied, the condition of the next one fails on the
//! writer's own item: [`Failed::was_unanswered`] tells this case from a concurrent writer.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use aws_sdk_dynamodb::{
    Client,
    config::{ConfigBag, Intercept, RuntimeComponents, interceptors::FinalizerInterceptorContextRef},
    error::{BoxError, BuildError},
    operation::{delete_item::DeleteItemError, put_item::PutItemError, update_item::UpdateItemError},
    types::{
        AttributeValue, Delete, Put, ReturnValue, ReturnValuesOnConditionCheckFailure::AllOld, TransactWriteItem,
        Update,
    },
};

use crate::{
    domain::Item,
    dynamodb::{cancellation, client::error::ServiceError, expression::Expression},
};

/// Key or attributes of an item.
pub type Attributes = HashMap<String, AttributeValue>;

/// Write of one item.
pub struct Write {
    table: String,
    action: Action,
    /// Condition, and changes of an update.
    expression: Expression,
    /// Result of an update.
    returns: Option<ReturnValue>,
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
            .set_return_values_on_condition_check_failure($parts.get_condition_expression().as_ref().map(|_| AllOld))
    };
}

/// Sends an operation with this name and error type.
macro_rules! send {
    ($operation:expr, $name:literal, $error:ident) => {{
        let unanswered = Unanswered::default();
        match $operation.customize().interceptor(unanswered.clone()).send().await {
            Ok(output) => Ok(Ok(output.attributes.map(Item::from))),
            Err(error) => match error.as_service_error() {
                Some($error::ConditionalCheckFailedException(failure)) => Ok(Err(Failed {
                    stored: failure.item().cloned().map(Item::from),
                    was_unanswered: unanswered.0.load(Ordering::Relaxed),
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

    /// Creates the put of an item whose key must be free.
    pub fn insert(table: &str, item: impl Into<Attributes>) -> Self {
        Self::put(table, item, Expression::absent())
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
            returns: Some(ReturnValue::AllNew),
        }
    }

    /// Has no item as the result of an update, which can be large.
    #[must_use]
    pub fn without_result(self) -> Self {
        Self { returns: None, ..self }
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
                let operation = operation.set_return_values(self.returns);
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
                let update = conditional!(Update::builder(), self, parts).set_key(Some(key));
                let update = update.set_update_expression(parts.get_update_expression().clone());
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

/// Sends writes in one transaction. Returns `false` if a condition failed, and then nothing is written.
///
/// # Errors
///
/// Returns [`ServiceError`] if the request fails.
pub async fn send_together(client: &Client, writes: impl IntoIterator<Item = Write>) -> Result<bool, ServiceError> {
    let items = writes.into_iter().map(Write::into_transaction);
    let sent = cancellation::send(client, items.collect::<Result<_, _>>()?, &[cancellation::CONDITION]);
    Ok(sent.await?.is_ok())
}

/// Interceptor of one operation, which is `true` if DynamoDB can have applied an attempt without a response.
#[derive(Debug, Clone, Default)]
struct Unanswered(Arc<AtomicBool>);

impl Intercept for Unanswered {
    fn name(&self) -> &'static str {
        "unanswered attempts"
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        // A server error can come from a request that succeeded.
        let is_unanswered = match context.output_or_error() {
            Some(Err(error)) if error.is_operation_error() => context
                .response()
                .is_some_and(|response| response.status().is_server_error()),
            Some(Err(error)) => error.is_timeout_error() || error.is_connector_error() || error.is_response_error(),
            _ => false,
        };
        self.0.fetch_or(is_unanswered, Ordering::Relaxed);
        Ok(())
    }
}
