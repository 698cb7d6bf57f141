//! Failure documents of an event source mapping, and the messages of dead-letter queues.

pub mod document;
pub mod message;
pub mod source;
pub mod table_id;
pub mod update;
