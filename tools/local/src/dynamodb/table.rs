//! Creates the tables of the template if they do not exist.

use aws_sdk_dynamodb::Client;
use operations::table::{
    create::{CreateOutcome, CreateTableError, create_table},
    settings::TableSettings,
};
use shared::{
    domain::keys::VersionDigits,
    dynamodb::{Store, client::error::ServiceError},
};
use thiserror::Error;

use crate::template::Table;

/// Creates the table if it does not exist, and returns the ARN of its stream.
pub async fn ensure_with_stream(client: &Client, table: &Table) -> Result<String, TableError> {
    ensure(client, table).await?;
    stream_of(client, &table.name).await
}

/// Returns the ARN of a table's stream.
pub(crate) async fn stream_of(client: &Client, table: &str) -> Result<String, TableError> {
    let described = client.describe_table().table_name(table).send().await;
    let described = described.map_err(|error| TableError::Describe(Box::new(error.into())))?;
    described
        .table
        .and_then(|table| table.latest_stream_arn)
        .ok_or(TableError::NoStream)
}

/// Creates the table if it does not exist.
pub async fn ensure(client: &Client, table: &Table) -> Result<(), TableError> {
    // A local table can be deleted, and emulators do not support the other two settings.
    let settings = TableSettings {
        deletion_protection: false,
        point_in_time_recovery: false,
        encryption: false,
        ..table.settings.clone()
    };
    let store = Store::new(client.clone(), &table.name, VersionDigits::default());
    match create_table(&store, &settings).await? {
        CreateOutcome::Created(not_applied) => match not_applied.into_iter().next() {
            Some((setting, error)) => Err(TableError::Setting(setting, error)),
            None => Ok(()),
        },
        CreateOutcome::Exists => Ok(()),
    }
}

#[derive(Debug, Error)]
pub enum TableError {
    #[error(transparent)]
    Create(#[from] CreateTableError),
    #[error("cannot create the table")]
    CreateAttached(#[source] Box<aws_sdk_dynamodb::Error>),
    #[error("the table was created without {0}")]
    Setting(&'static str, #[source] ServiceError),
    #[error("cannot describe the table")]
    Describe(#[source] Box<aws_sdk_dynamodb::Error>),
    #[error("the table has no stream")]
    NoStream,
}
