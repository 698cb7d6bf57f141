//! Hash of the content of an update: two deliveries of the same update have the same hash.

use std::{borrow::Cow, collections::BTreeMap};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};
use shared::domain::{AttributeValue, change::Change, number::Decimal};

/// Length of the hash that a version has.
pub(super) const SHORT: usize = 6;
/// Bytes that the text of most updates does not exceed.
const CAPACITY: usize = 512;

/// Hash of everything that an update contains except its request id. Numbers are compared by value, sets in any order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload(String);

impl Payload {
    /// Wraps a hash that was read from a marker.
    pub(crate) fn stored(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Returns the hash of an operation that is no update of attributes, and of the changes that come with it.
    pub(super) fn of_operation(parts: &[&str], changes: &BTreeMap<String, Change>) -> Self {
        let mut text = PayloadText::default();
        for part in parts {
            text.part(part);
        }
        text.changes(changes);
        text.hash()
    }

    /// Returns the characters of the hash.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the first 6 characters, 36 bits: the attribute [`REQUEST_PAYLOAD`](shared::domain::names::REQUEST_PAYLOAD).
    pub fn short(&self) -> &str {
        self.0.get(..SHORT).unwrap_or(&self.0)
    }

    /// Returns a number from 1 to 99,999: the check digits of a [recent request](crate::counter::recent_requests).
    pub fn check(&self) -> u32 {
        check_of(&self.0).unwrap_or(1)
    }
}

/// Returns a number in the form that equal numbers share, or the text if it is none.
fn canonical(text: &str) -> Cow<'_, str> {
    Decimal::parse(text).map_or(Cow::Borrowed(text), |number| Cow::Owned(number.canonical()))
}

/// Returns the check digits of a hash from its first 4 characters, `None` if they are not those of a hash.
pub fn check_of(payload: &str) -> Option<u32> {
    let bytes = URL_SAFE_NO_PAD.decode(payload.get(..4)?).ok()?;
    let number = bytes.iter().fold(0u32, |number, byte| (number << 8) | u32::from(*byte));
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
        self.0.push_str(itoa::Buffer::new().format(part.len()));
        self.0.push(':');
        self.0.push_str(part);
    }

    fn count(&mut self, count: usize) {
        self.part(itoa::Buffer::new().format(count));
    }

    pub(super) fn changes(&mut self, changes: &BTreeMap<String, Change>) {
        for (name, change) in changes {
            self.part(name);
            match change {
                Change::Set(value) => self.value(value),
                Change::Remove => self.part("-"),
                Change::Update(members) => {
                    self.part("update");
                    self.count(members.len());
                    self.changes(members);
                }
            }
        }
    }

    fn value(&mut self, value: &AttributeValue) {
        match value {
            AttributeValue::S(text) => self.tagged("S", text),
            AttributeValue::N(text) => self.tagged("N", &canonical(text)),
            AttributeValue::B(bytes) => self.tagged("B", &URL_SAFE_NO_PAD.encode(bytes)),
            AttributeValue::Bool(value) => self.tagged("BOOL", if *value { "true" } else { "false" }),
            AttributeValue::Null(_) => self.tag("NULL", 0),
            AttributeValue::Ss(texts) => self.set("SS", texts.iter()),
            AttributeValue::Ns(numbers) => self.set("NS", numbers.iter().map(|number| canonical(number))),
            AttributeValue::Bs(values) => self.set("BS", values.iter().map(|bytes| URL_SAFE_NO_PAD.encode(bytes))),
            AttributeValue::L(values) => {
                self.tag("L", 1);
                self.count(values.len());
                for value in values {
                    self.value(value);
                }
            }
            AttributeValue::M(members) => {
                self.tag("M", 1);
                self.count(members.len());
                let mut members: Vec<_> = members.iter().collect();
                members.sort_unstable_by_key(|(name, _)| *name);
                for (name, value) in members {
                    self.part(name);
                    self.value(value);
                }
            }
        }
    }

    fn set<T: AsRef<str> + Ord>(&mut self, tag: &str, members: impl Iterator<Item = T>) {
        let mut members: Vec<_> = members.collect();
        members.sort_unstable();
        members.dedup();
        self.tag(tag, members.len());
        for member in members {
            self.part(member.as_ref());
        }
    }

    fn tag(&mut self, tag: &str, parts: usize) {
        self.part(tag);
        self.count(parts);
    }

    fn tagged(&mut self, tag: &str, part: &str) {
        self.tag(tag, 1);
        self.part(part);
    }

    pub(super) fn hash(&self) -> Payload {
        let hash: [u8; 32] = Sha256::digest(self.0.as_bytes()).into();
        let (first, _) = hash.split_at(16);
        Payload(URL_SAFE_NO_PAD.encode(first))
    }
}

#[cfg(test)]
mod tests {
    use shared::domain::Item;

    use super::*;

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

    /// Lengths and counts of one to four digits, and numbers in every notation.
    #[test]
    fn the_hash_of_a_large_update_does_not_change() {
        let texts: Vec<_> = [0, 9, 10, 99, 100, 999, 1_000].map(|length| "ä".repeat(length)).into();
        let numbers = "0 -0 7 -7 10 100 1e2 1E+2 0.001 -0.00100 12.50 1e-130 9.99e125 \
            12345678901234567890123456789012345678 -0.12345678901234567890123456789012345678";
        let numbers: Vec<_> = numbers.split(' ').map(str::to_owned).collect();
        let mut members: std::collections::HashMap<String, AttributeValue> = (0..101)
            .map(|index| (format!("n{index}"), AttributeValue::Bool(index % 2 == 0)))
            .collect();
        let list = |values: &[String], of: fn(String) -> _| AttributeValue::L(values.iter().cloned().map(of).collect());
        members.insert("texts".to_owned(), list(&texts, AttributeValue::S));
        members.insert("numbers".to_owned(), list(&numbers, AttributeValue::N));
        members.insert("SS".to_owned(), AttributeValue::Ss(texts));
        members.insert("NS".to_owned(), AttributeValue::Ns(numbers));
        let mut text = PayloadText::default();
        text.value(&AttributeValue::M(members));
        assert_eq!(text.hash().as_str(), "2q-C-xtH7OE8HW85YEulmw");
    }
}
