//! Limits of the writer and of DynamoDB: DynamoDB accepts the form of every update that the writer accepts, and the version
//! item of the largest latest item fits.

use aws_sdk_dynamodb::types::ScalarAttributeType;
use local::soak::edge;
use serde_json::{Map, Value, json};
use shared::{
    domain::{
        ledger::Retention,
        size::MAX_ITEM_BYTES,
        update::{MAX_ATTRIBUTES, Ordering, Update},
    },
    dynamodb::{
        client::error::ErrorKind,
        write::{Idempotency, WriteMode, WriteOptions, WriteOutcome},
    },
    logging::chain,
};

use testkit::database::{Database, entity};

const MODES: [WriteMode; 3] = [WriteMode::Stream, WriteMode::Inline, WriteMode::Transaction];

#[tokio::test]
async fn the_largest_latest_item_has_a_version_item_that_fits() {
    let database = Database::start().await;
    for digits in [1, 20] {
        let table = format!("Edge{digits}");
        let store = database.store(&table, digits).await;
        for idempotency in [Idempotency::default(), Idempotency::Ledger(Retention::default())] {
            for mode in MODES {
                let options = WriteOptions {
                    mode,
                    idempotency,
                    skip_unchanged: false,
                    tombstone_ttl: None,
                };
                let id = format!("{options:?}");
                let edge = edge::find(&database.client, &database.table_name(&table), &store, &id, options)
                    .await
                    .unwrap();
                // The writer rejects an update at the size limit, and not well below it.
                assert!(
                    (MAX_ITEM_BYTES - 200..=MAX_ITEM_BYTES).contains(&edge.latest),
                    "{id} {edge:?}"
                );
                assert!(edge.version <= MAX_ITEM_BYTES && edge.marked, "{id} {edge:?}");
            }
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
            let written = store.write(&update, testkit::database::mode(mode)).await;
            assert!(matches!(written, Ok(WriteOutcome::Written { .. })), "{id}: {written:?}");
        }
    }
}

#[tokio::test]
async fn an_update_that_makes_the_item_too_large_is_rejected_with_the_reason() {
    let database = Database::start().await;
    let store = database.store("Large", 1).await;
    for mode in MODES {
        let id = format!("{mode:?}");
        let write = async |name: &str| {
            let update = json!({"ID": id, name: "secret ".repeat(40_000)});
            let update = Update::parse(update, name, Ordering::Arrival).unwrap();
            store.write(&update, testkit::database::mode(mode)).await
        };
        assert!(matches!(write("A").await, Ok(WriteOutcome::Written { .. })));
        let error = write("B").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected);
        let line = chain(&error);
        let reason = match mode {
            WriteMode::Transaction => "the version item would have 560",
            _ => ": the item would be larger than 400 KB",
        };
        assert!(line.contains(reason) && !line.contains("secret"), "{line}");
        assert!(!format!("{error:?}").contains("secret"));
        let latest = store.latest(&entity(&id), true).await.unwrap().unwrap();
        assert_eq!((latest.version.get(), latest.attributes.contains_key("B")), (1, false));
    }
}

#[tokio::test]
async fn dynamodb_rejects_values_nested_deeper_than_the_parsers_limit() {
    let database = Database::start().await;
    database.table("Deep", &[("PK", ScalarAttributeType::S)]).await;
    let put = async |levels: usize| {
        let value = (0..levels).fold(json!({"N": "7"}), |value, _| json!({"L": [value]}));
        let item: shared::domain::Item = serde_json::from_value(json!({"PK": {"S": "E"}, "A": value})).unwrap();
        let request = database
            .client
            .put_item()
            .table_name(database.table_name("Deep"))
            .set_item(Some(item.into()));
        request.send().await.is_ok()
    };
    assert_eq!((put(31).await, put(32).await), (true, false));
}
