//! Versions of sorted rows, each with the version before it: `BatchGetItem`, page by page.

use std::collections::{BTreeSet, HashMap};

use shared::{
    domain::{entity::EntityId, keys::partition_key_of, marks::is_expired, version::Version, view::VersionView},
    dynamodb::{
        Store,
        client::error::ServiceError,
        read::{batch_get_items::MAX_KEYS, versions::ReadError},
    },
};

use super::row::VersionRow;
use crate::{error::OperationError, rate_limit::RateLimiter, read::paced::Paced};

/// Reader of the versions of rows.
pub struct VersionPages<I> {
    table: Paced,
    rows: I,
    last: Option<(EntityId, Version)>,
    consistent: bool,
    /// Number of versions that do not exist any more, or are not in history yet although a later one is the latest.
    pub missing: u64,
}

impl<I: Iterator<Item = Result<VersionRow, OperationError>>> VersionPages<I> {
    pub fn new(store: &Store, pace: &RateLimiter, rows: I, consistent: bool) -> Self {
        Self {
            table: Paced::new(store, pace),
            rows,
            last: None,
            consistent,
            missing: 0,
        }
    }

    /// Reads the versions of at most `limit` further rows. Returns each with the version before it, if that exists and `with_previous` is
    /// `true`. `None` at the end.
    ///
    /// # Errors
    ///
    /// Returns [`OperationError`] if a request fails, or a file of the rows cannot be read.
    pub async fn next_page(
        &mut self,
        limit: usize,
        with_previous: bool,
    ) -> Result<Option<Vec<(VersionView, Option<VersionView>)>>, OperationError> {
        let max = limit.min(if with_previous { MAX_KEYS / 2 } else { MAX_KEYS });
        let mut keys = Vec::new();
        while keys.len() < max {
            let Some(row) = self.rows.next().transpose()? else {
                break;
            };
            let key = row.key();
            // A version and the latest item are two rows, next to each other.
            keys.extend(key.clone().filter(|_| key != self.last));
            self.last = key;
        }
        if keys.is_empty() {
            return Ok(None);
        }
        let before = |version: &Version| Version::new(version.get() - 1).filter(|_| with_previous);
        let previous = keys
            .iter()
            .filter_map(|(entity, version)| Some((entity.clone(), before(version)?)));
        let found = read_versions(
            &self.table,
            &keys.iter().cloned().chain(previous).collect(),
            self.consistent,
        )
        .await?;
        let mut views = Vec::new();
        for (entity, version) in keys {
            let previous = before(&version).and_then(|before| found.get(&(entity.clone(), before)).cloned());
            let view = match found.get(&(entity.clone(), version)).cloned() {
                None => self.latest(&entity).await?.filter(|latest| latest.version == version),
                view => view,
            };
            match view {
                Some(view) => views.push((view, previous)),
                None => self.missing += 1,
            }
        }
        Ok(Some(views))
    }

    async fn latest(&self, entity: &EntityId) -> Result<Option<VersionView>, ServiceError> {
        let newest = self
            .table
            .send(async |store| match store.newest_view(entity, self.consistent).await {
                Err(ReadError::Service(error)) => Err(error),
                // A latest item without a valid version supplies none.
                newest => Ok(newest.ok().flatten()),
            });
        newest.await
    }
}

/// Reads versions by their keys, except for expired ones.
pub(super) async fn read_versions(
    table: &Paced,
    keys: &BTreeSet<(EntityId, Version)>,
    consistent: bool,
) -> Result<HashMap<(EntityId, Version), VersionView>, ServiceError> {
    let (digits, now) = (table.store.digits(), table.store.clock().now());
    let items = table.send(async |store| {
        let keys = keys
            .iter()
            .map(|(entity, version)| (entity, digits.version_key(*version)));
        store.batch_get_only(&[], keys, consistent).await
    });
    let items = items.await?.into_iter().filter(|item| !is_expired(item, now));
    let view = |item| {
        let key = (
            EntityId::new(partition_key_of(&item)?).ok()?,
            digits.version_of_item(&item)?,
        );
        let view = table.store.view(&key.0, key.1, item);
        Some((key, view))
    };
    Ok(items.filter_map(view).collect())
}
