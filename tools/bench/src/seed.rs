//! Long histories, put as items in batches. That is faster than writing updates.

use std::collections::HashMap;

use aws_sdk_dynamodb::{
    Client,
    types::{AttributeValue, PutRequest, WriteRequest},
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use shared::{
    domain::{entity::EntityId, keys::LATEST_KEY, names, version::Version},
    dynamodb::Store,
};

use crate::error::{BenchError, cannot};

/// Maximum number of items of a request.
const BATCH_SIZE: usize = 25;
const CONCURRENCY: usize = 4;
/// Time before the first version, in seconds.
const START: i64 = 1_604_260_800;

/// Returns the time of a version: one second after the previous version.
pub(crate) fn epoch_millis(version: u64) -> i64 {
    seconds(version) * 1000
}

fn seconds(version: u64) -> i64 {
    START + i64::try_from(version).unwrap_or_default()
}

/// Puts all version items of an entity, and its latest item.
pub(crate) async fn history(
    client: &Client,
    table: &str,
    store: &Store,
    entity: &EntityId,
    versions: u64,
) -> Result<(), BenchError> {
    let digits = store.digits();
    let mut latest = item(entity, versions, LATEST_KEY.to_owned())?;
    latest.insert(names::LATEST.to_owned(), AttributeValue::N(versions.to_string()));
    let all = (1..=versions).filter_map(Version::new);
    let items = all.map(|version| item(entity, version.get(), digits.version_key(version)));
    let batches = stream::iter([Ok(latest)].into_iter().chain(items)).try_chunks(BATCH_SIZE);
    batches
        .map(|batch| async { put(client, table, batch.map_err(|error| error.1)?).await })
        .buffer_unordered(CONCURRENCY)
        .try_collect()
        .await
}

fn item(entity: &EntityId, version: u64, sort_key: String) -> Result<HashMap<String, AttributeValue>, BenchError> {
    let time = jiff::Timestamp::from_second(seconds(version)).map_err(cannot("format a time"))?;
    let item = [
        (names::PK, entity.as_str().to_owned()),
        (names::SK, sort_key),
        (names::TIME, time.to_string()),
        (names::REQUEST_ID, format!("seed-{version}")),
        ("State", "x".repeat(200)),
    ];
    Ok(item
        .map(|(name, value)| (name.to_owned(), AttributeValue::S(value)))
        .into())
}

async fn put(client: &Client, table: &str, items: Vec<HashMap<String, AttributeValue>>) -> Result<(), BenchError> {
    let mut unprocessed = Vec::with_capacity(items.len());
    for item in items {
        let put = PutRequest::builder()
            .set_item(Some(item))
            .build()
            .map_err(cannot("build a request"))?;
        unprocessed.push(WriteRequest::builder().put_request(put).build());
    }
    while !unprocessed.is_empty() {
        let request = client.batch_write_item().request_items(table, unprocessed);
        let output = request.send().await.map_err(cannot("put items"))?;
        unprocessed = output
            .unprocessed_items
            .unwrap_or_default()
            .remove(table)
            .unwrap_or_default();
    }
    Ok(())
}
