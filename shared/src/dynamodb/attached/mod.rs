//! Requests for an attached table and its history, beside those that are the same for all tables.
//!
//! | module | contents | requests to the attached table |
//! |---|---|---|
//! | [`items`] | items of the table by their keys | `GetItem`, `BatchGetItem` |
//! | [`audit`] | audit of histories, and of a segment of the history table | `GetItem`, `BatchGetItem` |
//! | `as_of` | the state of an item at a time | |
//! | [`backfill`] | version 1 of items without history | `Scan` |
//! | [`restore`] | an old state of an item, back in the table | `GetItem`, `UpdateItem`, `DeleteItem` |
//! | [`purge`] | deletion of a history | |

mod as_of;
pub mod audit;
pub mod backfill;
pub mod items;
pub mod purge;
pub mod restore;
