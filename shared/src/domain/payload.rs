//! Hash of the content of an update: two deliveries of the same update have the same hash.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

use super::{AttributeValue, number::Decimal};

/// Bytes that the text of most updates does not exceed.
const CAPACITY: usize = 512;

/// Hash of everything that an update contains except its request id. Numbers are compared by value, sets in any order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload(String);

impl Payload {
    /// Wraps a hash that was read from a marker.
    pub(super) fn stored(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Returns the characters of the hash.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the first 11 characters, 66 bits: the attribute [`REQUEST_PAYLOAD`](super::names::REQUEST_PAYLOAD).
    pub fn short(&self) -> &str {
        self.0.get(..11).unwrap_or(&self.0)
    }

    /// Returns a number from 1 to 99,999: the check digits of a [recent request](super::recent_requests).
    pub fn check(&self) -> u32 {
        check_of(&self.0).unwrap_or(1)
    }
}

/// Returns a number in the form that equal numbers share, or the text if it is none.
fn canonical(text: &str) -> Cow<'_, str> {
    Decimal::parse(text).map_or(Cow::Borrowed(text), |number| Cow::Owned(number.canonical()))
}

/// Returns the check digits of a hash from its first 8 characters, `None` if they are not those of a hash.
pub fn check_of(payload: &str) -> Option<u32> {
    let bytes = URL_SAFE_NO_PAD.decode(payload.get(..8)?).ok()?;
    let number = bytes
        .iter()
        .take(4)
        .fold(0u32, |number, byte| (number << 8) | u32::from(*byte));
    Some(1 + number % 99_999)
}

/// Text to hash. Each part is preceded by its length, so that two different lists of parts have different texts.
pub(super) struct PayloadText(String);

impl Default for PayloadText {
    fn default() -> Self {
        Self(String::with_capacity(CAPACITY))
    }
}

impl PayloadText {
    pub(super) fn part(&mut self, part: &str) {
        // Writing to a string does not fail.
        let _ = write!(self.0, "{}:", part.len());
        self.0.push_str(part);
    }

    pub(super) fn value(&mut self, value: &AttributeValue) {
        match value {
            AttributeValue::S(text) => self.tagged("S", &[text]),
            AttributeValue::N(text) => self.tagged("N", &[canonical(text)]),
            AttributeValue::B(bytes) => self.tagged("B", &[URL_SAFE_NO_PAD.encode(bytes)]),
            AttributeValue::Bool(value) => self.tagged("BOOL", &[if *value { "true" } else { "false" }]),
            AttributeValue::Null(_) => self.tagged::<&str>("NULL", &[]),
            AttributeValue::Ss(texts) => self.set("SS", texts.iter()),
            AttributeValue::Ns(numbers) => self.set("NS", numbers.iter().map(|number| canonical(number))),
            AttributeValue::Bs(values) => self.set("BS", values.iter().map(|bytes| URL_SAFE_NO_PAD.encode(bytes))),
            AttributeValue::L(values) => {
                self.tagged("L", &[values.len().to_string()]);
                for value in values {
                    self.value(value);
                }
            }
            AttributeValue::M(members) => {
                self.tagged("M", &[members.len().to_string()]);
                for (name, value) in members.iter().collect::<BTreeMap<_, _>>() {
                    self.part(name);
                    self.value(value);
                }
            }
        }
    }

    fn set<T: AsRef<str> + Ord>(&mut self, tag: &str, members: impl Iterator<Item = T>) {
        let members: Vec<_> = members.collect::<BTreeSet<_>>().into_iter().collect();
        self.tagged(tag, &members);
    }

    fn tagged<T: AsRef<str>>(&mut self, tag: &str, parts: &[T]) {
        self.part(tag);
        self.part(&parts.len().to_string());
        for part in parts {
            self.part(part.as_ref());
        }
    }

    pub(super) fn hash(&self) -> Payload {
        let hash: [u8; 32] = Sha256::digest(self.0.as_bytes()).into();
        let (first, _) = hash.split_at(16);
        Payload(URL_SAFE_NO_PAD.encode(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Item;

    /// Stored hashes identify requests of earlier releases, so that another hash would apply a retried update twice.
    #[test]
    fn the_hash_of_each_type_does_not_change() {
        let item = serde_json::json!({
            "a": {"S": "x"}, "b": {"N": "1.50"}, "c": {"B": "AQI="}, "d": {"BOOL": true}, "e": {"BOOL": false}, "f": {"NULL": true},
            "g": {"SS": ["b", "a"]}, "h": {"NS": ["2", "1.0"]}, "i": {"BS": ["Ag==", "AQ=="]}, "j": {"L": [{"S": ""}]},
            "k": {"M": {"n": {"N": "-0"}}},
        });
        let item: Item = serde_json::from_value(item).unwrap();
        let mut text = PayloadText::default();
        text.value(&AttributeValue::M(item.into()));
        assert_eq!(text.hash().as_str(), "FPn3kcmSZ0mYLCAtD85QHg");
    }
}
