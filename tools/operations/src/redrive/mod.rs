//! Redrive: puts the version items of failure documents.
//!
//! ```text
//! source ─ feed ─▶ document ─ reader ─▶ records ─ replay (stream-fn's own code) ─▶ tally
//! ```
//!
//! The records of a document without a payload are read from the table's stream. A message is deleted only if all of its
//! records are in history. No version item is overwritten.

mod bucket;
mod feed;
mod folder;
mod listing;
mod queue;
mod reader;
mod replay;
mod services;
mod stream;
mod tally;

pub use feed::{Feed, Sink};
pub use listing::{Entry, Listed};
pub use reader::{Read, Reader};
pub use replay::Replay;
pub use services::{Services, VISIBILITY_TIMEOUT};
pub use stream::{Fetched, TableStream};
pub use tally::Tally;
