//! Identity of a table, by which a copy of it is recognised: `DescribeTable`.

use aws_sdk_dynamodb::types::TableDescription;

use crate::dynamodb::{
    Store,
    client::error::ServiceError,
    read::{describe_table, layout_error::LayoutError},
};

const OPERATION: &str = "DescribeTable";
/// Version of global tables before replicas were part of a table, see
/// [`GlobalTableVersion`](https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TableDescription.html).
const LEGACY_GLOBAL_TABLE: &str = "2017.11.29";

/// Table that exists, or existed. Another table with its name has another id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableIdentity {
    /// `TableId`, which `DynamoDB` assigns when it creates or restores a table. The ARN if the endpoint has no ids.
    pub id: String,
    /// Name.
    pub name: String,
}

impl Store {
    /// Returns the identity of the table.
    ///
    /// # Errors
    ///
    /// Returns [`LayoutError::Service`] if the request fails, [`LayoutError::GlobalTable`] if the table has replicas.
    pub async fn identity(&self) -> Result<TableIdentity, LayoutError> {
        let output = describe_table::request(&self.table).send_with(&self.client).await;
        let output = output.map_err(|error| ServiceError::new(OPERATION, &error))?;
        identity_of(&self.table, output.table)
    }

    /// Returns `true` if the table exists.
    ///
    /// # Errors
    ///
    /// Returns [`LayoutError::Service`] if the request fails, [`LayoutError::GlobalTable`] if the table under this name has
    /// replicas.
    pub async fn exists(&self, table: &TableIdentity) -> Result<bool, LayoutError> {
        let found = self.described().await?;
        let found = found.map(|found| identity_of(&self.table, Some(found))).transpose()?;
        Ok(found.is_some_and(|found| found.id == table.id))
    }
}

fn identity_of(name: &str, table: Option<TableDescription>) -> Result<TableIdentity, LayoutError> {
    let table = table.ok_or_else(|| ServiceError::not_built(OPERATION))?;
    let replicas = table.replicas.unwrap_or_default().into_iter();
    let regions: Vec<_> = replicas.filter_map(|replica| replica.region_name).collect();
    let replicas = match table.global_table_version.as_deref() {
        _ if !regions.is_empty() => Some(format!("with replicas in {}", regions.join(", "))),
        // Its replicas are tables of their own, which a description does not list.
        Some(LEGACY_GLOBAL_TABLE) => Some(format!("of the version {LEGACY_GLOBAL_TABLE}")),
        _ => None,
    };
    if let Some(replicas) = replicas {
        return Err(LayoutError::GlobalTable {
            table: name.to_owned(),
            replicas,
        });
    }
    let id = table.table_id.or(table.table_arn);
    Ok(TableIdentity {
        id: id.ok_or_else(|| ServiceError::not_built(OPERATION))?,
        name: crate::domain::layout::table_name(name).to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::ReplicaDescription;

    use super::*;

    #[test]
    fn a_table_is_known_by_its_id() {
        let described = TableDescription::builder().table_arn("arn");
        let id = |table: TableDescription| identity_of("arn:aws:dynamodb:eu-west-1:1:table/T", Some(table));
        let table = id(described.clone().table_id("id").build()).unwrap();
        assert_eq!((table.id.as_str(), table.name.as_str()), ("id", "T"));
        // Not every emulator has ids.
        assert_eq!(id(described.clone().build()).unwrap().id, "arn");
        assert!(matches!(
            id(TableDescription::builder().build()),
            Err(LayoutError::Service(_))
        ));
        assert!(matches!(identity_of("T", None), Err(LayoutError::Service(_))));
        let replica = |region| ReplicaDescription::builder().region_name(region).build();
        let global = described
            .clone()
            .table_id("id")
            .replicas(replica("eu-west-1"))
            .replicas(replica("us-east-1"));
        let legacy = described.clone().table_id("id");
        let legacy = |version: &str| identity_of("T", Some(legacy.clone().global_table_version(version).build()));
        assert_eq!(
            legacy("2017.11.29").unwrap_err().to_string(),
            "the table T is a global table, of the version 2017.11.29: only attached tables can be global tables"
        );
        // Its last replica was removed.
        assert_eq!(legacy("2019.11.21").unwrap().id, "id");
        let error = identity_of("T", Some(global.build())).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the table T is a global table, with replicas in eu-west-1, us-east-1: only attached tables can be global tables"
        );
    }
}
