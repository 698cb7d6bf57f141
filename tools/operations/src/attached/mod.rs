//! Attached tables, for operators: the functions need none of this.
//!
//! | module | contents |
//! |---|---|
//! | [`agreement`] | an item compared with its history |
//! | [`definition`] | the attached table, from the JSON that creates it |
//! | [`filter`] | which items have a history, as a pattern of the event source mapping |
//! | [`event_pattern`] | patterns of the event source mapping |
//! | [`selection`] | the filter, applied to items and records |

pub mod agreement;
pub mod definition;
pub mod event_pattern;
pub mod filter;
pub mod selection;

pub use definition::parse;
