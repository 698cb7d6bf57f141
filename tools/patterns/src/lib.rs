//! Other patterns of versioning, each independent of the numbered versions of an entity.
//!
//! | module | a write | and an older or concurrent one |
//! |---|---|---|
//! | [`time_series`] | stores a state under its time | is another item |
//! | [`two_tables`] | stores the row, and the same row in a table of all versions | is a conflict |
//! | [`ratchet`] | replaces an item with an older timestamp | changes nothing |
//! | [`optimistic_lock`] | replaces a value whose version has not changed | is a conflict |
//!
//! [`hedge`] sends a second request if the first one is slow.

#![warn(clippy::missing_errors_doc)]

use std::collections::HashMap;

use aws_sdk_dynamodb::{
    operation::query::builders::QueryFluentBuilder,
    types::{AttributeValue, Put, builders::PutBuilder},
};
use shared::{domain::Item, dynamodb::client::error::ServiceError};

/// Sends a conditional request of one item: an operation, its name, and the variant of a failed condition. The result of a failed
/// condition is [`Failed`].
macro_rules! conditional {
    ($operation:expr, $name:literal, $failed:path) => {{
        let unanswered = shared::dynamodb::client::failure::UnansweredAttempts::default();
        match $operation.customize().interceptor(unanswered.clone()).send().await {
            Ok(output) => Ok(Ok(output)),
            Err(error) => match error.as_service_error() {
                Some($failed(failure)) => Ok(Err($crate::Failed {
                    stored: failure.item().map(|item| shared::domain::Item::from(item.clone())),
                    was_unanswered: unanswered.any(),
                })),
                _ => Err(shared::dynamodb::client::error::ServiceError::new($name, &error)),
            },
        }
    }};
}

/// Sends the put of a transaction as a request of its own.
macro_rules! put_item {
    ($client:expr, $put:expr) => {{
        let put: aws_sdk_dynamodb::types::Put = $put;
        let operation = $client
            .put_item()
            .table_name(put.table_name)
            .set_item(Some(put.item))
            .set_condition_expression(put.condition_expression)
            .set_expression_attribute_names(put.expression_attribute_names)
            .set_expression_attribute_values(put.expression_attribute_values)
            .set_return_values_on_condition_check_failure(put.return_values_on_condition_check_failure);
        conditional!(
            operation,
            "PutItem",
            aws_sdk_dynamodb::operation::put_item::PutItemError::ConditionalCheckFailedException
        )
    }};
}

pub mod hedge;
pub mod optimistic_lock;
pub mod ratchet;
pub mod time_series;
pub mod two_tables;

/// Failed condition of a request.
struct Failed {
    /// Stored item, `None` if there is none or the request does not ask for it.
    stored: Option<Item>,
    /// `true` if an earlier attempt of the same request got no answer, so that DynamoDB can have applied it.
    was_unanswered: bool,
}

fn s(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

fn n(number: impl ToString) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

fn put(table: &str, item: impl Into<HashMap<String, AttributeValue>>) -> PutBuilder {
    Put::builder().table_name(table).set_item(Some(item.into()))
}

/// Sends a query until its last page.
async fn query_all(query: QueryFluentBuilder) -> Result<Vec<Item>, ServiceError> {
    let items = query
        .into_paginator()
        .items()
        .send()
        .collect::<Result<Vec<_>, _>>()
        .await;
    let items = items.map_err(|error| ServiceError::new("Query", &error))?;
    Ok(items.into_iter().map(Item::from).collect())
}

/// Compiles the examples of the library's user page as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
struct LibraryPage;
