//! What a table is: `DescribeTable`.

use aws_sdk_dynamodb::{
    operation::describe_table::builders::DescribeTableInputBuilder,
    types::{KeyType, ScalarAttributeType},
};

use crate::dynamodb::{Store, client::error::ServiceError};

const OPERATION: &str = "DescribeTable";

/// What a table is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Its keys, the partition key first: names and types.
    pub keys: Vec<(String, ScalarAttributeType)>,
    /// About how many items it has: DynamoDB counts them every six hours.
    pub items: u64,
}

impl Store {
    /// What this table is.
    pub async fn describe(&self) -> Result<Description, ServiceError> {
        let answer = request(&self.table).send_with(&self.client).await;
        let output = answer.map_err(|error| ServiceError::new(OPERATION, &error))?;
        let table = output.table.ok_or_else(|| ServiceError::not_built(OPERATION))?;
        let attributes = table.attribute_definitions.unwrap_or_default();
        let kind_of = |name: &str| {
            let found = attributes.iter().find(|attribute| attribute.attribute_name() == name);
            found.map_or(ScalarAttributeType::S, |attribute| attribute.attribute_type().clone())
        };
        let mut keys = table.key_schema.unwrap_or_default();
        keys.sort_by_key(|key| key.key_type != KeyType::Hash);
        Ok(Description {
            keys: keys
                .into_iter()
                .map(|key| (key.attribute_name.clone(), kind_of(&key.attribute_name)))
                .collect(),
            items: table
                .item_count
                .and_then(|count| u64::try_from(count).ok())
                .unwrap_or_default(),
        })
    }
}

/// The request.
pub fn request(table: &str) -> DescribeTableInputBuilder {
    DescribeTableInputBuilder::default().table_name(table)
}
