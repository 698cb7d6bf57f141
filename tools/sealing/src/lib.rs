//! Seals versions in a [public log](seal::log), and works with what is sealed.
//!
//! ```text
//! index by time ─> candidates ─> versions, keys ─> leaves, sorted ─> staging ─> swap of the state ─> tiles ─> checkpoint
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`sealer`], `run`, `unsealed`, `leaves`, `batch` | what seal-fn does once a minute |
//! | [`candidates`] | versions that the index by time shows and the log may lack |
//! | [`members`], [`keys`] | a version as members, and the random keys of their salts |
//! | [`staged`], [`state`] | a batch before it is in the log, and the item that decides which batch is next |
//! | [`log`], [`objects`], [`signer`] | the log: its objects in a folder or a bucket, and its key |
//! | [`prove`], [`find`], [`shown`] | proofs for auditors, where the log has a version, and what of it is shown |
//! | [`audit`] | the whole table against the log |
//! | [`erase`] | erasure of values, so that proofs of all others hold |
//! | [`settings`], [`place`] | settings of seal-fn, and where the log of a table is |
//!
//! A batch belongs to the log once the state names it. Before, nothing is signed and no tile is written; afterwards, every start finishes it.

pub mod audit;
mod batch;
pub mod candidates;
pub mod erase;
pub mod error;
pub mod find;
pub mod keys;
mod leaves;
pub mod log;
pub mod members;
pub mod objects;
pub mod place;
pub mod prove;
mod run;
#[cfg(feature = "runtime")]
mod runtime;
pub mod sealer;
pub mod settings;
pub mod shown;
pub mod signer;
pub mod staged;
pub mod state;
mod unsealed;

#[cfg(feature = "runtime")]
pub use crate::runtime::run;
