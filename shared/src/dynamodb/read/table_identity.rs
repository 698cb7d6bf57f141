//! Identity of a table, by which a copy of it is recognised: `DescribeTable`.

use aws_sdk_dynamodb::types::TableDescription;

use crate::dynamodb::{Store, client::error::ServiceError, read::layout_error::LayoutError};

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
        identity_of(&self.table, self.description().await?)
    }

    /// Returns `true` if the table exists.
    ///
    /// # Errors
    ///
    /// Returns [`LayoutError::Service`] if the request fails, [`LayoutError::GlobalTable`] if the table under this name has
    /// replicas.
    pub async fn exists(&self, table: &TableIdentity) -> Result<bool, LayoutError> {
        let found = self.described().await?;
        let found = found.map(|found| identity_of(&self.table, found)).transpose()?;
        Ok(found.is_some_and(|found| found.id == table.id))
    }
}

fn identity_of(name: &str, table: TableDescription) -> Result<TableIdentity, LayoutError> {
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
        id: id.ok_or_else(|| ServiceError::not_built("DescribeTable"))?,
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
        let identity = |table: TableDescription| identity_of("arn:aws:dynamodb:eu-west-1:1:table/T", table);
        let table = |id: &str| TableIdentity {
            id: id.to_owned(),
            name: "T".to_owned(),
        };
        // Not every emulator has ids.
        assert_eq!(identity(described.clone().build()), Ok(table("arn")));
        let nameless = identity(TableDescription::builder().build());
        assert!(matches!(nameless, Err(LayoutError::Service(_))));
        let described = described.table_id("id");
        assert_eq!(identity(described.clone().build()), Ok(table("id")));
        // Its last replica was removed.
        let former = described.clone().global_table_version("2019.11.21");
        assert_eq!(identity(former.build()), Ok(table("id")));
        let replica = |region| ReplicaDescription::builder().region_name(region).build();
        let replicas = described
            .clone()
            .replicas(replica("eu-west-1"))
            .replicas(replica("us-east-1"));
        for (global, how) in [
            (
                described.global_table_version("2017.11.29"),
                "of the version 2017.11.29",
            ),
            (replicas, "with replicas in eu-west-1, us-east-1"),
        ] {
            let error = identity_of("T", global.build()).unwrap_err().to_string();
            let expected = format!("the table T is a global table, {how}: only attached tables can be global tables");
            assert_eq!(error, expected);
        }
    }
}
