//! Incarnation of a latest item: its life from the update that creates it to a purge.
//!
//! ```text
//! v0 and v1 to vN: V0Id "q83H"   ── purge ──▶   v0 and v1 to vM of the same key: V0Id "Zm2_"
//! ```
//!
//! A purge deletes the counter too, so versions of a later entity with the same key have the same numbers. A stream record
//! from before the purge can arrive after it. The incarnation tells to which of both it belongs, whatever the clocks show.
//!
//! Each update sets it unless the latest item has one. Other programs leave it unchanged. A latest item that is restored from
//! history has none, so that the next update begins another one: an incarnation whose latest item is gone has ended.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

use super::{AttributeValue, Item, attributes::text, names, recorded_at::RecordedAt, request_id::RequestId};

/// Token of an incarnation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Incarnation(String);

impl Incarnation {
    /// Length of a token.
    pub const BYTES: usize = 4;

    /// Returns the incarnation that an update starts, if there is no latest item: 24 bits of a hash of its request and time. Two incarnations of one key
    /// are the same with a probability of 10^-7. The
    /// same request sent again starts the same one, and a delivery after a purge another one.
    pub fn started_by(request: &RequestId, clock: RecordedAt) -> Self {
        let mut hash = Sha256::new();
        hash.update(clock.to_string());
        hash.update(request.as_str());
        Self(URL_SAFE_NO_PAD.encode(&hash.finalize()[..Self::BYTES / 4 * 3]))
    }

    /// Returns the incarnation of a latest item or version item, `None` if only other programs wrote it.
    pub fn of(item: &Item) -> Option<Self> {
        Some(Self(text(item, names::INCARNATION)?.to_owned()))
    }

    /// Returns the token.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the attribute value.
    pub fn value(&self) -> AttributeValue {
        AttributeValue::S(self.0.clone())
    }
}

impl From<&str> for Incarnation {
    fn from(token: &str) -> Self {
        Self(token.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_request_at_each_time_begins_its_own() {
        let at = |micros| RecordedAt::since_epoch(Duration::from_micros(micros));
        let started = |id: &str, micros| Incarnation::started_by(&RequestId::new(id).unwrap(), at(micros));
        assert_eq!(started("a", 1), started("a", 1));
        assert_eq!(started("a", 1).as_str().len(), Incarnation::BYTES);
        assert!(started("a", 1) != started("a", 2) && started("a", 1) != started("b", 1));
    }
}
