//! Set of version numbers, stored as ranges.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Set of version numbers. Versions are dense, so that a hundred thousand of them are a few ranges, in any insertion order.
///
/// ```
/// use operations::version_set::VersionSet;
///
/// let set: VersionSet = [1, 10, 2, 3].into_iter().collect();
/// assert_eq!(set.ranges().collect::<Vec<_>>(), [(1, 3), (10, 10)]);
/// assert_eq!(set.gaps(1, 12).ranges().collect::<Vec<_>>(), [(4, 9), (11, 12)]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VersionSet(BTreeMap<u64, u64>);

impl VersionSet {
    /// Adds one number.
    pub fn insert(&mut self, number: u64) {
        self.insert_range(number, number);
    }

    /// Adds every number from the first to the last. An empty range adds nothing.
    pub fn insert_range(&mut self, mut from: u64, mut to: u64) {
        if from > to {
            return;
        }
        if let Some((&start, &end)) = self.0.range(..=from).next_back()
            && end.saturating_add(1) >= from
        {
            from = start;
            to = to.max(end);
        }
        while let Some((&start, &end)) = self.0.range(from..=to.saturating_add(1)).next() {
            self.0.remove(&start);
            to = to.max(end);
        }
        self.0.insert(from, to);
    }

    /// Returns `true` if the set contains this number.
    pub fn contains(&self, number: u64) -> bool {
        let before = self.0.range(..=number).next_back();
        before.is_some_and(|(_, end)| *end >= number)
    }

    /// Returns `true` if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of members.
    pub fn len(&self) -> u64 {
        let sizes = self.0.iter().map(|(from, to)| (to - from).saturating_add(1));
        sizes.fold(0, u64::saturating_add)
    }

    /// Returns the greatest number.
    pub fn last(&self) -> Option<u64> {
        self.0.last_key_value().map(|(_, to)| *to)
    }

    /// Returns the ranges in ascending order, as first and last number. No two ranges are adjacent.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().map(|(from, to)| (*from, *to))
    }

    /// Returns the numbers in ascending order.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        self.ranges().flat_map(|(from, to)| from..=to)
    }

    /// Returns the members of a range.
    #[must_use]
    pub fn within(&self, from: u64, to: u64) -> Self {
        let mut within = Self::default();
        let before = self.0.range(..from).next_back();
        for (start, end) in before.into_iter().chain(self.0.range(from..=to.max(from))) {
            within.insert_range(from.max(*start), to.min(*end));
        }
        within
    }

    /// Returns the numbers of a range that are not members.
    #[must_use]
    pub fn gaps(&self, from: u64, to: u64) -> Self {
        let mut gaps = Self::default();
        let mut next = Some(from);
        for (start, end) in self.within(from, to).0 {
            if let Some(next) = next
                && next < start
            {
                gaps.insert_range(next, start - 1);
            }
            next = end.checked_add(1);
        }
        if let Some(next) = next {
            gaps.insert_range(next, to);
        }
        gaps
    }

    /// Returns the intersection.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        self.without(&self.without(other))
    }

    /// Returns the difference.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut left = Self::default();
        for (from, to) in self.ranges() {
            for (from, to) in other.gaps(from, to).0 {
                left.insert_range(from, to);
            }
        }
        left
    }
}

impl FromIterator<u64> for VersionSet {
    fn from_iter<T: IntoIterator<Item = u64>>(numbers: T) -> Self {
        Self::from(numbers.into_iter().map(|number| (number, number)).collect::<Vec<_>>())
    }
}

impl From<Vec<(u64, u64)>> for VersionSet {
    fn from(ranges: Vec<(u64, u64)>) -> Self {
        let mut set = Self::default();
        for (from, to) in ranges {
            set.insert_range(from, to);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_hundred_thousand_versions_in_the_order_of_their_keys_are_few_ranges() {
        let mut keys: Vec<_> = (1..=100_000u64).map(|number| format!("v{number}")).collect();
        keys.sort();
        let (mut set, mut most) = (VersionSet::default(), 0);
        for key in keys {
            set.insert(key[1..].parse().unwrap());
            most = most.max(set.ranges().count());
        }
        assert_eq!(set.ranges().collect::<Vec<_>>(), [(1, 100_000)]);
        assert!(most < 50, "{most} ranges");
    }

    #[test]
    fn the_greatest_number_is_supported() {
        let mut set = VersionSet::default();
        set.insert_range(u64::MAX - 1, u64::MAX);
        set.insert(1);
        assert_eq!(set.gaps(1, u64::MAX).ranges().collect::<Vec<_>>(), [(2, u64::MAX - 2)]);
        assert_eq!(set.len(), 3);
        set.insert_range(5, 4);
        assert!(set.gaps(7, 6).is_empty() && set.within(7, 6).is_empty());
        assert_eq!(set.last(), Some(u64::MAX));
    }

    proptest! {
        #[test]
        fn it_behaves_like_a_set(
            ranges in prop::collection::vec((0..60u64, 0..6u64), 0..12),
            others in prop::collection::vec(0..60u64, 0..20),
            from in 0..60u64,
            width in 0..60u64,
        ) {
            let ranges: Vec<_> = ranges.into_iter().map(|(from, width)| (from, from + width)).collect();
            let set = VersionSet::from(ranges.clone());
            let model: BTreeSet<_> = ranges.into_iter().flat_map(|(from, to)| from..=to).collect();
            let other: VersionSet = others.iter().copied().collect();
            let to = from + width;
            let numbers = |set: &VersionSet| set.numbers().collect::<BTreeSet<_>>();
            prop_assert_eq!(numbers(&set), model.clone());
            prop_assert_eq!(set.len(), model.len() as u64);
            prop_assert_eq!(set.last(), model.last().copied());
            prop_assert!((0..70).all(|number| set.contains(number) == model.contains(&number)));
            prop_assert_eq!(numbers(&set.within(from, to)), model.range(from..=to).copied().collect());
            prop_assert_eq!(numbers(&set.gaps(from, to)), (from..=to).filter(|n| !model.contains(n)).collect());
            let without = model.iter().copied().filter(|number| !others.contains(number)).collect();
            prop_assert_eq!(numbers(&set.without(&other)), without);
            let both = model.iter().copied().filter(|number| others.contains(number)).collect();
            prop_assert_eq!(numbers(&set.and(&other)), both);
            // Adjacent ranges are merged.
            let ranges: Vec<_> = set.ranges().collect();
            prop_assert!(ranges.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
            let json = serde_json::to_string(&set).unwrap();
            prop_assert_eq!(serde_json::from_str::<VersionSet>(&json).unwrap(), set);
        }
    }
}
