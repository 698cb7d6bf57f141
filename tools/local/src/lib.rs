//! The whole stack on one machine: an embedded DynamoDB, Lambda's Runtime and Invoke API, and the event source mapping
//! between a table's stream and a function.

pub mod mapping;
