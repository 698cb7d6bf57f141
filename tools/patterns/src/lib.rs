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

pub mod hedge;
pub mod optimistic_lock;
pub mod ratchet;
pub mod time_series;
pub mod two_tables;

use aws_sdk_dynamodb::{Client, operation::query::builders::QueryFluentBuilder};
use shared::{
    domain::Item,
    dynamodb::{client::error::ServiceError, write::Attributes},
};

/// Reads the item with a key.
async fn get(client: &Client, table: &str, key: Attributes, consistent: bool) -> Result<Option<Item>, ServiceError> {
    let request = client.get_item().table_name(table).set_key(Some(key));
    let output = request.consistent_read(consistent).send().await;
    let output = output.map_err(|error| ServiceError::new("GetItem", &error))?;
    Ok(output.item.map(Item::from))
}

/// Sends a query until its last page.
async fn query_all(query: QueryFluentBuilder) -> Result<Vec<Item>, ServiceError> {
    let items = query.into_paginator().items().send();
    let items = items.collect::<Result<Vec<_>, _>>().await;
    let items = items.map_err(|error| ServiceError::new("Query", &error))?;
    Ok(items.into_iter().map(Item::from).collect())
}

/// Compiles the examples of the library's user page as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
struct LibraryPage;
