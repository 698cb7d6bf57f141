//! Long histories, put as they are: faster than by so many updates.

use std::collections::HashMap;

use aws_sdk_dynamodb::{
    Client,
    types::{AttributeValue, PutRequest, WriteRequest},
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use shared::{
    domain::{entity::EntityId, names, version::Version},
    dynamodb::Store,
};

use crate::{error::BenchError, table::failed};

/// The most items of one request.
const BATCH: usize = 25;
const AT_ONCE: usize = 4;
/// When the first version was made, in seconds.
const BEGAN: i64 = 1_604_260_800;

/// When a version was made: a second after the one before.
pub(super) fn epoch_millis(version: u64) -> i64 {
    seconds(version) * 1000
}

fn seconds(version: u64) -> i64 {
    BEGAN + i64::try_from(version).unwrap_or_default()
}

/// Puts all versions of an entity, and its latest item.
pub(super) async fn history(
    client: &Client,
    table: &str,
    store: &Store,
    entity: &EntityId,
    versions: u64,
) -> Result<(), BenchError> {
    let digits = store.digits();
    let mut latest = item(entity, versions, digits.latest_key())?;
    latest.insert(names::LATEST.to_owned(), AttributeValue::N(versions.to_string()));
    let all = (1..=versions).filter_map(Version::new);
    let items = all.map(|version| item(entity, version.get(), digits.version_key(version)));
    let batches = stream::iter([Ok(latest)].into_iter().chain(items)).try_chunks(BATCH);
    batches
        .map(|batch| async { put(client, table, batch.map_err(|error| error.1)?).await })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}

fn item(entity: &EntityId, version: u64, sort_key: String) -> Result<HashMap<String, AttributeValue>, BenchError> {
    let time = jiff::Timestamp::from_second(seconds(version)).map_err(failed)?;
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
    let mut left = Vec::with_capacity(items.len());
    for item in items {
        let put = PutRequest::builder().set_item(Some(item)).build().map_err(failed)?;
        left.push(WriteRequest::builder().put_request(put).build());
    }
    while !left.is_empty() {
        let request = client.batch_write_item().request_items(table, left);
        let answer = request.send().await.map_err(failed)?;
        left = answer
            .unprocessed_items
            .unwrap_or_default()
            .remove(table)
            .unwrap_or_default();
    }
    Ok(())
}
