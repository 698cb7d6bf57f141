//! The idempotency key of an update.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
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

    /// What logs call the request. A UUID is what AWS gives a message or an invocation, tells nothing, and is shown as it is,
    /// so that one id leads from the queue to the version. Any other key is somebody's own words: its [hash](RequestHash).
    ///
    /// ```
    /// use shared::domain::request_id::RequestId;
    ///
    /// let in_logs = |id| RequestId::new(id).unwrap().in_logs();
    /// assert_eq!(in_logs("7f3b1c9e-0d55-4a3c-9a55-8c1f6f1f2a10"), "7f3b1c9e-0d55-4a3c-9a55-8c1f6f1f2a10");
    /// assert_eq!(in_logs("order of John Doe").len(), 11);
    /// ```
    pub fn in_logs(&self) -> String {
        if is_uuid(&self.0) {
            self.0.clone()
        } else {
            RequestHash::of(self).as_str().to_owned()
        }
    }
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(place, byte)| match place {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
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

/// A request id, cut down to 64 bits: 11 characters.
///
/// Two of a window's requests have the same with a probability of one in 10^17.
///
/// ```
/// use shared::domain::request_id::{RequestHash, RequestId};
///
/// let hash = RequestHash::of(&RequestId::new("order-4711").unwrap());
/// assert_eq!(hash.as_str().len(), 11);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHash(String);

impl RequestHash {
    /// The first 64 bits of the id's SHA-256, in base64.
    pub fn of(id: &RequestId) -> Self {
        let hash: [u8; 32] = Sha256::digest(id.as_str().as_bytes()).into();
        let (first, _) = hash.split_at(8);
        Self(URL_SAFE_NO_PAD.encode(first))
    }

    /// Its characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
