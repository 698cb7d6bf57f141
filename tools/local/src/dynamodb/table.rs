//! Creates the table of the template if it does not exist.

use std::time::Duration;

use aws_sdk_dynamodb::{
    Client,
    client::Waiters as _,
    types::{
        AttributeDefinition, BillingMode, KeySchemaElement, StreamSpecification, StreamViewType, TableDescription,
        TimeToLiveSpecification,
    },
};
use thiserror::Error;

use crate::template::Table;

const CREATE_TIMEOUT: Duration = Duration::from_secs(120);

/// Creates the table if it does not exist, and returns the ARN of its stream.
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
    // Immediate with the embedded DynamoDB, some seconds on AWS.
    let waits = client.wait_until_table_exists().table_name(&table.name);
    waits.wait(CREATE_TIMEOUT).await.map_err(|_| TableError::Timeout)?;
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

#[derive(Debug, Error)]
pub enum TableError {
    #[error("cannot create the table")]
    Dynamodb(#[from] Box<aws_sdk_dynamodb::Error>),
    #[error("the table does not exist {} s after its creation", CREATE_TIMEOUT.as_secs())]
    Timeout,
    #[error("the table has no stream")]
    NoStream,
}

impl TableError {
    fn of(error: impl Into<aws_sdk_dynamodb::Error>) -> Self {
        Self::Dynamodb(Box::new(error.into()))
    }
}
