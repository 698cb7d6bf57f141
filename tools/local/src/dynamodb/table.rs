//! Creates the tables of the template if they do not exist.

use aws_sdk_dynamodb::Client;
use operations::table::{create::create_table, settings::TableSettings};
use shared::{domain::keys::VersionDigits, dynamodb::Store};

use crate::{
    error::{LocalError, failed},
    template::Table,
};

/// Creates the table if it does not exist, and returns the ARN of its stream.
pub async fn ensure_with_stream(client: &Client, table: &Table) -> Result<String, LocalError> {
    ensure(client, table).await?;
    stream_of(client, &table.name).await
}

/// Returns the ARN of a table's stream.
pub(crate) async fn stream_of(client: &Client, table: &str) -> Result<String, LocalError> {
    let described = client.describe_table().table_name(table).send().await;
    let described = described.map_err(failed("cannot describe the table"))?.table;
    let stream = described.and_then(|table| table.latest_stream_arn);
    stream.ok_or_else(|| LocalError::new("the table has no stream"))
}

/// Creates the table if it does not exist. Returns `true` if it did not.
pub async fn ensure(client: &Client, table: &Table) -> Result<bool, LocalError> {
    // A local table can be deleted, and emulators do not support the other two settings.
    let settings = TableSettings {
        deletion_protection: false,
        point_in_time_recovery: false,
        encryption: false,
        ..table.settings.clone()
    };
    let store = Store::new(client.clone(), &table.name, VersionDigits::default());
    let not_applied = create_table(&store, &settings).await;
    let not_applied = not_applied.map_err(failed(format!("cannot create the table {}", table.name)))?;
    let is_new = not_applied.is_some();
    let first = not_applied.unwrap_or_default().into_iter().next();
    first.map_or(Ok(is_new), |(setting, error)| {
        Err(failed(format!("the table was created without {setting}"))(error))
    })
}
