//! Strongly consistent reads of the items that an audit compares, at the rate of its limiter.

use crate::{
    audit::{auditor::Auditor, collection::Collection},
    read::{each_version::each_version, quarantined::quarantined},
};
use shared::{
    domain::{entity::EntityId, keys::LATEST_KEY, version_set::VersionSet},
    dynamodb::{client::error::ServiceError, read::batch_get_items::MAX_KEYS},
};

/// Maximum number of versions that are read by key. For more, all versions of the entity are read.
const MAX_READ_BY_KEY: u64 = 3 * MAX_KEYS as u64;

impl Auditor {
    pub(super) async fn read_item(
        &self,
        entity: &EntityId,
        key: &str,
        into: &mut Collection,
    ) -> Result<(), ServiceError> {
        let item = self
            .limiter
            .run(async || self.store.get(entity, key, true).await)
            .await?;
        if let Some(item) = item {
            into.add(item, self.store.digits());
        }
        Ok(())
    }

    pub(super) async fn read_selected(
        &self,
        entity: &EntityId,
        versions: &VersionSet,
        into: &mut Collection,
    ) -> Result<(), ServiceError> {
        if versions.len() > MAX_READ_BY_KEY {
            return self.read_versions(entity, into).await;
        }
        let digits = self.store.digits();
        let keys = digits.version_keys(versions.numbers());
        for keys in keys.chunks(MAX_KEYS) {
            let items = self
                .limiter
                .run(async || self.store.batch_get(entity, keys, true).await);
            for item in items.await? {
                into.add(item, digits);
            }
        }
        Ok(())
    }

    pub(super) async fn read_quarantined(&self, entity: &EntityId, into: &mut Collection) -> Result<(), ServiceError> {
        let records = self
            .limiter
            .run(async || quarantined(&self.store, entity).await)
            .await?;
        into.add_quarantined(records.len() as u64);
        Ok(())
    }

    pub(super) async fn read_versions(&self, entity: &EntityId, into: &mut Collection) -> Result<(), ServiceError> {
        if self.store.has_own_history() {
            self.read_item(entity, LATEST_KEY, into).await?;
        }
        let digits = self.store.digits();
        each_version(&self.store, &self.limiter, entity, |item| into.add(item, digits)).await
    }
}
