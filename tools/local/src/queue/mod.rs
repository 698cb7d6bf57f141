//! SQS queues of the template, and the event source mapping that delivers one of them to a function.
//!
//! ```text
//! ReceiveMessage ──> event ──> Invoker ──> DeleteMessageBatch (messages that succeeded)
//!                                  └─ failed messages become visible again after the visibility timeout, and SQS
//!                                     moves them to the dead-letter queue after the maximum receive count
//!                                     (a throttled invocation is first tried again within the receive)
//! ```

pub mod client;
pub mod event;
pub mod mapping;

pub use self::client::{Queue, QueueError, client, ensure};

#[cfg(test)]
mod tests;
