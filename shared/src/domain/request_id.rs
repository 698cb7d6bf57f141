//! The idempotency key of an update.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// Maximum length of an idempotency key in bytes: after the prefix
/// `request#`, it must fit into a
/// [sort key (1,024 bytes)](https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html).
pub const MAX_REQUEST_ID_BYTES: usize = 1000;

/// Idempotency key of an update: of several updates of one entity with the same key, only the first is applied.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RequestId(String);

impl RequestId {
    /// Creates an idempotency key from a text of 1 to [`MAX_REQUEST_ID_BYTES`] bytes.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidRequestId`] if the id is empty or longer than [`MAX_REQUEST_ID_BYTES`].
    pub fn new(id: impl Into<String>) -> Result<Self, InvalidRequestId> {
        let id = id.into();
        if (1..=MAX_REQUEST_ID_BYTES).contains(&id.len()) {
            Ok(Self(id))
        } else {
            Err(InvalidRequestId { bytes: id.len() })
        }
    }

    /// Returns the key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the key as it appears in logs. A UUID is unchanged: AWS assigns UUIDs to messages and invocations, so an
    /// operator can follow one id from the queue to the version. Any other key may contain private data and is replaced
    /// by its [hash](RequestHash).
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

// Omits the id: the client chooses it, so it may contain private data.
impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestId(..)")
    }
}

/// The id is empty or longer than [`MAX_REQUEST_ID_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("RequestId has {bytes} bytes, and 1 to {MAX_REQUEST_ID_BYTES} are allowed")]
pub struct InvalidRequestId {
    bytes: usize,
}

/// Hash of a request id: 64 bits, 11 characters. Hashes in one default window collide with a probability near 10^-17.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHash(String);

impl RequestHash {
    /// Returns the first 64 bits of the id's SHA-256, in URL-safe base64 without padding.
    pub fn of(id: &RequestId) -> Self {
        Self(URL_SAFE_NO_PAD.encode(&Sha256::digest(&id.0)[..8]))
    }

    /// Returns the characters of the hash.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the first 7 characters, 42 bits: the key of a recent request. Keys in one default window
    /// collide with a probability near 10^-11; then the check digits of the payload tell the requests apart.
    pub fn key(&self) -> &str {
        self.0.get(..7).unwrap_or(&self.0)
    }

    /// Returns `true` for an eighth of all requests.
    pub fn is_one_in_eight(&self) -> bool {
        self.0.bytes().next().is_some_and(|first| first % 8 == 0)
    }
}
