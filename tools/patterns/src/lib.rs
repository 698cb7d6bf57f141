//! Other patterns of versioning, each independent of the numbered versions of writer-fn.
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

use aws_sdk_dynamodb::types::AttributeValue;

fn s(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

fn n(number: impl ToString) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

/// Compiles the examples of the library's user page as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
struct LibraryPage;
