//! Provable history.
//!
//! ```text
//! item of a version ─> members ─> commitments ─> content root ─> leaf ─> entry of the log ─> tiles, checkpoint
//!      format          path, value    salt                               log: RFC 6962, C2SP tlog-tiles, signed note
//! ```
//!
//! [`format`] has the bytes that are hashed; `docs/log-format.md` specifies them. [`log`] has the public formats around them. Neither has a
//! client, a clock or randomness.

pub mod format;
pub mod log;

/// A SHA-256 hash.
pub type Hash = [u8; 32];
