//! `vzero restore`, `vzero delete` and `vzero undelete`.

use operations::error::OperationError;
use shared::{
    domain::{entity::EntityId, request_id::RequestId, version::Version},
    dynamodb::write::{WriteOptions, restore::ChangeOptions},
};

use super::{Operators, result::OperatorResult};
use crate::schedule::Command;

impl Operators {
    /// Restores a version, deletes an entity, or restores what it was before its deletion. A command that is repeated has the same
    /// request id.
    pub(crate) async fn restore(&self, command: &Command, write: WriteOptions) -> OperatorResult {
        self.run(async |_| {
            let store = &self.connection().store;
            let id = |name: String| RequestId::new(name).map_err(|error| OperationError::Incomplete(error.to_string()));
            let change = ChangeOptions::default();
            let changed = match command {
                Command::Restore { entity, version } => {
                    let (id, entity) = (id(format!("restore-{entity}-{version}"))?, EntityId::new(entity)?);
                    let version = Version::new(*version).unwrap_or(Version::FIRST);
                    store.restore(&entity, version, id, change, write).await.map(Some)
                }
                Command::Delete { entity } => {
                    let (id, entity) = (id(format!("delete-{entity}"))?, EntityId::new(entity)?);
                    store.delete(&entity, id, change, write).await
                }
                Command::Undelete { entity } => {
                    let (id, entity) = (id(format!("undelete-{entity}"))?, EntityId::new(entity)?);
                    store.undelete(&entity, id, change, write).await
                }
                _ => Ok(None),
            };
            changed
                .map(drop)
                .map_err(|error| OperationError::Incomplete(error.to_string()))
        })
        .await
    }
}
