//! `vzero erase --current --path Secret`: erasure of an attribute from all versions of an entity.

use std::time::Duration;

use operations::{erase::remove_current, error::OperationError, purge::DEFAULT_WAIT};
use sealing::erase::{EraseError, Erasing};
use shared::domain::{entity::EntityId, request_id::RequestId};

use super::{Operators, commands::incomplete};
use crate::schedule::SECRET;

impl Operators {
    /// Erases the attribute, also from the current item, by a new version. Without the attribute, there is nothing to do.
    pub(super) async fn erase(&self, entity: &EntityId) -> Result<(), OperationError> {
        let (store, paths) = (&self.connection.store, [vec![SECRET.to_owned()]]);
        let plan = async || match Erasing::plan(store, entity, &paths, "asked").await {
            Err(EraseError::NoVersion | EraseError::NoPath(_) | EraseError::Nothing) => Ok(None),
            planned => planned.map(Some).map_err(incomplete),
        };
        let Some(mut erasing) = plan().await? else {
            return Ok(());
        };
        let waits = !self.services.connector.mutations.disable("erase-wait");
        let wait = if waits { DEFAULT_WAIT } else { Duration::ZERO };
        if erasing.is_current {
            let request = RequestId::new(format!("erase-{:016x}", fastrand::u64(..))).map_err(incomplete)?;
            remove_current(
                store,
                entity,
                &erasing.erasures(),
                (request, self.write.1),
                DEFAULT_WAIT,
            )
            .await?;
            let Some(planned) = plan().await? else { return Ok(()) };
            erasing = planned;
        }
        erasing.run(wait, true, |_| {}).await.map_err(incomplete)?;
        erasing.finish().await.map_err(incomplete)?;
        Ok(())
    }
}
