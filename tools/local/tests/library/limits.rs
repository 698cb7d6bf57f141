//! Limits of the writer and of DynamoDB: DynamoDB accepts the form of every update that the writer accepts, and each latest item
//! that it accepts becomes a version.

use std::{collections::HashMap, time::Duration};

use operations::{
    prune::requests::{mark_version, pin_version, unpin_version},
    purge::entity::purge,
    read::item_collection::item_collection,
};
use serde_json::{Map, Value, json};
use shared::{
    config::{Ordering, WriteMode},
    domain::{
        AttributeValue, Item,
        keys::{LATEST_KEY, partition_key_of},
        layout,
        size::{self, MAX_ITEM_BYTES},
        version_item::VersionItem,
    },
    dynamodb::{Store, client::error::ErrorKind, put::put_version::PutOutcome, read::history::HistoryQuery},
    logging::chain,
};
use testkit::database::{self, Database, MODES, entity, settings};
use writer_fn::{
    counter::{self, WriteOutcome},
    update::{MAX_ATTRIBUTES, Update},
};

use crate::edge;

#[tokio::test]
async fn the_largest_latest_item_has_a_version_item_that_fits() {
    let database = Database::start().await;
    for digits in [1, 20] {
        let table = format!("Edge{digits}");
        let store = database.store(&table, digits).await;
        for options in settings() {
            let id = format!("{options:?}");
            let edge = edge::find(&database.client, &database.table_name(&table), &store, &id, options).await;
            // The writer rejects an update at the size limit, and not well below it.
            assert!(
                (MAX_ITEM_BYTES - 200..=MAX_ITEM_BYTES).contains(&edge.latest),
                "{id} {edge:?}"
            );
            assert!(edge.version <= MAX_ITEM_BYTES && edge.marked, "{id} {edge:?}");
        }
    }
}

#[tokio::test]
async fn dynamodb_accepts_what_the_writer_accepts() {
    let database = Database::start().await;
    let store = database.store("Limits", 1).await;
    let nested = |levels: usize, innermost: &str| {
        serde_json::from_str::<Value>(&format!("{}{innermost}{}", "[".repeat(levels), "]".repeat(levels))).unwrap()
    };
    let number = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let attributes = |attributes: Vec<(String, Value)>| Map::from_iter(attributes);
    let one = |value: Value| Map::from_iter([("A".to_owned(), value)]);
    let longest = database.longest_name("names above 50,000 characters");
    for (index, mut update) in [
        one(nested(31, "7")),
        one(nested(31, "")),
        one(nested(15, r#"{"a": {"b": [{"c": [{}]}]}}"#)),
        one(number("12345678901234567890123456789012345678")),
        one(number("-9.9999999999999999999999999999999999999e125")),
        one(number("1e-130")),
        one(number("0e999")),
        one(number(&format!("1.{}", "0".repeat(900)))),
        one(json!({"x".repeat(longest): ""})),
        attributes(vec![("x".repeat(longest), json!(""))]),
        attributes(vec![("RequestId".to_owned(), json!("r".repeat(1000)))]),
        attributes((0..MAX_ATTRIBUTES).map(|n| (format!("A{n}"), json!([n]))).collect()),
        attributes(
            (0..6)
                .map(|n| (format!("{n}{}", "x".repeat(longest - 5000)), Value::Null))
                .collect(),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        for mode in MODES {
            let id = format!("{index}{mode:?}");
            update.insert("ID".to_owned(), json!(format!("{id:x<2048}")));
            let update = Update::parse(Value::Object(update.clone()), "r", Ordering::Arrival);
            let update = update.unwrap_or_else(|error| panic!("{id}: {}", chain(&error)));
            let written = counter::write(&store, &update, testkit::database::mode(mode)).await;
            assert!(matches!(written, Ok(WriteOutcome::Written { .. })), "{id}: {written:?}");
        }
    }
}

/// Returns bytes that do not compress.
fn random(bytes: usize) -> AttributeValue {
    let mut random = fastrand::Rng::with_seed(7);
    AttributeValue::B(std::iter::repeat_with(|| random.u8(..)).take(bytes).collect())
}

fn text(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

/// Returns attributes at the limits, by name.
fn at_the_limits() -> Vec<(&'static str, HashMap<String, AttributeValue>)> {
    let of = |name: &str, value| HashMap::from([(name.to_owned(), value)]);
    let deep = (1..32).fold(text("deep ".repeat(30_000)), |inner, level| match level % 2 {
        0 => AttributeValue::L(vec![inner]),
        _ => AttributeValue::M(of("\"", inner)),
    });
    vec![
        (
            "Many",
            (0..541)
                .map(|number| (format!("A{number}"), text("a".repeat(700))))
                .collect(),
        ),
        ("Deep", of("A", deep)),
        ("Empty", HashMap::new()),
        (
            "Named",
            HashMap::from([
                ("ImageDeflate".to_owned(), random(10)),
                ("Parts".to_owned(), AttributeValue::N("2".to_owned())),
            ]),
        ),
    ]
}

/// Returns a value of this many bytes, or a smaller one.
type Filler = fn(usize) -> AttributeValue;

/// Puts the largest latest item with these attributes that the engine accepts, filled with a value, as another program does.
async fn put_largest(
    store: &Store,
    table: &str,
    client: &aws_sdk_dynamodb::Client,
    mut item: Item,
    filler: Filler,
) -> Item {
    let rest = MAX_ITEM_BYTES - size::of_item(&item) - "Z".len();
    // The engines count some values differently.
    for less in 0..2000 {
        item.insert("Z".to_owned(), filler(rest - less));
        let put = client.put_item().table_name(table).set_item(Some(item.clone().into()));
        if put.send().await.is_ok() {
            let id = partition_key_of(&item).unwrap();
            return store.get(&entity(id), LATEST_KEY, true).await.unwrap().unwrap();
        }
    }
    panic!("no size is accepted");
}

#[tokio::test]
async fn every_latest_item_becomes_a_version() {
    let database = Database::start().await;
    for digits in [1, 20] {
        let name = format!("Versions{digits}");
        let store = database.store(&name, digits).await;
        let table = database.table_name(&name);
        for (id, attributes) in at_the_limits() {
            let fillers: [(&str, Filler); 3] = [
                ("Random", random),
                ("Text", |bytes| text("z".repeat(bytes))),
                ("Small", |_| text("")),
            ];
            for (filled, filler) in fillers {
                // All but these compress to an item.
                let has_parts = filled == "Random" && ["Empty", "Named"].contains(&id);
                // Both widths store items alike, and read them differently.
                if digits > 1 && !has_parts {
                    continue;
                }
                let id = format!("{id}{filled}");
                let mut item = Item::from(attributes.clone());
                for (name, value) in [
                    ("PK", text(&id)),
                    ("SK", text("v0")),
                    ("Latest", AttributeValue::N("9".to_owned())),
                ] {
                    item.insert(name.to_owned(), value);
                }
                let latest = put_largest(&store, &table, &database.client, item, filler).await;
                let version = VersionItem::from_image(latest.clone(), store.digits()).unwrap();
                let version = version.with_stream_time(Some(1_795_328_688_000_000));
                for expected in [PutOutcome::Recorded, PutOutcome::AlreadyRecorded] {
                    assert_eq!(store.put_version(&version).await.unwrap(), expected, "{id}");
                }
                let mut other = latest.clone();
                other.insert("Z".to_owned(), text("other"));
                let other = VersionItem::from_image(other, store.digits()).unwrap();
                assert_eq!(store.put_version(&other).await.unwrap(), PutOutcome::Conflict, "{id}");
                check_reads(&store, &id, version.item()).await;
                let history = store.history_table();
                check_marks(&database, &store, history, &id, has_parts).await;
                // Expired, and not deleted yet: a record that is delivered again is compared with the whole version.
                let nine = database::version(9);
                let an_hour_ago = store.clock().now().saturating_sub(Duration::from_secs(3600));
                assert!(
                    mark_version(&store, &entity(&id), nine, an_hour_ago).await.unwrap(),
                    "{id}"
                );
                let again = store.put_version(&version).await.unwrap();
                assert_eq!(again, PutOutcome::AlreadyRecorded, "{id}");
                let mut deleted = operations::purge::entity::ItemCounts::new();
                let purged = purge(&store, &entity(&id), Duration::ZERO, |_| {}, &mut deleted).await;
                purged.unwrap();
                assert_eq!(items_of(&database, history, &id).await.len(), 0, "{id}");
            }
        }
    }
}

async fn items_of(database: &Database, table: &str, id: &str) -> Vec<Value> {
    let mut items = database::items(&database.client, table).await;
    items.retain(|item| item["PK"]["S"] == id);
    items
}

async fn check_reads(store: &Store, id: &str, expected: &Item) {
    let (entity, nine) = (entity(id), database::version(9));
    let read = store.get(&entity, &store.digits().version_key(nine), true).await;
    assert!(read.unwrap().unwrap() == *expected, "{id}");
    let keys = store.digits().version_keys([9]);
    assert!(
        store.batch_get(&entity, &keys, false).await.unwrap() == [expected.clone()],
        "{id}"
    );
    let query = HistoryQuery {
        consistent: true,
        ..HistoryQuery::default()
    };
    let history = store
        .history(&entity, query)
        .await
        .unwrap()
        .unwrap()
        .collect()
        .await
        .unwrap();
    let [view] = &history[..] else {
        panic!("{id} has {} versions", history.len())
    };
    assert_eq!(view.version, nine);
    assert!(view.attributes["Z"] == expected["Z"] && view.recorded_by_stream, "{id}");
    let collection = item_collection(store, &entity, true, |_| {}).await.unwrap();
    let mut flat = collection.items.iter().map(|item| &item.attributes);
    assert!(
        flat.any(|item| item.get("RecordedBy").is_some() && item.get("Z") == expected.get("Z")),
        "{id}"
    );
}

/// A version expires with all of its items, or with none.
async fn check_marks(database: &Database, store: &Store, table: &str, id: &str, has_parts: bool) {
    let (entity, nine) = (entity(id), database::version(9));
    let marked = async || {
        let items = items_of(database, table, id).await;
        let history = items
            .iter()
            .filter(|item| layout::is_history(item["SK"]["S"].as_str().unwrap(), store.digits()));
        history.map(|item| item.get("TTL").is_some()).collect::<Vec<_>>()
    };
    let count = if has_parts { 2 } else { 1 };
    assert_eq!(marked().await, vec![false; count], "{id}");
    let now = store.clock().now();
    let expires = now + Duration::from_secs(3600);
    for (is_pinned, expected) in [(false, true), (true, false), (false, false)] {
        let done = match is_pinned {
            true => pin_version(store, &entity, nine, now).await,
            false => mark_version(store, &entity, nine, expires).await,
        };
        assert_eq!(done.unwrap(), is_pinned || expected, "{id}");
        assert_eq!(marked().await, vec![expected; count], "{id}");
    }
    assert!(unpin_version(store, &entity, nine).await.unwrap());
}

/// Write modes that put the version themselves acknowledge no update that cannot be recorded.
#[tokio::test]
async fn every_acknowledged_update_of_a_large_item_is_recorded() {
    let database = Database::start().await;
    let store = database.store("Acknowledged", 1).await;
    let table = database.table_name("Acknowledged");
    for mode in MODES {
        for (name, attributes) in at_the_limits() {
            let id = format!("{name}{mode:?}");
            let mut item = Item::from(attributes);
            for (name, value) in [
                ("PK", text(&id)),
                ("SK", text("v0")),
                ("Latest", AttributeValue::N("1".to_owned())),
            ] {
                item.insert(name.to_owned(), value);
            }
            // The update adds its record to the item.
            let room = MAX_ITEM_BYTES - size::of_item(&item) - 700;
            item.insert("Z".to_owned(), random(room));
            database::put_into(&database.client, &table, serde_json::to_value(&item).unwrap()).await;
            database::put_version(&store, &entity(&id)).await;
            let mut acknowledged = 0;
            for number in 0..8 {
                let update = Update::parse(
                    json!({"ID": id, "State": number, "Filler": "f".repeat(150 * number)}),
                    &format!("{id}{number}"),
                    Ordering::Arrival,
                )
                .unwrap();
                match counter::write(&store, &update, database::mode(mode)).await {
                    Ok(WriteOutcome::Written { version }) => {
                        if mode == WriteMode::Stream {
                            database::put_version(&store, &entity(&id)).await;
                        }
                        acknowledged += 1;
                        let key = store.digits().version_key(version);
                        let recorded = store.get(&entity(&id), &key, true).await.unwrap().unwrap();
                        assert!(recorded["Filler"] == text("f".repeat(150 * number)), "{id}");
                    }
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Rejected, "{id} {number}: {}", chain(&error)),
                    other => panic!("{id}: {other:?}"),
                }
            }
            assert!((1..8).contains(&acknowledged), "{id}: {acknowledged}");
        }
    }
}
