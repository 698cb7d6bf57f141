//! History of a table that other programs write: any keys, any client.
//!
//! ```text
//! attached table                                  history table (keys PK, SK)
//! customerId  orderNo  status                     PK                               SK           Image
//! c1          7        open     ── stream ──>     {"customerId":"c1","orderNo":7}  v0000000001  the item
//! ```
//!
//! stream-fn reads the stream of the attached table, and inserts a version item for each change. The writers of the table do
//! not change, and need no version number of their own.
//!
//! | module | contents |
//! |---|---|
//! | [`definition`] | the attached table |
//! | [`key`] | the key of an item as the partition key of its history |
//! | [`key_attribute`] | name and type of a key attribute |
//! | [`change`] | one stream record, and its place in the order of changes |
//! | [`decision`] | the states that a change adds to history |
//! | [`item`] | a state as a version item, and back |

pub mod change;
pub mod decision;
pub mod definition;
mod flat;
pub mod item;
pub mod key;
pub mod key_attribute;
mod names;
mod recorded;
mod state;

pub use definition::AttachedTable;

use super::keys::VersionDigits;

/// Width of the version keys of a history table, so that one Query reads versions in their order.
pub const DIGITS: u8 = 10;

/// Returns the width of the version keys, see [`DIGITS`].
pub fn digits() -> VersionDigits {
    VersionDigits::new(DIGITS).unwrap_or_default()
}
