//! Range of version items, without the latest item: a version that is not stored yet is missing.

use std::collections::BTreeMap;

use shared::{
    domain::{Item, entity::EntityId, version::Version},
    dynamodb::{
        Store,
        client::error::ServiceError,
        read::{batch_get_items::MAX_KEYS, query_items::Range},
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
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn version_run(
    store: &Store,
    entity: &EntityId,
    from: Version,
    to: Version,
    requests: usize,
    consistent: bool,
) -> Result<Run, ServiceError> {
    let from = from.get().max(to.get().saturating_sub(MAX_KEYS as u64 - 1));
    let is_queried = store.digits().widest().is_some_and(|widest| to.get() <= widest);
    let mut run = Run {
        items: BTreeMap::new(),
        from,
    };
    if !is_queried {
        let keys = store.digits().version_keys(from..=to.get());
        let items = store.batch_get(entity, &keys, consistent).await?;
        run.add(store, items, to);
        return Ok(run);
    }
    let key = |number| Version::new(number).map(|version| store.digits().version_key(version));
    let range = Range {
        from: key(from).unwrap_or_default(),
        to: store.digits().version_key(to),
        reversed: true,
        limit: None,
        consistent,
    };
    let mut cursor = None;
    for _ in 0..requests.max(1) {
        let (items, next) = store.query_page(entity, &range, cursor).await?;
        run.add(store, items, to);
        cursor = next;
        if cursor.is_none() {
            return Ok(run);
        }
    }
    run.from = run.items.keys().next().copied().unwrap_or(from);
    Ok(run)
}

impl Run {
    fn add(&mut self, store: &Store, items: Vec<Item>, to: Version) {
        for item in items {
            // Other items can have keys between those of versions.
            if let Some(version) = store.digits().version_of_item(&item)
                && (self.from..=to.get()).contains(&version.get())
            {
                self.items.insert(version.get(), item);
            }
        }
    }
}
