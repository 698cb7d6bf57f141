//! Table that could be attached, or is, as `DescribeTable` describes it: its keys, its stream, its settings and its size.

use std::time::Duration;

use aws_sdk_dynamodb::types::{
    BillingMode, ScalarAttributeType, SseStatus, StreamViewType, TableDescription, TableStatus,
};

use shared::dynamodb::{
    Store,
    client::error::ServiceError,
    read::describe_table::{items_of, keys_of, status_of},
};

/// Description of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachableTable {
    pub name: String,
    pub arn: String,
    pub status: TableStatus,
    /// Names and types of the key attributes, the partition key first.
    pub keys: Vec<(String, ScalarAttributeType)>,
    /// Stream, `None` if it is disabled.
    pub stream: Option<Stream>,
    pub billing_mode: BillingMode,
    /// `true` if the table cannot be deleted.
    pub deletion_protection: bool,
    /// `true` if a key of KMS encrypts the table, such as the AWS managed key, and not a key that DynamoDB owns.
    pub encryption: bool,
    /// Regions of the other replicas of a global table.
    pub replicas: Vec<String>,
    /// Approximate number of items: DynamoDB updates it about every six hours.
    pub items: u64,
    /// Approximate size of all items in bytes.
    pub bytes: u64,
    /// Time of creation since 1970.
    pub created: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    pub arn: String,
    pub view: StreamViewType,
}

/// Describes the table, `None` if it does not exist.
pub async fn attachable_table(store: &Store) -> Result<Option<AttachableTable>, ServiceError> {
    let table = store.described().await?;
    Ok(table.map(|table| AttachableTable::of(store.latest_table(), table)))
}

impl AttachableTable {
    pub fn of(name: &str, table: TableDescription) -> Self {
        let bytes = table.table_size_bytes.map(u64::try_from);
        let billing = table.billing_mode_summary().and_then(|billing| billing.billing_mode());
        let sse = table.sse_description().and_then(|sse| sse.status());
        let encrypted = [SseStatus::Enabled, SseStatus::Enabling, SseStatus::Updating];
        let specification = table.stream_specification().filter(|stream| stream.stream_enabled);
        let view = specification.and_then(|stream| stream.stream_view_type.clone());
        let created = table.creation_date_time.map(|time| u64::try_from(time.secs()));
        let replicas = table.replicas().iter();
        Self {
            name: name.to_owned(),
            status: status_of(&table),
            keys: keys_of(&table),
            // A table that was always provisioned has no summary.
            billing_mode: billing.cloned().unwrap_or(BillingMode::Provisioned),
            deletion_protection: table.deletion_protection_enabled == Some(true),
            encryption: sse.is_some_and(|status| encrypted.contains(status)),
            replicas: replicas.filter_map(|replica| replica.region_name.clone()).collect(),
            items: items_of(&table),
            bytes: bytes.and_then(Result::ok).unwrap_or_default(),
            created: created.and_then(Result::ok).map(Duration::from_secs),
            // A disabled stream has an ARN, too: its records stay readable for 24 hours.
            stream: view
                .zip(table.latest_stream_arn)
                .map(|(view, arn)| Stream { arn, view }),
            arn: table.table_arn.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::types::{ReplicaDescription, StreamSpecification};

    use super::*;

    #[test]
    fn only_an_enabled_stream_is_one() {
        for (enabled, expected) in [(true, Some("arn")), (false, None)] {
            let stream = StreamSpecification::builder()
                .stream_enabled(enabled)
                .stream_view_type(StreamViewType::KeysOnly);
            let table = TableDescription::builder()
                .stream_specification(stream.build().unwrap())
                .latest_stream_arn("arn")
                .replicas(ReplicaDescription::builder().region_name("eu-west-1").build())
                .item_count(-1)
                .table_size_bytes(7);
            let table = AttachableTable::of("Orders", table.build());
            assert_eq!(
                (table.items, table.bytes, table.replicas),
                (0, 7, vec!["eu-west-1".to_owned()])
            );
            assert_eq!(table.stream.map(|stream| stream.arn).as_deref(), expected);
        }
        let table = AttachableTable::of("Orders", TableDescription::builder().build());
        assert_eq!(table.stream, None);
    }
}
