//! Sequence numbers of stream records.

use std::{cmp::Ordering, fmt};

use serde::{Deserialize, Serialize};

/// Sequence number of 21 to 40 digits, stored as text because it does not fit a `u128`. Numbers are compared by value:
/// without leading zeros, by length, then by text.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SequenceNumber(String);

impl SequenceNumber {
    /// Returns `None` for an empty text. Other texts are not checked: only AWS creates them.
    pub fn new(text: impl Into<String>) -> Option<Self> {
        let text = text.into();
        (!text.is_empty()).then_some(Self(text))
    }

    /// Returns the text unchanged.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn significant(&self) -> &str {
        self.0.trim_start_matches('0')
    }
}

impl fmt::Display for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Ord for SequenceNumber {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (self.significant(), other.significant());
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }
}

impl PartialOrd for SequenceNumber {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for SequenceNumber {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for SequenceNumber {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_of_any_length_sort_by_value() {
        let sorted = [
            "1",
            "000000000000000000009",
            "10",
            "999999999999999999999",
            "1000000000000000000000",
            "340282366920938463463374607431768211456",
            "3402823669209384634633746074317682114560",
        ];
        for pair in sorted.windows(2) {
            assert!(SequenceNumber::new(pair[0]) < SequenceNumber::new(pair[1]), "{pair:?}");
        }
        assert_eq!(SequenceNumber::new("007"), SequenceNumber::new("7"));
    }
}
