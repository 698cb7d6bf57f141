//! Limits of the writer and of DynamoDB: DynamoDB accepts the form of every update that the writer accepts, and each latest item
//! that it accepts becomes a version.

use std::{collections::HashMap, time::Duration};

use operations::{
    prune::requests::{Mark, mark_version},
    purge::Purge,
    read::history::{History, HistoryQuery},
    read::items::item_collection,
};
use serde_json::{Map, Value, json};
use shared::{
    domain::{
        AttributeValue, Item,
        entity::EntityId,
        layout,
        size::{self, MAX_ITEM_BYTES},
        version_item::VersionItem,
    },
    dynamodb::{client::error::ErrorKind, put::put_version::PutOutcome},
    logging::chain,
};
use testkit::{
    database::{self, Database, entity},
    updates::{MAX_ATTRIBUTES, MODES, WriteOutcome, parse, version},
    world::World,
};

fn text(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

/// Returns the latest item of the entity `E`.
async fn v0(world: &World<'_>) -> Item {
    serde_json::from_value(world.v0().await).unwrap()
}

#[tokio::test]
async fn dynamodb_accepts_what_the_writer_accepts() {
    let database = Database::start().await;
    let world = World::new(&database, "Limits", 1).await;
    let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let nested = |levels: usize, inner: &str| value(&format!("{}{inner}{}", "[".repeat(levels), "]".repeat(levels)));
    let one = |value: Value| Map::from_iter([("A".to_owned(), value)]);
    let longest = database.longest_name();
    let removed = (0..6).map(|n| (format!("{n}{}", "x".repeat(longest - 5000)), Value::Null));
    for (index, mut update) in [
        one(nested(31, "7")),
        one(nested(31, "")),
        one(nested(15, r#"{"a": {"b": [{"c": [{}]}]}}"#)),
        one(value("12345678901234567890123456789012345678")),
        one(value("-9.9999999999999999999999999999999999999e125")),
        one(value("1e-130")),
        one(value("0e999")),
        one(value(&format!("1.{}", "0".repeat(900)))),
        one(json!({"x".repeat(longest): ""})),
        Map::from_iter([("x".repeat(longest), json!(""))]),
        Map::from_iter([("RequestId".to_owned(), json!("r".repeat(1000)))]),
        (0..MAX_ATTRIBUTES).map(|n| (format!("A{n}"), json!([n]))).collect(),
        removed.collect(),
    ]
    .into_iter()
    .enumerate()
    {
        for mode in MODES {
            let id = format!("{index}{mode:?}");
            update.insert("ID".to_owned(), json!(format!("{id:x<2048}")));
            let written = world.in_mode(mode).apply(Value::Object(update.clone())).await;
            assert!(matches!(written, Ok(WriteOutcome::Written { .. })), "{id}: {written:?}");
        }
    }
}

/// Returns bytes that do not compress.
fn random(bytes: usize) -> AttributeValue {
    let mut random = fastrand::Rng::with_seed(7);
    AttributeValue::B(std::iter::repeat_with(|| random.u8(..)).take(bytes).collect())
}

/// Returns latest items with attributes at the limits, by name.
fn at_the_limits(latest: u64) -> Vec<(&'static str, Item)> {
    let of = |name: &str, value| HashMap::from([(name.to_owned(), value)]);
    let deep = (1..32).fold(text("deep ".repeat(30_000)), |inner, level| match level % 2 {
        0 => AttributeValue::L(vec![inner]),
        _ => AttributeValue::M(of("\"", inner)),
    });
    let mut named = of("ImageDeflate", random(10));
    named.insert("Parts".to_owned(), AttributeValue::N("2".to_owned()));
    let many = (0..541).map(|number| (format!("A{number}"), text("a".repeat(700))));
    let all = [
        ("Many", many.collect()),
        ("Deep", of("A", deep)),
        ("Empty", HashMap::new()),
        ("Named", named),
    ];
    let with_keys = |(name, mut attributes): (_, HashMap<String, AttributeValue>)| {
        attributes.insert("Latest".to_owned(), AttributeValue::N(latest.to_string()));
        attributes.extend([("PK", "E"), ("SK", "v0")].map(|(name, key)| (name.to_owned(), text(key))));
        (name, Item::from(attributes))
    };
    all.map(with_keys).into()
}

/// Returns a value of this many bytes, or a smaller one.
type Filler = fn(usize) -> AttributeValue;

/// Puts the largest latest item with these attributes that the engine accepts, filled with a value, as another program does.
async fn put_largest(world: &World<'_>, mut item: Item, filler: Filler) {
    let rest = MAX_ITEM_BYTES - size::of_item(&item) - "Z".len();
    // The engines count some values differently.
    for less in 0..2000 {
        item.insert("Z".to_owned(), filler(rest - less));
        let put = world.database.client.put_item().table_name(world.store.latest_table());
        if put.set_item(Some(item.clone().into())).send().await.is_ok() {
            return;
        }
    }
    panic!("no size is accepted");
}

#[tokio::test]
async fn every_latest_item_becomes_a_version() {
    let database = Database::start().await;
    let fillers: [(&str, Filler); 3] = [
        ("Random", random),
        ("Text", |bytes| text("z".repeat(bytes))),
        ("Small", |_| text("")),
    ];
    for digits in [1, 20] {
        for (name, item) in at_the_limits(9) {
            for (filled, filler) in fillers {
                // All but these compress to an item.
                let has_parts = filled == "Random" && ["Empty", "Named"].contains(&name);
                // Both widths store items alike, and read them differently.
                if digits > 1 && !has_parts {
                    continue;
                }
                let world = World::new(&database, &format!("{name}{filled}{digits}"), digits).await;
                let (store, entity, nine) = (&world.store, world.entity(), version(9));
                put_largest(&world, item.clone(), filler).await;
                let image = v0(&world).await;
                let of_image = |image: Item| VersionItem::from_image(image, store.digits()).unwrap();
                let stored = of_image(image.clone()).with_stream_time(Some(1_795_328_688_000_000));
                for expected in [PutOutcome::Recorded, PutOutcome::AlreadyRecorded] {
                    assert_eq!(store.put_version(&stored).await.unwrap(), expected, "{}", world.table);
                }
                let mut other = image;
                other.insert("Z".to_owned(), text("other"));
                let other = store.put_version(&of_image(other)).await;
                assert_eq!(other.unwrap(), PutOutcome::Conflict, "{}", world.table);
                check_reads(&world, &entity, stored.item()).await;
                check_marks(&world, &entity, has_parts).await;
                // Expired, and not deleted yet: a record that is delivered again is compared with the whole version.
                let an_hour_ago = store.clock().now().saturating_sub(Duration::from_secs(3600));
                let marked = mark_version(store, &entity, nine, Mark::Expires(an_hour_ago)).await;
                assert_eq!(marked, Ok(true), "{}", world.table);
                let again = store.put_version(&stored).await.unwrap();
                assert_eq!(again, PutOutcome::AlreadyRecorded, "{}", world.table);
                let purged = Purge::new(store, entity.clone()).run(Duration::ZERO, |_| {}).await;
                purged.unwrap();
                assert!(!history(&world).await.iter().any(|item| item["PK"]["S"] == "E"));
            }
        }
    }
}

async fn history(world: &World<'_>) -> Vec<Value> {
    database::items(&world.database.client, world.store.history_table()).await
}

async fn check_reads(world: &World<'_>, entity: &EntityId, expected: &Item) {
    let (store, name) = (&world.store, &world.table);
    let keys: Vec<_> = store.digits().version_keys([9]).into_iter().collect();
    let read = store.get(entity, &keys[0], true).await;
    assert!(read.unwrap().unwrap() == *expected, "{name}");
    let batch = store.batch_get(entity, &keys, false).await;
    assert!(batch.unwrap() == [expected.clone()], "{name}");
    let query = HistoryQuery {
        consistent: true,
        ..HistoryQuery::default()
    };
    let history = History::read(store, entity, query).await.unwrap().unwrap();
    let history = history.collect().await.unwrap();
    let [view] = &history[..] else {
        panic!("{name} has {} versions", history.len())
    };
    assert_eq!(view.version, version(9));
    assert!(
        view.attributes["Z"] == expected["Z"] && view.recorded_by_stream,
        "{name}"
    );
    let collection = item_collection(store, entity, true, |_| {}).await.unwrap();
    let mut flat = collection.items.iter().map(|item| &item.attributes);
    assert!(
        flat.any(|item| item.contains_key("RecordedBy") && item.get("Z") == expected.get("Z")),
        "{name}"
    );
}

/// A version expires with all of its items, or with none.
async fn check_marks(world: &World<'_>, entity: &EntityId, has_parts: bool) {
    let (store, nine) = (&world.store, version(9));
    let marked = async || {
        let items = history(world).await.into_iter();
        let is_version = |item: &Value| layout::is_history(item["SK"]["S"].as_str().unwrap(), store.digits());
        let versions = items.filter(|item| item["PK"]["S"] == "E" && is_version(item));
        versions.map(|item| item.get("TTL").is_some()).collect::<Vec<_>>()
    };
    let count = if has_parts { 2 } else { 1 };
    assert_eq!(marked().await, vec![false; count], "{}", world.table);
    let now = store.clock().now();
    let expires = now + Duration::from_secs(3600);
    for (is_pinned, expected) in [(false, true), (true, false), (false, false)] {
        let mark = match is_pinned {
            true => Mark::Pinned { now },
            false => Mark::Expires(expires),
        };
        let done = mark_version(store, entity, nine, mark).await;
        assert_eq!(done.unwrap(), is_pinned || expected, "{}", world.table);
        assert_eq!(marked().await, vec![expected; count], "{}", world.table);
    }
    assert!(mark_version(store, entity, nine, Mark::Unpinned).await.unwrap());
}

/// Write modes that put the version themselves acknowledge no update that cannot be recorded.
#[tokio::test]
async fn every_acknowledged_update_of_a_large_item_is_recorded() {
    let database = Database::start().await;
    for mode in MODES {
        for (name, mut item) in at_the_limits(1) {
            let world = World::new(&database, &format!("{name}{mode:?}"), 1).await.in_mode(mode);
            // The update adds its record to the item.
            let room = MAX_ITEM_BYTES - size::of_item(&item) - 700;
            item.insert("Z".to_owned(), random(room));
            world.put(serde_json::to_value(&item).unwrap()).await;
            world.put_version().await;
            let mut acknowledged = 0;
            for number in 0..4 {
                let filler = "f".repeat(300 * number);
                let update = json!({"ID": "E", "State": number, "Filler": filler});
                match world.record(&parse(update, &format!("{name}{number}"))).await {
                    Ok(WriteOutcome::Written { version }) => {
                        acknowledged += 1;
                        let key = world.store.digits().version_key(version);
                        let recorded = world.store.get(&entity("E"), &key, true).await;
                        assert!(recorded.unwrap().unwrap()["Filler"] == text(filler), "{}", world.table);
                    }
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Rejected, "{}: {}", world.table, chain(&error)),
                    other => panic!("{}: {other:?}", world.table),
                }
            }
            assert!((1..4).contains(&acknowledged), "{}: {acknowledged}", world.table);
        }
    }
}
