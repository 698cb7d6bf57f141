//! Ranges of version items, without the latest item: a version that is not stored yet is missing.
//!
//! A range is read page by page: by `Query` if its keys have the same width, otherwise by the exact keys, which are known because
//! versions are dense.

use std::collections::BTreeMap;

use shared::{
    domain::{Item, entity::EntityId, keys::VersionDigits, version::Version},
    dynamodb::{
        Store,
        client::error::ServiceError,
        read::{
            batch_get_items::MAX_KEYS,
            query_items::{Cursor, Range},
        },
    },
};

/// Range of version items.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Run {
    /// Items by version. They can include expired ones.
    pub items: BTreeMap<u64, Item>,
    /// Lowest version that was read. Lower ones were not read because of the limit of requests.
    pub from: u64,
}

/// Reads the version items of a range in descending order, at most [`MAX_KEYS`] items and `requests` requests. One request
/// reads up to 16 MB with keys of width 1, and up to 1 MB with wider keys.
pub async fn version_run(
    store: &Store,
    entity: &EntityId,
    from: Version,
    to: Version,
    requests: usize,
    consistent: bool,
) -> Result<Run, ServiceError> {
    let from = from.get().max(to.get().saturating_sub(MAX_KEYS as u64 - 1));
    let mut range = VersionRange::new(from, to.get(), true, consistent);
    let mut items = BTreeMap::new();
    for _ in 0..requests.max(1) {
        items.extend(range.next_page(store, entity, usize::MAX).await?);
        if range.is_empty() {
            return Ok(Run { items, from });
        }
    }
    let from = items.keys().next().copied().unwrap_or(from);
    Ok(Run { items, from })
}

/// Versions that are not read yet.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct VersionRange {
    pub(super) from: u64,
    pub(super) to: u64,
    /// `true` for descending order.
    pub(super) reversed: bool,
    pub(super) consistent: bool,
    cursor: Option<Cursor>,
}

impl VersionRange {
    pub(super) fn new(from: u64, to: u64, reversed: bool, consistent: bool) -> Self {
        Self {
            from,
            to,
            reversed,
            consistent,
            cursor: None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.from > self.to
    }

    pub(super) fn is_queried(&self, digits: VersionDigits) -> bool {
        digits.widest().is_some_and(|widest| self.to <= widest)
    }

    /// Reads the next page of at most `limit` items. It can include expired ones, and be empty before the end.
    pub(super) async fn next_page(
        &mut self,
        store: &Store,
        entity: &EntityId,
        limit: usize,
    ) -> Result<BTreeMap<u64, Item>, ServiceError> {
        let (digits, numbers) = (store.digits(), self.from..=self.to);
        let items = if self.is_queried(digits) {
            let key = |number| Version::new(number).map(|version| digits.version_key(version));
            let range = Range {
                from: key(self.from).unwrap_or_default(),
                to: key(self.to).unwrap_or_default(),
                reversed: self.reversed,
                limit: i32::try_from(limit).ok(),
                consistent: self.consistent,
            };
            let (items, next) = store.query_page(entity, &range, self.cursor.take()).await?;
            if next.is_none() {
                self.from = self.to + 1;
            }
            self.cursor = next;
            items
        } else {
            let count = (limit.min(MAX_KEYS) as u64).min(self.to - self.from + 1);
            let page = match self.reversed {
                true => self.to + 1 - count..=self.to,
                false => self.from..=self.from + count - 1,
            };
            match self.reversed {
                true => self.to -= count,
                false => self.from += count,
            }
            store
                .batch_get(entity, &digits.version_keys(page), self.consistent)
                .await?
        };
        // Other items can have keys between those of versions: `v100` sorts between `v10` and `v11`.
        let numbered = |item: Item| Some((digits.version_of_item(&item)?.get(), item));
        let items = items.into_iter().filter_map(numbered);
        Ok(items.filter(|(number, _)| numbers.contains(number)).collect())
    }
}
