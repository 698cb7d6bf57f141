//! Enables the stream of a table that has none: `UpdateTable`. This does not slow the table.

use std::time::Duration;

use aws_sdk_dynamodb::{
    error::BuildError,
    operation::update_table::builders::UpdateTableInputBuilder,
    types::{StreamSpecification, StreamViewType, TableStatus},
};
use tokio::time::Instant;

use crate::attachable::{AttachableTable, attachable_table};
use shared::dynamodb::{Store, client::error::ServiceError};

/// Maximum duration until the stream is enabled.
pub const ENABLE_TIMEOUT: Duration = Duration::from_secs(180);
/// Time between two requests for the status of the table.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Enables the stream with new and old images, and waits until it can be read, `None` if it cannot after [`ENABLE_TIMEOUT`]. DynamoDB
/// rejects this for a table with a stream.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn enable_stream(store: &Store) -> Result<Option<AttachableTable>, ServiceError> {
    const OPERATION: &str = "UpdateTable";
    let request = request(store.latest_table()).map_err(|_| ServiceError::not_built(OPERATION))?;
    let output = request.send_with(store.client()).await;
    output.map_err(|error| ServiceError::new(OPERATION, &error))?;
    let started = Instant::now();
    loop {
        let table = attachable_table(store).await?;
        let is_enabled = |table: &AttachableTable| table.stream.is_some() && table.status == TableStatus::Active;
        let enabled = table.filter(is_enabled);
        if enabled.is_some() || started.elapsed() >= ENABLE_TIMEOUT {
            return Ok(enabled);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

pub(crate) fn request(table: &str) -> Result<UpdateTableInputBuilder, BuildError> {
    let stream = StreamSpecification::builder()
        .stream_enabled(true)
        .stream_view_type(StreamViewType::NewAndOldImages);
    let request = UpdateTableInputBuilder::default().table_name(table);
    Ok(request.stream_specification(stream.build()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use shared::domain::keys::VersionDigits;
    use testkit::scripted::{Reply, Scripted};

    use super::*;

    /// Returns the result and its duration for these descriptions, of which the last one is repeated.
    async fn enabled(descriptions: &'static [(&str, bool)]) -> (Option<AttachableTable>, Duration) {
        let number = std::sync::atomic::AtomicUsize::new(0);
        let scripted = Scripted::new(move |operation, _| {
            let next = || number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Reply::now(match operation {
                "DescribeTable" => {
                    let (status, stream) = descriptions[next().min(descriptions.len() - 1)];
                    let stream = json!({"StreamEnabled": stream, "StreamViewType": "NEW_AND_OLD_IMAGES"});
                    json!({"Table": {"TableStatus": status, "LatestStreamArn": "arn", "StreamSpecification": stream}})
                }
                _ => json!({}),
            })
        });
        let store = Store::new(testkit::replay::client(scripted), "Orders", VersionDigits::default());
        let started = Instant::now();
        (enable_stream(&store).await.unwrap(), started.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn it_waits_for_the_stream_and_for_the_table_until_the_timeout() {
        let (table, waited) = enabled(&[("UPDATING", false), ("UPDATING", true), ("ACTIVE", true)]).await;
        assert_eq!(table.unwrap().stream.unwrap().view, StreamViewType::NewAndOldImages);
        assert_eq!(waited, 2 * POLL_INTERVAL);
        let never = enabled(&[("UPDATING", true)]).await;
        assert_eq!(never, (None, ENABLE_TIMEOUT));
    }
}
