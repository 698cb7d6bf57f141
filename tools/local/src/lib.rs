//! The whole stack on one machine: an embedded DynamoDB, Lambda's Runtime and Invoke API, and the event source mapping
//! between a table's stream and a function. With an SQS and an S3 to use, the queues and the bucket as well.

pub mod args;
pub mod dynamodb;
pub mod external;
pub mod feed;
pub mod function;
pub mod lambda;
pub mod mapping;
pub mod queue;
pub mod report;
pub mod run;
pub mod soak;
pub mod stack;
pub mod template;
