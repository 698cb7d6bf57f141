//! Version numbers.

use std::{fmt, num::NonZeroU64};

use serde::{Deserialize, Serialize};

use super::setting::InvalidSetting;

/// Number of a version: 1 for an entity's first version, without gaps, at most [`Version::MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Version(NonZeroU64);

impl Version {
    /// First version of every entity.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// Greatest version, 2⁶³ − 1. At one update a microsecond, an entity reaches it after 292,000 years. The number after it
    /// is a `u64` as well, so that no calculation with versions overflows.
    pub const MAX: u64 = i64::MAX.unsigned_abs();

    /// Returns `None` for 0 and above [`Self::MAX`].
    pub fn new(number: u64) -> Option<Self> {
        NonZeroU64::new(number).filter(|_| number <= Self::MAX).map(Self)
    }

    /// Returns the number, at least 1.
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

impl TryFrom<u64> for Version {
    type Error = InvalidSetting;

    fn try_from(number: u64) -> Result<Self, InvalidSetting> {
        Self::new(number).ok_or(InvalidSetting("a version is a number from 1 to 9223372036854775807"))
    }
}

impl From<Version> for u64 {
    fn from(version: Version) -> Self {
        version.get()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_a_lowest_and_a_greatest_number() {
        for (number, is_version) in [
            (0, false),
            (1, true),
            (Version::MAX, true),
            (Version::MAX + 1, false),
            (u64::MAX, false),
        ] {
            assert_eq!(Version::new(number).is_some(), is_version, "{number}");
            let parsed = serde_json::from_str::<Version>(&number.to_string());
            assert_eq!(parsed.is_ok(), is_version, "{number}");
        }
        let last = Version::new(Version::MAX).unwrap();
        assert_eq!(serde_json::to_string(&last).unwrap(), "9223372036854775807");
    }
}
