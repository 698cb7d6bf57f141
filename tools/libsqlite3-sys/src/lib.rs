//! The current bindings of `SQLite`, with the source of a current `SQLite`.
//!
//! The embedded DynamoDB requires rusqlite 0.36, whose bindings contain an older `SQLite`.

pub use current::*;
