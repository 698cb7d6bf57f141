//! `vzero --table COPY purge --yes`, on a table that was restored from a backup of the versioned table.

use std::time::Duration;

use operations::purge::Purge;
use serde_json::json;
use shared::dynamodb::Store;

use super::{Operators, result::OperatorResult};
use crate::{connector::Connector, error::SimulationError, schedule::TABLE, world::create_table};

const COPY: &str = "Copy";

/// Creates a table with the items of the versioned table, and with its layout.
pub(crate) fn create_copy(connector: &Connector) -> Result<(), SimulationError> {
    create_table(connector, COPY)?;
    for item in connector.scan(TABLE)? {
        connector.send("PutItem", json!({"TableName": COPY, "Item": item}))?;
    }
    Ok(())
}

impl Operators {
    /// Purges an entity of the copy. It is done also if the table is refused because it is a copy.
    pub(crate) async fn purge_of_copy(&self, entity: &str) -> OperatorResult {
        self.run(async |_| {
            let connection = self.connection();
            let copy = Store::new(connection.client.clone(), COPY, connection.store.digits());
            let layout = match copy.stored_layout().await {
                Err(error) if error.is_mismatch() => return Ok(()),
                layout => layout?,
            };
            let copy = copy.with_history(layout.history);
            let mut purge = Purge::of(&copy, entity).await?;
            purge.run(Duration::ZERO, |_| {}).await
        })
        .await
    }
}
