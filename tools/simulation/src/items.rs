//! The items of a table, by partition key and sort key.

use std::collections::BTreeMap;

use serde_json::Value;
use shared::domain::keys::{FLOOR_KEY, LATEST_KEY};

use crate::requests::text;

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Items(BTreeMap<String, BTreeMap<String, Value>>);

impl FromIterator<Value> for Items {
    fn from_iter<I: IntoIterator<Item = Value>>(items: I) -> Self {
        let mut all = Self::default();
        for item in items {
            let (entity, key) = (text(&item, "/PK/S").to_owned(), text(&item, "/SK/S").to_owned());
            all.0.entry(entity).or_default().insert(key, item);
        }
        all
    }
}

impl Items {
    pub(crate) fn len(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    pub(crate) fn get(&self, entity: &str, key: &str) -> Option<&Value> {
        self.0.get(entity)?.get(key)
    }

    pub(crate) fn entities(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns the items of an entity with their sort keys, in the order of these.
    pub(crate) fn of(&self, entity: &str) -> impl Iterator<Item = (&str, &Value)> + use<'_> {
        let items = self.0.get(entity).into_iter().flatten();
        items.map(|(key, item)| (key.as_str(), item))
    }

    /// Returns the number in the latest item of an entity.
    pub(crate) fn latest(&self, entity: &str) -> Option<u64> {
        text(self.get(entity, LATEST_KEY)?, "/Latest/N").parse().ok()
    }

    /// Returns the first version of an entity that was not pruned.
    pub(crate) fn floor(&self, entity: &str) -> u64 {
        let floor = self.get(entity, FLOOR_KEY);
        floor.and_then(|item| text(item, "/Floor/N").parse().ok()).unwrap_or(1)
    }
}
