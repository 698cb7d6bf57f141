//! The whole stack on one machine: an embedded DynamoDB, Lambda's Runtime and Invoke API, and the event source mapping
//! between a table's stream and a function. With an SQS and an S3 to use, the queues and the bucket as well.

pub mod activity;
pub mod args;
pub mod bucket;
pub mod dump;
pub mod dynamodb;
pub mod feed;
pub mod function;
pub mod history;
pub mod lambda;
pub mod mapping;
mod outside;
pub mod queue;
pub mod run;
pub mod screen;
pub mod show;
pub mod soak;
pub mod stack;
pub mod template;
pub mod view;
