//! The complete stack on one machine: an embedded DynamoDB, Lambda's Runtime API and Invoke API, and the event source
//! mapping from the table's stream to a function.

#![allow(
    missing_docs,
    reason = "an internal crate: comments are where a name does not say enough"
)]

pub mod args;
pub mod attach;
pub mod dynamodb;
pub mod error;
pub mod feed;
mod files;
pub mod function;
pub mod lambda;
mod listener;
pub mod mapping;
pub mod report;
pub mod run;
pub mod seal;
pub mod stack;
pub mod template;

/// Locks a mutex. A thread that panicked while it held the lock has left a value that is still valid.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
