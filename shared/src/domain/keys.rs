//! The sort keys of an entity's items.

use std::{fmt, str::FromStr};

use thiserror::Error;

use super::{ledger, time::timestamp, version::Version};

/// The sort key of the item that says where an entity's history begins.
pub const FLOOR_KEY: &str = "floor";

/// The least number of digits in the sort key of a version, from 1 to 20.
///
/// With 1, the default, keys are `v0`, `v1`, … `v10`, and `v10` sorts before `v9`: history is read by its exact keys.
/// With more, keys are padded with zeros (`v0000000010` with 10), and their order is the order of the versions up to
/// the width. A version that no longer fits goes on with more digits.
///
/// ```
/// use shared::domain::{keys::VersionDigits, version::Version};
///
/// let narrow = VersionDigits::default();
/// assert_eq!(narrow.latest_key(), "v0");
/// assert_eq!(narrow.version_key(Version::new(10).unwrap()), "v10");
///
/// let wide: VersionDigits = "10".parse().unwrap();
/// assert_eq!(wide.latest_key(), "v0000000000");
/// assert_eq!(wide.version_key(Version::new(10).unwrap()), "v0000000010");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionDigits(u8);

impl VersionDigits {
    /// As wide as the widest number of a version.
    pub const MAX: u8 = 20;

    /// `None` outside 1 to [`Self::MAX`].
    pub fn new(digits: u8) -> Option<Self> {
        (1..=Self::MAX).contains(&digits).then_some(Self(digits))
    }

    /// The sort key of the latest item: `v` and as many zeros as the width says.
    pub fn latest_key(self) -> String {
        self.key_of(0)
    }

    /// The sort key of a version item.
    pub fn version_key(self, version: Version) -> String {
        self.key_of(version.get())
    }

    /// The version whose sort key this is, if it is one under this width.
    ///
    /// Only the very key that [`Self::version_key`] makes is one: `v007` is none with a width of 1.
    pub fn version_of(self, sort_key: &str) -> Option<Version> {
        let number: u64 = sort_key.strip_prefix('v')?.parse().ok()?;
        let version = Version::new(number)?;
        (self.version_key(version) == sort_key).then_some(version)
    }

    /// What kind of item has this sort key.
    pub fn kind_of(self, sort_key: &str) -> ItemKind {
        match sort_key {
            key if key == self.latest_key() => ItemKind::Latest,
            FLOOR_KEY => ItemKind::Floor,
            "Metadata" => ItemKind::Metadata,
            key if self.version_of(key).is_some() => ItemKind::Version,
            key if key.starts_with(ledger::PREFIX) => ItemKind::Request,
            key if timestamp(key).is_ok() => ItemKind::State,
            _ => ItemKind::Other,
        }
    }

    /// The greatest version that fits the width, up to which keys sort as their versions. `None` for the width 1, whose
    /// keys are read one by one.
    pub fn widest(self) -> Option<u64> {
        (self.0 > 1).then(|| 10u64.checked_pow(u32::from(self.0)).map_or(u64::MAX, |next| next - 1))
    }

    fn key_of(self, number: u64) -> String {
        format!("v{number:0width$}", width = usize::from(self.0))
    }
}

/// What an item of an entity is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ItemKind {
    /// The latest item.
    Latest,
    /// A version item.
    Version,
    /// Where history begins.
    Floor,
    /// What is true of the entity as such.
    Metadata,
    /// That a request was applied.
    Request,
    /// A state under its time.
    State,
    /// Something else.
    Other,
}

impl Default for VersionDigits {
    fn default() -> Self {
        Self(1)
    }
}

impl fmt::Display for VersionDigits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for VersionDigits {
    type Err = InvalidVersionDigits;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().ok().and_then(Self::new).ok_or(InvalidVersionDigits)
    }
}

/// Not a whole number from 1 to 20.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the width of a version key is a whole number from 1 to {max}", max = VersionDigits::MAX)]
pub struct InvalidVersionDigits;

#[cfg(test)]
mod tests {
    use super::*;

    fn digits(n: u8) -> VersionDigits {
        VersionDigits::new(n).unwrap()
    }

    #[test]
    fn keys_of_both_widths() {
        for (width, number, key) in [
            (1, 1, "v1"),
            (1, 9, "v9"),
            (1, 10, "v10"),
            (2, 1, "v01"),
            (2, 99, "v99"),
            (2, 100, "v100"),
            (10, 1, "v0000000001"),
            (20, u64::MAX, "v18446744073709551615"),
        ] {
            let version = Version::new(number).unwrap();
            assert_eq!(digits(width).version_key(version), key);
            assert_eq!(digits(width).version_of(key), Some(version));
        }
    }

    #[test]
    fn what_is_not_a_version_key() {
        for (width, key) in [
            (1, "v0"),
            (1, "v01"),
            (2, "v1"),
            (1, "v"),
            (1, "w1"),
            (1, "v+1"),
            (1, "v-1"),
            (1, "v1 "),
            (1, "Metadata"),
            (1, ""),
            (1, "v18446744073709551616"),
            (2, "v00"),
        ] {
            assert_eq!(digits(width).version_of(key), None, "{key}");
        }
    }

    #[test]
    fn every_item_is_of_a_kind() {
        for (width, key, kind) in [
            (1, "v0", ItemKind::Latest),
            (2, "v00", ItemKind::Latest),
            (2, "v0", ItemKind::Other),
            (1, "v12", ItemKind::Version),
            (1, "v012", ItemKind::Other),
            (1, "floor", ItemKind::Floor),
            (1, "Metadata", ItemKind::Metadata),
            (1, "request#r-1", ItemKind::Request),
            (1, "2020-11-12T20:04:00", ItemKind::State),
            (1, "", ItemKind::Other),
            (1, "metadata", ItemKind::Other),
        ] {
            assert_eq!(digits(width).kind_of(key), kind, "{key}");
        }
    }

    #[test]
    fn a_width_is_from_1_to_20() {
        for bad in ["0", "21", "-1", "", "two", "300"] {
            assert_eq!(bad.parse::<VersionDigits>(), Err(InvalidVersionDigits), "{bad}");
        }
        assert_eq!("20".parse(), Ok(digits(20)));
    }

    proptest::proptest! {
        #[test]
        fn padded_keys_sort_as_their_versions(a in 1..10_000_000_000u64, b in 1..10_000_000_000u64) {
            let key = |n| digits(10).version_key(Version::new(n).unwrap());
            proptest::prop_assert_eq!(key(a).cmp(&key(b)), a.cmp(&b));
        }
    }
}
