//! Settings that a table has: `DescribeTable`, `DescribeTimeToLive` and `DescribeContinuousBackups`.

use aws_sdk_dynamodb::types::{
    BillingMode, PointInTimeRecoveryStatus, ScalarAttributeType, SseStatus, StreamViewType, TableStatus,
    TimeToLiveStatus,
};

use shared::dynamodb::{
    Store,
    client::error::ServiceError,
    read::describe_table::{keys_of, status_of},
};

/// Settings that a table has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableState {
    pub status: TableStatus,
    /// Names and types of the key attributes, the partition key first.
    pub keys: Vec<(String, ScalarAttributeType)>,
    pub billing_mode: BillingMode,
    /// Content of the stream records, `None` if there is no stream.
    pub stream: Option<StreamViewType>,
    /// `true` if the table cannot be deleted.
    pub deletion_protection: bool,
    /// `true` if a key of KMS encrypts the table, such as the AWS managed key, and not a key that DynamoDB owns.
    pub encryption: bool,
    /// Attribute of time to live, `None` if it is disabled. An error if it could not be read.
    pub ttl: Result<Option<String>, ServiceError>,
    /// `true` if point-in-time recovery is enabled. An error if it could not be read: emulators do not support the request.
    pub point_in_time_recovery: Result<bool, ServiceError>,
}

/// Reads the settings of the table, `None` if the table does not exist.
///
/// # Errors
///
/// Returns [`ServiceError`] if the table cannot be described.
pub async fn table_state(store: &Store) -> Result<Option<TableState>, ServiceError> {
    let Some(table) = store.described().await? else {
        return Ok(None);
    };
    let sse = table.sse_description().and_then(|sse| sse.status());
    let billing = table.billing_mode_summary().and_then(|billing| billing.billing_mode());
    let stream = table.stream_specification().filter(|stream| stream.stream_enabled);
    let encrypted = [SseStatus::Enabled, SseStatus::Enabling, SseStatus::Updating];
    Ok(Some(TableState {
        status: status_of(&table),
        keys: keys_of(&table),
        // A table that was always provisioned has no summary.
        billing_mode: billing.cloned().unwrap_or(BillingMode::Provisioned),
        stream: stream.and_then(|stream| stream.stream_view_type.clone()),
        deletion_protection: table.deletion_protection_enabled == Some(true),
        encryption: sse.is_some_and(|status| encrypted.contains(status)),
        ttl: ttl(store).await,
        point_in_time_recovery: point_in_time_recovery(store).await,
    }))
}

pub(crate) async fn ttl(store: &Store) -> Result<Option<String>, ServiceError> {
    let request = store.client().describe_time_to_live().table_name(store.latest_table());
    let output = request.send().await;
    let output = output.map_err(|error| ServiceError::new("DescribeTimeToLive", &error))?;
    let enabled = [Some(TimeToLiveStatus::Enabled), Some(TimeToLiveStatus::Enabling)];
    let ttl = output.time_to_live_description;
    let ttl = ttl.filter(|ttl| enabled.contains(&ttl.time_to_live_status));
    Ok(ttl.and_then(|ttl| ttl.attribute_name))
}

pub(crate) async fn point_in_time_recovery(store: &Store) -> Result<bool, ServiceError> {
    let request = store
        .client()
        .describe_continuous_backups()
        .table_name(store.latest_table());
    let output = request.send().await;
    let output = output.map_err(|error| ServiceError::new("DescribeContinuousBackups", &error))?;
    let backups = output.continuous_backups_description;
    let recovery = backups.and_then(|backups| backups.point_in_time_recovery_description);
    let status = recovery.and_then(|recovery| recovery.point_in_time_recovery_status);
    Ok(status == Some(PointInTimeRecoveryStatus::Enabled))
}
