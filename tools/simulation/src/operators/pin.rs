//! `vzero admin pin`.

use operations::error::OperationError;
use serde_json::json;
use shared::domain::{entity::EntityId, version::Version};

use super::{Operators, result::OperatorResult};

impl Operators {
    /// Pins a version of an entity. Fails if it is missing or expired.
    pub(crate) async fn pin(&self, entity: &str, version: Version) -> OperatorResult {
        self.run(async |printed| {
            let store = &self.connection().store;
            let is_found =
                operations::prune::requests::pin_version(&store, &EntityId::new(entity)?, version, store.clock().now())
                    .await?;
            if !is_found {
                return Err(OperationError::NoVersion);
            }
            printed.summary(json!({"ID": entity, "Version": version, "Pinned": true}));
            Ok(())
        })
        .await
    }
}
