//! S3 and SQS endpoints that run outside of the stack, and the resources that the stack creates there.

pub mod bucket;
pub(crate) mod services;
