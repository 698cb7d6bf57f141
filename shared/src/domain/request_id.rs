//! The idempotency key of an update.

use std::fmt;

use thiserror::Error;

/// The longest idempotency key, in bytes: it has to fit a sort key (1,024 bytes) behind a short prefix.
pub const MAX_REQUEST_ID_BYTES: usize = 1000;

/// The idempotency key of an update: two updates of one entity with the same key are one update.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RequestId(String);

impl RequestId {
    /// Not empty, and at most [`MAX_REQUEST_ID_BYTES`] long.
    pub fn new(id: impl Into<String>) -> Result<Self, InvalidRequestId> {
        let id = id.into();
        if (1..=MAX_REQUEST_ID_BYTES).contains(&id.len()) {
            Ok(Self(id))
        } else {
            Err(InvalidRequestId { bytes: id.len() })
        }
    }

    /// The key itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

// Upstream chooses it, so it may say something that belongs in no log.
impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestId(..)")
    }
}

/// Empty, or longer than [`MAX_REQUEST_ID_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("RequestId has {bytes} bytes, and 1 to {MAX_REQUEST_ID_BYTES} are allowed")]
pub struct InvalidRequestId {
    bytes: usize,
}
