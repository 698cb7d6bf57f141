//! Reads of the global secondary index `TimeIndex`, which has the keys of the versions of all entities by the time of their insertion.
//!
//! | module | contents |
//! |---|---|
//! | [`source`] | the choice between the index and a scan |
//! | [`pages`] | queries of its partitions |
//! | `entities` | entities with versions in a window, or all of a table |
//! | [`audit`] | comparison with the versions of the table |
//!
//! Its reads are eventually consistent. It does not have records in quarantine, and versions that are not in history yet.

pub mod audit;
pub(crate) mod entities;
pub mod pages;
pub mod source;
