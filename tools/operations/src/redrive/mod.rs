//! Redrive: puts the version items of failure documents, and sends the updates of a dead-letter queue again.
//!
//! ```text
//! source ─ feed ─▶ document ─ reader ─▶ records ─ replay (stream-fn's own code) ─▶ tally
//!               └─▶ update ─ resend ─▶ queue of the updates
//! ```
//!
//! The records of a document without a payload are read from the table's stream. A message is deleted only if all of its
//! records are in history, or if its update was sent; so is a record in quarantine. No version item is overwritten.

mod bucket;
mod feed;
mod folder;
mod queue;
mod reader;
mod replay;
mod resend;
mod services;
mod stream;
mod tally;

pub use feed::{Feed, Sink};
pub use reader::Reader;
pub use replay::Replay;
pub use resend::Resend;
pub use services::{Services, VISIBILITY_TIMEOUT};
pub use tally::{Count, Dropped, Tally};
