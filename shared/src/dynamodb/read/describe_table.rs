//! Key schema and size of a table: `DescribeTable`.

use aws_sdk_dynamodb::{
    operation::describe_table::builders::DescribeTableInputBuilder,
    types::{KeyType, ScalarAttributeType, TableDescription, TableStatus},
};

use crate::{
    domain::attached::{
        AttachedTable,
        definition::{AttachedSettings, InvalidDefinition, KeyAttribute},
    },
    dynamodb::{Store, client::error::ServiceError, read::layout_error::LayoutError},
};

const OPERATION: &str = "DescribeTable";

/// Description of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Amazon Resource Name, with Region and account.
    pub arn: String,
    /// Names and types of the key attributes, the partition key first.
    pub keys: Vec<(String, ScalarAttributeType)>,
    /// Approximate number of items: DynamoDB updates it about every six hours, see
    /// [`TableDescription`](https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TableDescription.html).
    pub items: u64,
}

impl Store {
    /// Describes the table.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if a request fails.
    pub async fn describe(&self) -> Result<Description, ServiceError> {
        let table = self.description().await?;
        let items = table.item_count.and_then(|count| u64::try_from(count).ok());
        Ok(Description {
            arn: table.table_arn.clone().unwrap_or_default(),
            keys: keys_of(&table),
            items: items.unwrap_or_default(),
        })
    }

    /// Describes the table, `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if the request fails.
    pub async fn described(&self) -> Result<Option<TableDescription>, ServiceError> {
        match self.description().await {
            Err(error) if error.code.as_deref() == Some("ResourceNotFoundException") => Ok(None),
            described => described.map(Some),
        }
    }

    pub(super) async fn description(&self) -> Result<TableDescription, ServiceError> {
        let output = request(&self.table).send_with(&self.client).await;
        let output = output.map_err(|error| ServiceError::new(OPERATION, &error))?;
        output.table.ok_or_else(|| ServiceError::not_built(OPERATION))
    }

    /// Reads the names and types of the keys of the table, and returns the attached table with these settings.
    ///
    /// # Errors
    ///
    /// Returns [`LayoutError::Service`] if the request fails, [`LayoutError::Attached`] if the table does not fit to the settings.
    pub async fn describe_attached(&self, settings: &AttachedSettings) -> Result<AttachedTable, LayoutError> {
        let keys = keys_of(&self.description().await?).into_iter().map(|(name, kind)| {
            let kind = kind.as_str().parse();
            let kind = kind.map_err(|_| InvalidDefinition::KeyType(name.clone()))?;
            Ok(KeyAttribute { name, kind })
        });
        let keys = keys.collect::<Result<_, InvalidDefinition>>()?;
        Ok(AttachedTable::new(settings.clone(), keys)?)
    }
}

/// Returns the status of a table.
pub fn status_of(table: &TableDescription) -> TableStatus {
    table.table_status.clone().unwrap_or(TableStatus::Active)
}

/// Returns the names and types of the key attributes, the partition key first.
pub fn keys_of(table: &TableDescription) -> Vec<(String, ScalarAttributeType)> {
    let kind_of = |name: &str| {
        let attributes = table.attribute_definitions();
        let found = attributes.iter().find(|attribute| attribute.attribute_name() == name);
        found.map_or(ScalarAttributeType::S, |attribute| attribute.attribute_type().clone())
    };
    let mut keys = table.key_schema().to_vec();
    keys.sort_by_key(|key| key.key_type != KeyType::Hash);
    keys.into_iter()
        .map(|key| (key.attribute_name.clone(), kind_of(&key.attribute_name)))
        .collect()
}

/// Builds the request.
pub fn request(table: &str) -> DescribeTableInputBuilder {
    DescribeTableInputBuilder::default().table_name(table)
}
