//! Verifies that history follows an attached table: compares a sample of items with the newest version of each.
//!
//! ```text
//! scan a page ─> newest versions ─> equal: Following, none: Missing
//!                      └─ different ─> wait for the lag ─> read the item and its versions again
//!                                          ├─ equal: Following
//!                                          ├─ history has a newer version than before: Behind
//!                                          └─ otherwise: Differs
//! ```
//!
//! The writers of the table go on in the meantime. An item that changes all the time can differ at every moment, but its history then
//! grows. An item whose history does not follow differs, and its history does not grow.

use std::{collections::HashMap, time::Duration};

use aws_sdk_dynamodb::{Client, operation::scan::builders::ScanInputBuilder};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use shared::{
    domain::{
        Item,
        attached::{self, AttachedTable, decision::Tail, key},
        entity::EntityId,
    },
    dynamodb::{
        Store,
        client::error::ServiceError,
        read::{
            batch_get_items::{MAX_KEYS, Tables},
            scan_items,
        },
    },
};

use crate::{
    agreement::{agrees, tail_in_order},
    attachable::attachable_table,
};

const CONCURRENCY: usize = 16;

/// Number of items by the state of their history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub checked: u64,
    /// The newest version is the item.
    pub following: u64,
    /// The newest version is an older state, but history got versions of the item during the check.
    pub behind: u64,
    /// There is no version: the item did not change since the attachment.
    pub missing: u64,
    /// The newest version is another state, also after the lag.
    pub differs: u64,
}

/// Compares this many items with their history, `None` if there is no history table. Returns the history of each item that differs, with the
/// number of its newest version. `waiting` is called with the number of items that differ, before the wait.
///
/// # Errors
///
/// Returns [`ServiceError`] if a request fails.
pub async fn check(
    client: &Client,
    table: &AttachedTable,
    sample: u16,
    lag: Duration,
    waiting: impl FnOnce(usize),
) -> Result<Option<(Counts, Vec<(EntityId, u64)>)>, ServiceError> {
    let history = Store::new(client.clone(), table.history_table(), attached::digits());
    if attachable_table(&history).await?.is_none() {
        return Ok(None);
    }
    let store = &Store::attached(client.clone(), table.clone());
    let items = sample_items(store, sample).await?;
    let mut counts = Counts {
        checked: items.len() as u64,
        ..Counts::default()
    };
    let keyed = |item| Some((key::of_item(table, item).ok()?, item));
    let compare = |item: Option<&Item>, tail: &Tail| Some(agrees(tail.last()?, item, table.ignored()));
    let mut different = Vec::new();
    for (entity, item, tail) in tails(store, items.iter().filter_map(keyed)).await? {
        match compare(Some(item), &tail) {
            Some(true) => counts.following += 1,
            None => counts.missing += 1,
            Some(false) => different.push((entity, item, tail.newest())),
        }
    }
    if different.is_empty() {
        return Ok(Some((counts, Vec::new())));
    }
    waiting(different.len());
    tokio::time::sleep(lag).await;
    let keys: Vec<_> = different.iter().map(|(_, item, _)| *item).collect();
    // The item first: a version that is stored in between is not taken for a difference.
    let again = read_again(store, table, &keys).await?;
    let again: HashMap<_, _> = again.iter().filter_map(keyed).collect();
    let keyed = different.iter().map(|(entity, item, _)| (entity.clone(), *item));
    let tails = tails(store, keyed).await?;
    let mut differences = Vec::new();
    for ((entity, _, before), (_, _, tail)) in different.into_iter().zip(tails) {
        match compare(again.get(&entity).copied(), &tail) {
            Some(true) => counts.following += 1,
            _ if tail.newest() > before => counts.behind += 1,
            _ => {
                counts.differs += 1;
                differences.push((entity, tail.newest()));
            }
        }
    }
    Ok(Some((counts, differences)))
}

/// Reads the first items of the table: one page of at most this many, and of at most 1 MB.
async fn sample_items(store: &Store, limit: u16) -> Result<Vec<Item>, ServiceError> {
    let output = request(store.latest_table(), limit).send_with(store.client()).await;
    let page = output.map_err(|error| ServiceError::new("Scan", &error))?;
    Ok(page.items.unwrap_or_default().into_iter().map(Item::from).collect())
}

pub(crate) fn request(table: &str, limit: u16) -> ScanInputBuilder {
    scan_items::request(table, None).limit(limit.into())
}

/// Reads items of an attached table again. Items that were deleted are left out.
pub(crate) async fn read_again(
    store: &Store,
    table: &AttachedTable,
    items: &[&Item],
) -> Result<Vec<Item>, ServiceError> {
    let mut found = Vec::new();
    for items in items.chunks(MAX_KEYS) {
        let keys = items.iter().map(|item| {
            let value = |name: &String| Some((name.clone(), item.get(name)?.clone()));
            let key = table.keys().filter_map(|key| value(&key.name));
            HashMap::from(Item::from(key.collect::<HashMap<_, _>>()))
        });
        let tables = Tables::from([(store.latest_table().to_owned(), keys.collect())]);
        found.extend(store.read_all(&[], tables, true).await?);
    }
    Ok(found)
}

/// Reads the newest versions of items, in their order.
async fn tails<'a>(
    store: &Store,
    items: impl Iterator<Item = (EntityId, &'a Item)>,
) -> Result<Vec<(EntityId, &'a Item, Tail)>, ServiceError> {
    let reads = stream::iter(items.map(async |(entity, item)| {
        let tail = tail_in_order(store, &entity, true).await?;
        Ok((entity, item, tail))
    }));
    reads.buffered(CONCURRENCY).try_collect().await
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use aws_sdk_dynamodb::types::StreamViewType;
    use serde_json::{Value, json};
    use shared::domain::attached::definition::AttachedSettings;
    use testkit::scripted::{Reply, Scripted};
    use tokio::time::Instant;

    use super::*;
    use crate::{define, tests::table};

    const LAG: Duration = Duration::from_secs(60);

    fn item(state: &str) -> Value {
        json!({"customerId": {"S": "c"}, "orderNo": {"N": "7"}, "state": {"S": state}})
    }

    /// Checks one item. The states of the item, then the newest versions with their states, are those of each read; `-` is none.
    async fn checked(items: [&'static str; 2], versions: [(u64, &'static str); 2]) -> (Counts, Duration, usize) {
        let reads = AtomicUsize::new(0);
        let scripted = Scripted::new(move |operation, _| {
            let state = |state: &str| (state != "-").then(|| item(state));
            Reply::now(match operation {
                "DescribeTable" => json!({"Table": {"TableStatus": "ACTIVE"}}),
                "Scan" => json!({"Items": [state(items[0])]}),
                "BatchGetItem" => json!({"Responses": {"Orders": Vec::from_iter(state(items[1]))}}),
                _ => {
                    let (number, state) = versions[reads.fetch_add(1, Ordering::Relaxed)];
                    let version = json!({
                        "PK": {"S": "P"}, "SK": {"S": format!("v{number:010}")}, "Image": {"M": item(state)},
                        "Deleted": {"BOOL": state == "-"},
                    });
                    json!({"Items": if number == 0 { vec![] } else { vec![version] }})
                }
            })
        });
        let waited = Arc::new(AtomicUsize::new(0));
        let (_, table) = define(
            &table(Some(StreamViewType::NewImage)),
            AttachedSettings::default(),
            None,
        )
        .unwrap();
        let started = Instant::now();
        let waiting = |different| waited.store(different, Ordering::Relaxed);
        let client = testkit::replay::client(scripted);
        let checked = check(&client, &table, 100, LAG, waiting).await;
        let (counts, differences) = checked.unwrap().unwrap();
        assert_eq!(differences.len() as u64, counts.differs);
        (counts, started.elapsed(), waited.load(Ordering::Relaxed))
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_difference_waits_for_the_lag_and_history_that_does_not_grow_differs() {
        for (items, versions, expected, different) in [
            (["a", ""], [(1, "a"), (0, "")], "following", 0),
            (["a", ""], [(0, ""), (0, "")], "missing", 0),
            // History arrives.
            (["b", "b"], [(1, "a"), (2, "b")], "following", 1),
            // The item was read before a change, and its history afterwards.
            (["a", "b"], [(2, "b"), (2, "b")], "following", 1),
            // It was deleted.
            (["a", "-"], [(2, "-"), (2, "-")], "following", 1),
            (["b", "b"], [(1, "a"), (1, "a")], "differs", 1),
            (["b", "c"], [(1, "a"), (2, "b")], "behind", 1),
            (["b", "-"], [(1, "a"), (1, "a")], "differs", 1),
            // The item changes, and its history does not.
            (["b", "c"], [(1, "a"), (1, "a")], "differs", 1),
        ] {
            let is = |name: &str| u64::from(name == expected);
            let counts = Counts {
                checked: 1,
                following: is("following"),
                behind: is("behind"),
                missing: is("missing"),
                differs: is("differs"),
            };
            let lag = LAG * u32::try_from(different).unwrap();
            let found = checked(items, versions).await;
            assert_eq!(found, (counts, lag, different), "{items:?} {versions:?}");
        }
    }
}
