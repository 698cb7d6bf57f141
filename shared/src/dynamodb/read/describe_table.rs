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

impl Store {
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

    /// Describes the table.
    ///
    /// # Errors
    ///
    /// Returns [`ServiceError`] if the request fails.
    pub async fn description(&self) -> Result<TableDescription, ServiceError> {
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
        let keys = key_attributes(&keys_of(&self.description().await?))?;
        Ok(AttachedTable::new(settings.clone(), keys)?)
    }
}

/// Returns the status of a table.
pub fn status_of(table: &TableDescription) -> TableStatus {
    table.table_status.clone().unwrap_or(TableStatus::Active)
}

/// Returns the approximate number of items: DynamoDB updates it about every six hours, see
/// [`TableDescription`](https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TableDescription.html).
pub fn items_of(table: &TableDescription) -> u64 {
    let items = table.item_count.and_then(|count| u64::try_from(count).ok());
    items.unwrap_or_default()
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

/// Returns the key attributes of an attached table.
///
/// # Errors
///
/// Returns [`InvalidDefinition::KeyType`] if a type is not one that keys can have.
pub fn key_attributes(keys: &[(String, ScalarAttributeType)]) -> Result<Vec<KeyAttribute>, InvalidDefinition> {
    let keys = keys.iter().map(|(name, kind)| {
        let kind = kind.as_str().parse();
        let kind = kind.map_err(|_| InvalidDefinition::KeyType(name.clone()))?;
        Ok(KeyAttribute::new(name, kind))
    });
    keys.collect()
}

/// Builds the request.
pub fn request(table: &str) -> DescribeTableInputBuilder {
    DescribeTableInputBuilder::default().table_name(table)
}
