//! `vzero admin backfill --yes`.

use std::collections::BTreeMap;

use operations::backfill::Import;
use serde_json::{Value, json};
use shared::{
    domain::{names, update::Ordering},
    dynamodb::write::WriteOptions,
};

use super::{Operators, result::OperatorResult};
use crate::{connector::Connector, error::SimulationError};

/// Creates a table with one key, `PK`, that contains these items.
pub(crate) fn create_source(connector: &Connector, table: &str, items: &[Value]) -> Result<(), SimulationError> {
    connector.send(
        "CreateTable",
        json!({
            "TableName": table, "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [{"AttributeName": names::PK, "AttributeType": "S"}],
            "KeySchema": [{"AttributeName": names::PK, "KeyType": "HASH"}],
        }),
    )?;
    for item in items {
        connector.send("PutItem", json!({"TableName": table, "Item": item}))?;
    }
    Ok(())
}

impl Operators {
    /// Puts the items of a table with one key under versioning. With the versioned table itself, it counts the latest items
    /// without `Latest`.
    pub(crate) async fn backfill(&self, from_table: &str, ordering: Ordering, write: WriteOptions) -> OperatorResult {
        self.run(async |printed| {
            let import = Import {
                from_table: from_table.to_owned(),
                id: None,
                rename: BTreeMap::new(),
                ordering,
                write,
                pace: self.pace(),
                dry_run: false,
            };
            let table = import.describe(self.connection()).await?;
            let checkpoint = self.checkpoint("backfill");
            let mut run = import.run(self.connection(), &table, None, checkpoint.as_deref())?;
            while let Some(refused) = run.step().await? {
                for (item, why) in refused {
                    let kind = if why.is_conflict() { "Conflict" } else { "Refused" };
                    printed.line(json!({"ID": item.get(names::PK), kind: why.to_string()}));
                }
            }
            let counts = run.counts();
            printed.summary(json!({
                "Items": counts.items, "Written": counts.written, "AlreadyThere": counts.already_there,
                "Conflicts": counts.conflicts, "Skipped": counts.skipped, "Refused": counts.refused,
            }));
            match counts.refused + counts.conflicts {
                0 => Ok(()),
                left => Err(operations::error::OperationError::Incomplete(format!(
                    "{left} items could not be put under versioning"
                ))),
            }
        })
        .await
    }
}
