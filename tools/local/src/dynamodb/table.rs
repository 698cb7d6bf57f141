//! The table of the template, made where it is not there yet.

use std::time::Duration;

use aws_sdk_dynamodb::{
    Client,
    client::Waiters as _,
    error::DisplayErrorContext,
    types::{
        AttributeDefinition, BillingMode, KeySchemaElement, StreamSpecification, StreamViewType, TableDescription,
        TimeToLiveSpecification,
    },
};
use thiserror::Error;

use crate::template::Table;

/// How long a table may take to be there.
const PATIENCE: Duration = Duration::from_secs(120);

/// Makes the table unless it is there, and returns the ARN of its stream.
pub async fn ensure(client: &Client, table: &Table) -> Result<String, TableError> {
    if let Ok(described) = client.describe_table().table_name(&table.name).send().await {
        return stream_arn(described.table);
    }
    let mut request = client
        .create_table()
        .table_name(&table.name)
        .billing_mode(BillingMode::PayPerRequest)
        .stream_specification(
            StreamSpecification::builder()
                .stream_enabled(true)
                .stream_view_type(StreamViewType::from(table.stream_view_type.as_str()))
                .build()
                .map_err(TableError::of)?,
        );
    for (name, kind) in &table.attributes {
        let definition = AttributeDefinition::builder()
            .attribute_name(name)
            .attribute_type(kind.as_str().into());
        request = request.attribute_definitions(definition.build().map_err(TableError::of)?);
    }
    for (name, kind) in &table.keys {
        let key = KeySchemaElement::builder()
            .attribute_name(name)
            .key_type(kind.as_str().into());
        request = request.key_schema(key.build().map_err(TableError::of)?);
    }
    let created = request.send().await.map_err(TableError::of)?;
    // At once here, after some seconds on AWS.
    let waits = client.wait_until_table_exists().table_name(&table.name);
    waits.wait(PATIENCE).await.map_err(TableError::of)?;
    if let Some(attribute) = &table.ttl {
        let ttl = TimeToLiveSpecification::builder()
            .enabled(true)
            .attribute_name(attribute);
        let request = client.update_time_to_live().table_name(&table.name);
        let request = request.time_to_live_specification(ttl.build().map_err(TableError::of)?);
        request.send().await.map_err(TableError::of)?;
    }
    stream_arn(created.table_description)
}

fn stream_arn(table: Option<TableDescription>) -> Result<String, TableError> {
    table
        .and_then(|table| table.latest_stream_arn)
        .ok_or(TableError::NoStream)
}

/// Why there is no table.
#[derive(Debug, Error)]
pub enum TableError {
    /// DynamoDB refused it.
    #[error("the table cannot be made: {0}")]
    Refused(String),
    /// A table of that name is there, without a stream.
    #[error("the table has no stream")]
    NoStream,
}

impl TableError {
    fn of(error: impl std::error::Error) -> Self {
        Self::Refused(DisplayErrorContext(error).to_string())
    }
}
