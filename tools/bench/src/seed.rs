//! Long histories, put as items in batches. That is faster than writing updates.

use std::{collections::HashMap, time::Duration};

use aws_sdk_dynamodb::{
    Client,
    types::{AttributeValue, PutRequest, WriteRequest},
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use shared::{
    domain::{
        entity::EntityId,
        keys::{LATEST_KEY, VersionDigits},
        names,
        recorded_at::RecordedAt,
        version::Version,
    },
    dynamodb::Store,
};

use crate::error::{BenchError, cannot};

/// Attributes of an item, by name.
pub(crate) type SeedItem = HashMap<String, AttributeValue>;

/// Maximum number of items of a request.
const BATCH_SIZE: usize = 25;
const CONCURRENCY: usize = 4;
/// Time before the first version.
const START: Duration = Duration::from_secs(1_604_260_800);

/// Returns the time of a version: one second after the previous version.
pub(crate) fn recorded_at(version: u64) -> RecordedAt {
    RecordedAt::since_epoch(START + Duration::from_secs(version))
}

/// Puts all version items of an entity, and its latest item.
pub(crate) async fn history(
    client: &Client,
    table: &str,
    store: &Store,
    entity: &EntityId,
    versions: u64,
) -> Result<(), BenchError> {
    let batches = stream::iter(items(entity.clone(), store.digits(), versions)).chunks(BATCH_SIZE);
    batches
        .map(|batch| put(client, table, batch))
        .buffer_unordered(CONCURRENCY)
        .try_collect()
        .await
}

/// Returns the latest item of an entity, and its version items.
pub(crate) fn items(entity: EntityId, digits: VersionDigits, versions: u64) -> impl Iterator<Item = SeedItem> {
    let mut latest = item(&entity, versions, LATEST_KEY.to_owned());
    for name in [names::LATEST, names::RECORDED_VERSION] {
        latest.insert(name.to_owned(), AttributeValue::N(versions.to_string()));
    }
    let all = (1..=versions).filter_map(Version::new);
    let versions = all.map(move |version| item(&entity, version.get(), digits.version_key(version)));
    [latest].into_iter().chain(versions)
}

fn item(entity: &EntityId, version: u64, sort_key: String) -> SeedItem {
    let item = [
        (names::PK, entity.as_str().to_owned()),
        (names::SK, sort_key),
        (names::RECORDED_AT, recorded_at(version).to_string()),
        (names::REQUEST_ID, format!("seed-{version}")),
        ("State", "x".repeat(200)),
    ];
    item.map(|(name, value)| (name.to_owned(), AttributeValue::S(value)))
        .into()
}

async fn put(client: &Client, table: &str, items: Vec<SeedItem>) -> Result<(), BenchError> {
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
