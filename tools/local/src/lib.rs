//! The whole stack on one machine: an embedded DynamoDB, Lambda's Runtime and Invoke API, and the event source mapping
//! between a table's stream and a function.

pub mod activity;
pub mod args;
pub mod dump;
pub mod dynamodb;
pub mod feed;
pub mod function;
pub mod history;
pub mod lambda;
pub mod mapping;
pub mod run;
pub mod screen;
pub mod show;
pub mod soak;
pub mod stack;
pub mod template;
pub mod view;
