//! A snapshot of every request, as it goes over the wire.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use serde_json::{Value, json};
use testkit::replay::{Replay, sent, sent_after};

use crate::{
    clock::{Clock, Deadline},
    domain::{
        Item,
        attached::{
            AttachedTable,
            change::Place,
            definition::KeyType,
            item::{Around, State, StateOrigin},
            key,
        },
        compression::Compression,
        entity::EntityId,
        keys::VersionDigits,
        layout,
        quarantine::QuarantinedRecord,
        recorded_at::RecordedAt,
        sequence::SequenceNumber,
        test_values::{item, nested, orders, version, version_item},
        version::Version,
    },
    dynamodb::{
        Store,
        put::{
            append::Append,
            insert_versions::{self, Insert},
        },
        read::{
            batch_get_items, describe_table, query_items, scan_items, table_config::Layout,
            table_identity::TableIdentity, tail,
        },
        write::Write,
    },
};

/// Compares what a future sends with a snapshot.
macro_rules! check {
    ($name:expr, |$client:ident| $send:expr) => {
        insta::assert_json_snapshot!($name, sent(async |$client: Client| $send.await).await)
    };
    ($name:expr, $request:expr) => {
        let request = $request;
        check!($name, |client| request.send_with(&client));
    };
}

async fn check_inserts(name: &str, items: &[Item], table: &str) {
    let inserts: Vec<_> = items.iter().map(|item| Insert::new(item, table).unwrap()).collect();
    check!(
        name,
        insert_versions::request(&inserts.iter().collect::<Vec<_>>()).unwrap()
    );
}

fn store(client: Client) -> Store {
    Store::new(client, "Table", VersionDigits::default())
}

fn equipment() -> EntityId {
    EntityId::new("Equipment#1").unwrap()
}

#[tokio::test]
async fn puts() {
    let image = |mut image: Value| {
        (image["SK"], image["RequestId"]) = (json!({"S": "v0"}), json!({"S": "r-7"}));
        (image["NULL"], image["M"]) = (json!({"NULL": true}), json!({"M": {"a": {"L": []}}}));
        image["NS"] = json!({"NS": ["1", "2.5"]});
        version_item(image).item().clone()
    };
    let version = image(json!({"PK": {"S": "Equipment#1"}, "Latest": {"N": "7"}, "B": {"B": "Zm9v"}}));
    check!("put_version", |client| Write::insert("Table", version).send(&client));
    let versions = [("Equipment#1", "7"), ("Equipment#2", "10")];
    let versions =
        versions.map(|(id, latest)| image(json!({"PK": {"S": id}, "Latest": {"N": latest}, "it's": {"B": "Zm9v"}})));
    check_inserts("put_versions", &versions, "Table").await;
}

#[tokio::test]
async fn reads() {
    let (entity, keys) = (equipment(), ["v1", "v2"].map(str::to_owned));
    check!("get_item", |client| store(client).get(&entity, "v0", true));
    check!("batch_get_items", |client| store(client)
        .batch_get(&entity, &keys, false));
    check!("newest_in_history", |client| store(client)
        .newest_in_history(&entity, true));
    check!("has_history", |client| store(client).has_history(&entity, true));
    check!("purge_markers", |client| store(client)
        .removed([&entity, &entity], false));
    check!("describe_table", describe_table::request("Table"));
    let entities = [equipment()];
    check!("latest_versions", |client| store(client)
        .latest_versions(&entities, false));
    assert_eq!(batch_get_items::MAX_KEYS, 100);
    let range = query_items::Range {
        from: "v01".to_owned(),
        to: "v99".to_owned(),
        reversed: true,
        limit: Some(7),
        consistent: true,
    };
    check!("query_items", query_items::request(&entity, &range, None, "Table"));
    check!("scan_items", scan_items::request("Table", None));
}

#[tokio::test]
async fn tables() {
    let layout = |history: Option<&str>, id: Option<&str>| Layout {
        digits: VersionDigits::default(),
        history: history.map(str::to_owned),
        table: id.map(|id| TableIdentity {
            id: id.to_owned(),
            name: "Table".to_owned(),
        }),
    };
    let id = Some("a-table-id");
    let (same, own, copy) = (layout(None, id), layout(Some("History"), id), layout(Some("Copy"), id));
    for (name, layout, read) in [
        ("table_config", &same, None),
        ("table_config_own_history", &own, Some(&same)),
        (
            "table_config_adopted",
            &copy,
            Some(&layout(Some("History"), Some("an-earlier-id"))),
        ),
        ("table_config_completed", &same, Some(&layout(None, None))),
    ] {
        check!(name, |client| store(client).store_layout(layout, read));
    }
}

#[tokio::test]
async fn own_history() {
    // The second one is nested as deeply as DynamoDB allows.
    let versions = [
        ("v1", "it's \"quoted\"", json!({"N": "1.50"})),
        ("v2", "Deep", nested(32)),
    ];
    let stored = versions.map(|(sk, name, value)| {
        let mut version = json!({"PK": {"S": "Equipment#1"}, "SK": {"S": sk}, "TTL": {"N": "1"}});
        version[name] = value;
        layout::stored(&item(version), Compression::None).remove(0)
    });
    check_inserts("insert_into_history", &stored, "History").await;
    let version = item(json!({
        "PK": {"S": "Equipment#1"}, "SK": {"S": "v1"}, "TTL": {"N": "1"}, "RequestId": {"S": "r-1"}, "Actor": {"S": "alice"},
        "RecordedAt": {"S": "2026-11-22T06:24:48.123456000Z"}, "Reason": {"S": "a test"}, "Deleted": {"BOOL": true},
        "Text": {"S": "ab".repeat(1000)},
    }));
    let stored = layout::stored(&version, Compression::Deflate);
    check_inserts("insert_compressed_into_history", &stored, "History").await;
}

/// A put beside the latest items, a statement into a history table, and the time since which the index exists.
#[tokio::test]
async fn time_index() {
    let now = RecordedAt::parse("2026-11-26T13:20:52.123Z").unwrap().to_duration();
    let indexed = |client| {
        store(client)
            .with_time_index(Some(true))
            .with_clock(Clock::new(move || now))
    };
    let own_history = |client| indexed(client).with_history(Some("History".to_owned()));
    let image = |latest: &str| json!({"PK": {"S": "Equipment#1"}, "Latest": {"N": latest}, "A": {"S": "a"}});
    let version = version_item(image("7"));
    check!("time_index_put", |client| indexed(client).put_version(&version));
    let mut image = image("8");
    (image["RecordedAt"], image["RecordedVersion"]) =
        (json!({"S": "2026-11-26T13:20:51.004512003Z"}), json!({"N": "8"}));
    let versions = [&version, &version_item(image)];
    let deadline = Deadline::after(Duration::from_secs(60));
    check!("time_index_statements", |client| own_history(client)
        .put_versions(&versions, deadline));
    for (name, since, stored) in [
        ("time_index_since", Some("2026-11-26T13:20:52Z"), json!({})),
        (
            "time_index_removed",
            None,
            json!({"Item": {"TimeIndexSince": {"S": "2026-11-26T13:20:52Z"}}}),
        ),
    ] {
        let update = sent_after(std::slice::from_ref(&stored), async |client| {
            Store::attached(client, attached()).store_time_index_since(since).await
        });
        insta::assert_json_snapshot!(name, update.await);
    }
    // Nothing is written that is there already.
    for (since, stored) in [
        (None, json!({})),
        (Some("x"), json!({"Item": {"TimeIndexSince": {"S": "y"}}})),
    ] {
        let replay = Replay::new([stored]);
        own_history(replay.client())
            .store_time_index_since(since)
            .await
            .unwrap();
        assert_eq!(replay.operations(), ["GetItem"]);
    }
    // The table is asked once.
    for (indexes, expected) in [
        (json!([{"IndexName": "TimeIndex"}]), true),
        (json!([{"IndexName": "Other"}]), false),
    ] {
        let replay = Replay::new([json!({"Table": {"GlobalSecondaryIndexes": indexes}})]);
        let store = own_history(replay.client()).with_time_index(None);
        for _ in 0..2 {
            assert_eq!(store.has_time_index().await, Ok(expected));
        }
        assert_eq!(replay.bodies(), [json!({"TableName": "History"})]);
    }
}

#[tokio::test]
async fn quarantined_records() {
    let record = QuarantinedRecord {
        entity: equipment(),
        number: SequenceNumber::new("42").unwrap(),
        kind: "Malformed".to_owned(),
        reason: "a reason".to_owned(),
        version: None,
        at: None,
        record: "{}".to_owned(),
    };
    let own_history = |client| store(client).with_history(Some("History".to_owned()));
    check!("insert_into_quarantine", |client| own_history(client)
        .quarantine(&record));
    let record = QuarantinedRecord {
        number: SequenceNumber::new("300000000000000000042").unwrap(),
        kind: "Conflict".to_owned(),
        reason: "a different item is stored as this version".to_owned(),
        version: Version::new(7),
        at: RecordedAt::parse("2026-11-22T06:24:48.123456Z").ok(),
        record: r#"{"eventName":"MODIFY"}"#.to_owned(),
        ..record
    };
    check!("quarantine", |client| store(client).quarantine(&record));
}

fn attached() -> AttachedTable {
    orders(&[("id", KeyType::S), ("no", KeyType::N)])
}

#[tokio::test]
async fn attached_reads() {
    check!("attached_definition", |client| Store::attached(client, attached())
        .put_definition());
    let entity = key::parse(&attached(), r#"{"id": "a", "no": 7}"#).unwrap();
    for (name, below, consistent) in [
        ("attached_tail", None, false),
        ("attached_tail_next", Version::new(12), true),
    ] {
        check!(name, tail::request(&entity, below, consistent, "Orders-history"));
    }
}

/// One version with attribute names that need quotes, or are reserved, and one that is nested too deeply for a map; and a late version
/// and its late entry, which are one transaction.
#[tokio::test]
async fn attached_inserts() {
    let at = RecordedAt::of_stream_record(1_795_328_688_000_000, Version::FIRST);
    let append = |number, image: Value, around| {
        let state = State {
            place: Place::parse("2026-11-22T06:24:48.123", "300000000000000000042").unwrap(),
            recorded_at: Some(at),
            image: item(image.clone()),
            is_deleted: false,
            changed_by: Vec::new(),
            origin: match around {
                Some(_) => StateOrigin::Late,
                None => StateOrigin::Record,
            },
            around,
            omission: None,
            erased: crate::domain::erased::Erased::default(),
        };
        let entity = key::of_item(&attached(), &item(image)).unwrap();
        Append::new(&attached(), &entity, version(number), &state, Compression::None).unwrap()
    };
    let deep = [("7", nested(31)), ("8", nested(32))].map(|(no, deep)| {
        let image = json!({
            "id": {"S": "a"}, "no": {"N": no}, "rev": {"N": "3"}, "it's \"quoted\"": {"S": "x"},
            "PK": {"S": "user"}, "TTL": {"N": "1"}, "deep": deep,
        });
        append(1, image, None)
    });
    let around = Around {
        after: Some(Version::FIRST),
        in_order: version(2),
        in_order_at: Some(at),
    };
    let late = append(3, json!({"id": {"S": "a"}, "no": {"N": "7"}}), Some(around));
    let deadline = Deadline::after(Duration::from_secs(60));
    let now = RecordedAt::parse("2026-11-22T06:24:50Z").unwrap().to_duration();
    for (name, appends, is_indexed) in [
        ("attached_insert", &deep[..], false),
        ("attached_insert_late", std::slice::from_ref(&late), false),
        ("attached_insert_indexed", std::slice::from_ref(&late), true),
    ] {
        let store = |client| {
            let store = Store::attached(client, attached()).with_time_index(Some(is_indexed));
            store.with_clock(Clock::new(move || now))
        };
        check!(name, |client| store(client).append_versions(appends, deadline));
    }
}
