//! Upstream events: the updates that they contain, in their order.

pub(crate) mod batch;
mod envelope;
pub mod http;
pub mod invalid_http;
mod kinesis;
pub mod message;
mod queue;
pub mod request;
