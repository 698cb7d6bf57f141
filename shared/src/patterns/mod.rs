//! Other patterns of versioning, each independent of the numbered versions of [`dynamodb::write`](mod@crate::dynamodb::write).

pub mod hedge;
pub mod optimistic_lock;
pub mod ratchet;
pub mod time_series;
pub mod two_tables;
