//! The place of a record in a stream.

use std::{cmp::Ordering, fmt};

use serde::{Deserialize, Serialize};

/// A sequence number: 21 to 40 digits, too many for a `u128`, so it stays text.
///
/// Its order is that of the number: length first, then text, leading zeros aside.
///
/// ```
/// use shared::domain::sequence::SequenceNumber;
///
/// let number = |text: &str| SequenceNumber::new(text).unwrap();
/// assert!(number("999999999999999999999") < number("1000000000000000000000"));
/// ```
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SequenceNumber(String);

impl SequenceNumber {
    /// `None` for an empty text. Anything else is kept as it is: only AWS makes these.
    pub fn new(text: impl Into<String>) -> Option<Self> {
        let text = text.into();
        (!text.is_empty()).then_some(Self(text))
    }

    /// The text as it came.
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
    fn they_order_as_numbers_of_any_length() {
        let sorted = [
            "1",
            "000000000000000000009",
            "10",
            "340282366920938463463374607431768211456",
            "3402823669209384634633746074317682114560",
        ];
        for pair in sorted.windows(2) {
            assert!(SequenceNumber::new(pair[0]) < SequenceNumber::new(pair[1]), "{pair:?}");
        }
        assert_eq!(SequenceNumber::new("007"), SequenceNumber::new("7"));
    }
}
