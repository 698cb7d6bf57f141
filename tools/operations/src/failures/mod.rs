//! Failure documents of an event source mapping, and the queue messages that announce them.

pub mod document;
pub mod message;
pub mod source;
