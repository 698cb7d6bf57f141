//! Upstream events: the updates that they contain, in their order.

pub(crate) mod batch;
pub mod request;
