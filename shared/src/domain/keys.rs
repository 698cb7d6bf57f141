//! Sort keys of an entity's items.

use std::collections::BTreeSet;

use super::{
    Item,
    attributes::{self, text},
    names, quarantine,
    setting::bounded,
    time::timestamp,
    version::Version,
};

/// Sort key of the latest item, at every width. It sorts before the keys of all versions.
pub const LATEST_KEY: &str = "v0";
/// Sort key of the item that holds the first version of an entity's history.
pub const FLOOR_KEY: &str = "floor";
/// Prefix of the sort keys of the further parts of [versions in parts](super::layout).
pub const PART_PREFIX: &str = "part#";
/// Prefix of the sort keys of the markers of a ledger.
pub const REQUEST_PREFIX: &str = "request#";

/// Minimum number of digits in the sort key of a version, from 1 to 20.
///
/// With the default 1, keys are `v1`, `v2`, … `v10`, and `v10` sorts before `v9`: history is read by its exact keys. With a
/// greater width, keys are padded with zeros (`v0000000010` with 10), and keys sort as their versions. A version that does
/// not fit the width has more digits. The key of the latest item is not padded, see [`LATEST_KEY`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionDigits(u8);

impl VersionDigits {
    /// Maximum width.
    pub const MAX: u8 = 20;

    /// Returns `None` outside 1 to [`Self::MAX`].
    pub fn new(digits: u8) -> Option<Self> {
        (1..=Self::MAX).contains(&digits).then_some(Self(digits))
    }

    /// Returns the number of digits.
    pub fn get(self) -> u8 {
        self.0
    }

    /// Returns the sort key of a version item.
    pub fn version_key(self, version: Version) -> String {
        format!("v{version:0width$}", width = usize::from(self.0))
    }

    /// Returns the key that other programs and older releases use for the latest item, such as `v00`. `None` for width 1.
    pub fn padded_latest_key(self) -> Option<String> {
        (self.0 > 1).then(|| format!("v{:0width$}", 0, width = usize::from(self.0)))
    }

    /// Returns the version with this sort key. It is the inverse of [`Self::version_key`]: `None` for `v007` with width 1.
    pub fn version_of(self, sort_key: &str) -> Option<Version> {
        let number: u64 = sort_key.strip_prefix('v')?.parse().ok()?;
        let version = Version::new(number)?;
        (self.version_key(version) == sort_key).then_some(version)
    }

    /// Returns the version with a further part that has this sort key, see [`part_key`](super::layout::part_key).
    pub fn version_of_part(self, sort_key: &str) -> Option<Version> {
        let (version_key, part) = sort_key.strip_prefix(PART_PREFIX)?.split_once('#')?;
        part.parse::<u8>().ok()?;
        self.version_of(version_key)
    }

    /// Returns the version of a version item by its sort key.
    pub fn version_of_item(self, item: &Item) -> Option<Version> {
        self.version_of(sort_key_of(item)?)
    }

    /// Returns the sort keys of these versions, without 0.
    pub fn version_keys(self, numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
        let versions = numbers.into_iter().filter_map(Version::new);
        versions.map(|version| self.version_key(version)).collect()
    }

    /// Returns the kind of the item with this sort key.
    pub fn kind_of(self, sort_key: &str) -> ItemKind {
        match sort_key {
            LATEST_KEY => ItemKind::Latest,
            FLOOR_KEY => ItemKind::Floor,
            "Metadata" => ItemKind::Metadata,
            key if self.version_of(key).is_some() => ItemKind::Version,
            key if self.version_of_part(key).is_some() => ItemKind::Part,
            key if key.starts_with(REQUEST_PREFIX) => ItemKind::Request,
            key if key.starts_with(quarantine::PREFIX) => ItemKind::Quarantined,
            key if timestamp(key).is_ok() => ItemKind::State,
            _ => ItemKind::Other,
        }
    }

    /// Returns the greatest version that fits the width. Up to it, keys sort as their versions. `None` for width 1.
    pub fn widest(self) -> Option<u64> {
        (self.0 > 1).then(|| {
            10u64
                .checked_pow(u32::from(self.0))
                .map_or(Version::MAX, |next| (next - 1).min(Version::MAX))
        })
    }
}

/// Widths that the sort keys of items show, also those that other programs wrote: `v01` has exactly 2 digits, `v12` at most 2.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Widths {
    /// Numbers of digits of keys with leading zeros, of versions or of latest items such as `v00`.
    padded: BTreeSet<usize>,
    /// Number of digits of the shortest key without leading zeros.
    shortest: Option<usize>,
}

impl Widths {
    /// Returns the widths that these sort keys show.
    pub fn of<'a>(sort_keys: impl IntoIterator<Item = &'a str>) -> Self {
        let mut widths = Self::default();
        sort_keys.into_iter().for_each(|key| widths.add(key));
        widths
    }

    /// Adds the width of a sort key, if it is `v` and a number.
    pub fn add(&mut self, sort_key: &str) {
        let digits = sort_key.strip_prefix('v').filter(|_| sort_key != LATEST_KEY);
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let Some((digits, number)) = digits.and_then(|digits| Some((digits, digits.parse::<u64>().ok()?))) else {
            return;
        };
        if digits.starts_with('0') {
            self.padded.insert(digits.len());
        } else if number <= Version::MAX {
            self.shortest = Some(self.shortest.unwrap_or(usize::MAX).min(digits.len()));
        }
    }

    /// Returns the width of keys with leading zeros, `None` if there are none, or several widths.
    pub fn padded(&self) -> Option<VersionDigits> {
        let width = self.padded.first().filter(|_| self.padded.len() == 1)?;
        VersionDigits::new(u8::try_from(*width).ok()?)
    }

    /// Returns a width that keys have and that is not this one: the versions of these keys are no versions of a table with this width.
    pub fn other_than(&self, digits: VersionDigits) -> Option<usize> {
        let digits = usize::from(digits.0);
        let mut padded = self.padded.iter().copied();
        let padded = padded.find(|width| *width != digits);
        padded.or_else(|| self.shortest.filter(|shortest| *shortest < digits))
    }

    /// Returns `true` if no width fits all keys.
    pub fn are_mixed(&self) -> bool {
        self.padded.len() > 1
            || self
                .padded
                .first()
                .zip(self.shortest)
                .is_some_and(|(padded, shortest)| *padded > shortest)
    }
}

/// Returns the partition key of an item, `None` if it is missing or not a string.
pub fn partition_key_of(item: &Item) -> Option<&str> {
    text(item, names::PK)
}

/// Returns the sort key of an item, `None` if it is missing or not a string.
pub fn sort_key_of(item: &Item) -> Option<&str> {
    text(item, names::SK)
}

/// Kind of an item, in the order in which the items of an entity are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ItemKind {
    /// Facts about the entity itself.
    Metadata,
    /// The latest item.
    Latest,
    /// A version item.
    Version,
    /// State at a time, of the time-based pattern.
    State,
    /// A further part of a version item.
    Part,
    /// First version of history.
    Floor,
    /// Stream record that can never become a version.
    Quarantined,
    /// Marker of a request.
    Request,
    /// Any other item.
    Other,
}

impl Default for VersionDigits {
    fn default() -> Self {
        Self(1)
    }
}

bounded!(
    VersionDigits,
    Self::new,
    "the width of a version key is a whole number from 1 to 20"
);

/// Returns the version in the item `floor`.
pub fn floor_of(item: &Item) -> Option<Version> {
    attributes::version(item, names::FLOOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits(n: u8) -> VersionDigits {
        VersionDigits::new(n).unwrap()
    }

    #[test]
    fn keys_of_all_widths() {
        for (width, number, key) in [
            (1, 1, "v1"),
            (1, 9, "v9"),
            (1, 10, "v10"),
            (2, 1, "v01"),
            (2, 99, "v99"),
            (2, 100, "v100"),
            (10, 1, "v0000000001"),
            (20, Version::MAX, "v09223372036854775807"),
        ] {
            let version = Version::new(number).unwrap();
            assert_eq!(digits(width).version_key(version), key);
            assert_eq!(digits(width).version_of(key), Some(version));
        }
        for (width, keys) in [
            (1, "v0 v01 v w1 v+1 v-1 Metadata v18446744073709551616"),
            (2, "v1 v0 v00"),
            (10, "v0000000000"),
        ] {
            for key in keys.split(' ').chain(["", "v1 "]) {
                assert_eq!(digits(width).version_of(key), None, "{key}");
            }
        }
        for bad in ["0", "21", "-1", "", "two", "300"] {
            assert!(bad.parse::<VersionDigits>().is_err(), "{bad}");
        }
        assert_eq!("20".parse(), Ok(digits(20)));
    }

    #[test]
    fn kinds_of_items() {
        for (width, kind, keys) in [
            (1, ItemKind::Latest, "v0"),
            (2, ItemKind::Latest, "v0"),
            (20, ItemKind::Latest, "v0"),
            (1, ItemKind::Version, "v12"),
            (1, ItemKind::Floor, "floor"),
            (1, ItemKind::Metadata, "Metadata"),
            (1, ItemKind::Request, "request#r-1"),
            (1, ItemKind::Quarantined, "quarantine#42 quarantine#42#2"),
            (1, ItemKind::Part, "part#v7#2"),
            (1, ItemKind::State, "2020-11-12T20:04:00"),
            (1, ItemKind::Other, "v00 v012 quarantine part#v07#2 part#v7 metadata"),
            (2, ItemKind::Other, "v00"),
            (10, ItemKind::Other, "v0000000000"),
        ] {
            for key in keys.split(' ') {
                assert_eq!(digits(width).kind_of(key), kind, "{key}");
            }
        }
        assert_eq!(digits(1).kind_of(""), ItemKind::Other);
    }

    #[test]
    fn keys_show_their_width() {
        // The keys; whether no width fits all; the width of padded keys; another width than 1, and than 2, 0 for none.
        for (keys, is_mixed, padded, others) in [
            ("", false, 0, [0, 0]),
            ("v0 v v0#1 v01# w01 v+1 floor v18446744073709551616", false, 0, [0, 0]),
            ("v0 v1 v2", false, 0, [0, 1]),
            ("v10 v12", false, 0, [0, 0]),
            ("v00", false, 2, [2, 0]),
            ("v0 v01 v02 v12", false, 2, [2, 0]),
            ("v01 v100", false, 2, [2, 0]),
            ("v007 v008", false, 3, [3, 3]),
            ("v0 v00 v01 v1", true, 2, [2, 1]),
            ("v01 v001", true, 0, [2, 3]),
            ("v012 v13", true, 3, [3, 3]),
            ("v0000000000000000000001", false, 0, [22, 22]),
        ] {
            let widths = Widths::of(keys.split(' '));
            let others = [1, 2].map(digits).into_iter().zip(others);
            assert_eq!(widths.are_mixed(), is_mixed, "{keys}");
            assert_eq!(widths.padded(), VersionDigits::new(padded), "{keys}");
            for (width, other) in others {
                assert_eq!(widths.other_than(width).unwrap_or_default(), other, "{keys} {width:?}");
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn a_key_is_of_a_version_or_shows_another_width(width in 1..=VersionDigits::MAX, key in "v0{0,20}[1-9][0-9]{0,17}") {
            let (digits, widths) = (digits(width), Widths::of([&*key]));
            proptest::prop_assert_eq!(digits.version_of(&key).is_none(), widths.other_than(digits).is_some());
        }

        #[test]
        fn padded_keys_sort_as_their_versions(a in 1..10_000_000_000u64, b in 1..10_000_000_000u64) {
            let key = |n| digits(10).version_key(Version::new(n).unwrap());
            proptest::prop_assert_eq!(key(a).cmp(&key(b)), a.cmp(&b));
        }

        #[test]
        fn the_latest_item_sorts_before_all_versions(width in 1..=VersionDigits::MAX, number in 1..=Version::MAX) {
            let key = digits(width).version_key(Version::new(number).unwrap());
            proptest::prop_assert!(*LATEST_KEY < *key);
        }
    }
}
