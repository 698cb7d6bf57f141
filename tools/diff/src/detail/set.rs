//! Elements of two sets.

use std::{borrow::Cow, collections::HashSet, hash::Hash};

use shared::domain::{AttributeValue, number::Decimal};

/// Difference between two sets of the same type.
#[derive(Debug, Clone, PartialEq)]
pub struct SetChange {
    /// Elements that only the first set has.
    pub removed: Vec<AttributeValue>,
    /// Elements that only the second set has.
    pub added: Vec<AttributeValue>,
    /// Number of elements that are in both sets.
    pub same: usize,
}

impl SetChange {
    /// Compares two values, `None` if they are not sets of the same type.
    pub fn between(from: &AttributeValue, to: &AttributeValue) -> Option<Self> {
        use AttributeValue::{B, Bs, N, Ns, S, Ss};
        match (from, to) {
            (Ss(from), Ss(to)) => Some(Self::of(from, to, S, |text| text)),
            (Bs(from), Bs(to)) => Some(Self::of(from, to, B, |binary| binary)),
            (Ns(from), Ns(to)) => Some(Self::of(from, to, N, |text| match Decimal::parse(text) {
                Ok(number) => Cow::Owned(number.canonical()),
                Err(_) => Cow::Borrowed(text.as_str()),
            })),
            _ => None,
        }
    }

    /// Compares the elements of two sets by a key that is the same for equal elements.
    fn of<'a, T: Clone, K: Eq + Hash>(
        from: &'a [T],
        to: &'a [T],
        value: fn(T) -> AttributeValue,
        key: impl Fn(&'a T) -> K,
    ) -> Self {
        let only_in = |elements: &'a [T], others: &'a [T]| -> Vec<AttributeValue> {
            let others: HashSet<K> = others.iter().map(&key).collect();
            let only = elements.iter().filter(|element| !others.contains(&key(element)));
            only.cloned().map(value).collect()
        };
        let (removed, added) = (only_in(from, to), only_in(to, from));
        Self {
            same: from.len().saturating_sub(removed.len()),
            removed,
            added,
        }
    }
}
