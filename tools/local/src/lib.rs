//! The complete stack on one machine: an embedded DynamoDB, Lambda's Runtime API and Invoke API, and the event source
//! mapping from the table's stream to a function. With SQS and S3 endpoints, also the queues and the bucket.

#![allow(
    missing_docs,
    reason = "an internal crate: comments are where a name does not say enough"
)]

pub mod args;
pub mod attach;
pub mod dynamodb;
pub mod external;
pub mod feed;
mod files;
pub mod function;
pub mod lambda;
mod listener;
pub mod mapping;
pub mod queue;
pub mod report;
pub mod run;
pub mod stack;
pub mod template;
