//! S3 and SQS endpoints that run outside of the stack, and the resources of the template there.

pub mod bucket;
pub mod reporting;
pub(crate) mod services;
