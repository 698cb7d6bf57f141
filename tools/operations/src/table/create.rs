//! Creates a table: `CreateTable`, then the settings that need their own requests when the table is active:
//! `UpdateTimeToLive` and `UpdateContinuousBackups`.
//!
//! If one of these requests fails, the other one is still sent, and the outcome names the setting: the table exists by then.
//! Emulators do not support point-in-time recovery.

use std::time::Duration;

use aws_sdk_dynamodb::{
    error::BuildError,
    operation::create_table::builders::CreateTableInputBuilder,
    types::{
        AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType,
        PointInTimeRecoverySpecification, Projection, ProjectionType, ScalarAttributeType, SseSpecification,
        StreamSpecification, TableStatus, TimeToLiveSpecification,
    },
};
use shared::{
    domain::time_index,
    dynamodb::{Store, client::error::ServiceError, read::describe_table::status_of},
};
use tokio::time::Instant;

use crate::{error::OperationError, table::settings::TableSettings};

/// Maximum duration until a new table is active, and until its backups are available.
pub const CREATE_TIMEOUT: Duration = Duration::from_secs(180);
/// Time between two requests for the status of a new table.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Settings that a new table does not have, with the errors of their requests.
pub type NotApplied = Vec<(&'static str, ServiceError)>;

/// Creates the table if it does not exist, waits until it is active, and returns the settings that it does not have. `None` if a table
/// with this name exists, which is not changed. If another client is creating it, this waits too.
///
/// # Errors
///
/// Returns [`OperationError::Service`] if a request fails, [`OperationError::NotActive`] if the table is not active after
/// [`CREATE_TIMEOUT`].
pub async fn create_table(store: &Store, settings: &TableSettings) -> Result<Option<NotApplied>, OperationError> {
    const OPERATION: &str = "CreateTable";
    let mut exists = store.described().await?.is_some();
    if !exists {
        let request = request(settings, store.latest_table()).map_err(|_| ServiceError::not_built(OPERATION))?;
        let created = request.send_with(store.client()).await;
        match created.map_err(|error| ServiceError::new(OPERATION, &error)) {
            // Another client was faster, or the response to an earlier attempt was lost.
            Err(error) if error.code.as_deref() == Some("ResourceInUseException") => exists = true,
            created => _ = created?,
        }
    }
    wait_until_active(store).await?;
    if exists {
        return Ok(None);
    }
    let mut not_applied = Vec::new();
    if let Some(attribute) = &settings.ttl {
        let ttl = enable_ttl(store, attribute).await;
        not_applied.extend(ttl.err().map(|error| ("time to live", error)));
    }
    if settings.point_in_time_recovery {
        let recovery = enable_point_in_time_recovery(store).await;
        not_applied.extend(recovery.err().map(|error| ("point-in-time recovery", error)));
    }
    Ok(Some(not_applied))
}

/// Waits while the table is being created. A new table can be missing in the first descriptions.
async fn wait_until_active(store: &Store) -> Result<(), OperationError> {
    let started = Instant::now();
    loop {
        let status = store.described().await?.map(|table| status_of(&table));
        if status.is_some_and(|status| status != TableStatus::Creating) {
            return Ok(());
        }
        if started.elapsed() >= CREATE_TIMEOUT {
            return Err(OperationError::NotActive(CREATE_TIMEOUT.as_secs()));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

pub(crate) async fn enable_ttl(store: &Store, attribute: &str) -> Result<(), ServiceError> {
    const OPERATION: &str = "UpdateTimeToLive";
    let ttl = TimeToLiveSpecification::builder()
        .enabled(true)
        .attribute_name(attribute)
        .build()
        .map_err(|_| ServiceError::not_built(OPERATION))?;
    let update = store.client().update_time_to_live().table_name(store.latest_table());
    let output = update.time_to_live_specification(ttl).send().await;
    output.map(drop).map_err(|error| ServiceError::new(OPERATION, &error))
}

/// Enables point-in-time recovery. AWS first prepares the backups of a new table, and rejects the request until then.
pub(crate) async fn enable_point_in_time_recovery(store: &Store) -> Result<(), ServiceError> {
    const OPERATION: &str = "UpdateContinuousBackups";
    let recovery = PointInTimeRecoverySpecification::builder()
        .point_in_time_recovery_enabled(true)
        .build()
        .map_err(|_| ServiceError::not_built(OPERATION))?;
    let update = store.client().update_continuous_backups();
    let update = update
        .table_name(store.latest_table())
        .point_in_time_recovery_specification(recovery);
    let started = Instant::now();
    loop {
        let Err(error) = update.clone().send().await else {
            return Ok(());
        };
        let error = ServiceError::new(OPERATION, &error);
        let is_early = error.code.as_deref() == Some("ContinuousBackupsUnavailableException");
        if !is_early || started.elapsed() >= CREATE_TIMEOUT {
            return Err(error);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Builds the request that creates the table.
pub(crate) fn request(settings: &TableSettings, table: &str) -> Result<CreateTableInputBuilder, BuildError> {
    let stream = settings.stream.clone().map(|view| {
        let stream = StreamSpecification::builder().stream_enabled(true);
        stream.stream_view_type(view).build()
    });
    let encryption = settings
        .encryption
        .then(|| SseSpecification::builder().enabled(true).build());
    let mut request = CreateTableInputBuilder::default()
        .table_name(table)
        .billing_mode(BillingMode::PayPerRequest)
        .set_stream_specification(stream.transpose()?)
        .set_sse_specification(encryption)
        .set_deletion_protection_enabled(settings.deletion_protection.then_some(true));
    for ((name, kind), role) in settings.keys.iter().zip([KeyType::Hash, KeyType::Range]) {
        let definition = AttributeDefinition::builder()
            .attribute_name(name)
            .attribute_type(kind.clone());
        let key = KeySchemaElement::builder().attribute_name(name).key_type(role);
        request = request
            .attribute_definitions(definition.build()?)
            .key_schema(key.build()?);
    }
    if settings.time_index {
        request = with_time_index(request)?;
    }
    Ok(request)
}

fn with_time_index(mut request: CreateTableInputBuilder) -> Result<CreateTableInputBuilder, BuildError> {
    let keys_only = Projection::builder().projection_type(ProjectionType::KeysOnly);
    let mut index = GlobalSecondaryIndex::builder()
        .index_name(time_index::INDEX_NAME)
        .projection(keys_only.build());
    for (name, role) in [
        (time_index::PARTITION, KeyType::Hash),
        (time_index::INSERTED_AT, KeyType::Range),
    ] {
        let definition = AttributeDefinition::builder()
            .attribute_name(name)
            .attribute_type(ScalarAttributeType::S);
        request = request.attribute_definitions(definition.build()?);
        index = index.key_schema(
            KeySchemaElement::builder()
                .attribute_name(name)
                .key_type(role)
                .build()?,
        );
    }
    Ok(request.global_secondary_indexes(index.build()?))
}
