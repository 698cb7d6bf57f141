//! A run of version items, without the latest item's help: what is not in history yet is not there.

use std::collections::BTreeMap;

use crate::{
    domain::{Item, entity::EntityId, version::Version},
    dynamodb::{
        Store,
        client::error::ServiceError,
        read::{batch_get_items::MAX_KEYS, query_items::Range},
    },
};

/// A run of version items.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Run {
    /// The items that are there, by their versions. One whose `TTL` is over may be among them.
    pub items: BTreeMap<u64, Item>,
    /// The lowest version that was looked for: what is below it was cut off, since items are large.
    pub from: u64,
}

impl Store {
    /// Reads the version items from one version up to another, at most [`MAX_KEYS`], by `requests` requests at most: what these
    /// do not bring is cut off below. With keys of the width 1 it is one request for 16 MB, with wider keys one for 1 MB.
    pub async fn version_run(
        &self,
        entity: &EntityId,
        from: Version,
        to: Version,
        requests: usize,
        consistent: bool,
    ) -> Result<Run, ServiceError> {
        let from = from.get().max(to.get().saturating_sub(MAX_KEYS as u64 - 1));
        let is_queried = self.digits.widest().is_some_and(|widest| to.get() <= widest);
        let mut run = Run {
            items: BTreeMap::new(),
            from,
        };
        if !is_queried {
            let keys = self.digits.version_keys(from..=to.get());
            let items = self.batch_get(entity, &keys, consistent).await?;
            run.add(self, items, to);
            return Ok(run);
        }
        let key = |number| Version::new(number).map(|version| self.digits.version_key(version));
        let range = Range {
            from: key(from).unwrap_or_default(),
            to: self.digits.version_key(to),
            reversed: true,
            limit: None,
            consistent,
        };
        let mut cursor = None;
        for _ in 0..requests.max(1) {
            let (items, next) = self.query_page(entity, &range, cursor).await?;
            run.add(self, items, to);
            cursor = next;
            if cursor.is_none() {
                return Ok(run);
            }
        }
        run.from = run.items.keys().next().copied().unwrap_or(from);
        Ok(run)
    }
}

impl Run {
    fn add(&mut self, store: &Store, items: Vec<Item>, to: Version) {
        for item in items {
            // Between the keys of versions there can be others.
            if let Some(version) = store.digits.version_of_item(&item)
                && (self.from..=to.get()).contains(&version.get())
            {
                self.items.insert(version.get(), item);
            }
        }
    }
}
