//! A snapshot of every request, as it goes over the wire.

use aws_sdk_dynamodb::Client;
use serde_json::{Value, json};
use testkit::replay::Replay;

use crate::{
    clock::Clock,
    domain::{
        Item,
        decision::apply,
        entity::EntityId,
        keys::VersionDigits,
        recent_requests::Window,
        recorded_at::RecordedAt,
        stamp::Stamp,
        time::EpochMillis,
        update::{Change, Ordering, Update},
        version::Version,
        version_item::VersionItem,
    },
    dynamodb::{
        Store,
        put::{
            insert_versions::{self, Insert},
            put_version,
        },
        read::{
            batch_get_items, describe_table, get_item,
            history_owner::{self, Owner},
            query_items, scan_items, sort_keys,
            table_config::{self, StoredLayout},
            table_identity::TableIdentity,
        },
        write::{
            earlier_delivery::Guard,
            ended_state,
            form::{self, Form},
            lifetime::Lifetime,
            metadata,
            modes::{WriteMode, WriteOptions},
            order::Order,
            recent_requests::{Contention, RecentRequests},
            transaction,
        },
    },
};

mod attached;
mod own_history;
mod quarantine;

/// Sends one request through the real client, and returns its body.
async fn sent<T>(send: impl AsyncFnOnce(Client) -> T) -> Value {
    let replay = Replay::new([json!({})]);
    let _ = send(replay.client()).await;
    let (operation, mut body) = replay.requests().remove(0);
    // The SDK sends the members of a map in any order.
    body.sort_all_objects();
    json!({ format!("DynamoDB_20120810.{operation}"): body })
}

fn now() -> RecordedAt {
    RecordedAt::parse("2026-11-22T06:24:48.123456Z").unwrap()
}

/// Returns the form of an update that is sent for the first time.
fn form(recent_requests: RecentRequests) -> Form {
    Form {
        recent_requests,
        stamp: Stamp::At(now()),
        guard: Guard::default(),
        lifetime: Lifetime::assumed(),
        order: Order::ByTimestamp,
    }
}

async fn updated(update: &Update, form: &Form) -> Value {
    let request = form::request(update, form, "Table");
    sent(async |client| request.send_with(&client).await).await
}

async fn written(json: Value, ordering: Ordering) -> Value {
    let update = Update::parse(json, "request-1", ordering).unwrap();
    let form = form(RecentRequests::assumed(&update, Window::default(), now()));
    updated(&update, &form).await
}

#[tokio::test]
async fn write_version() {
    let update = json!({
        "ID": "Equipment#1", "Time": "2020-11-01T20:04:00", "State": "WARNING1",
        "Speed": 1.50, "On": true, "Tags": ["a", {"b": null}], "Note": null,
    });
    insta::assert_json_snapshot!("write_version", written(update.clone(), Ordering::Arrival).await);
    insta::assert_json_snapshot!("write_version_by_time", written(update, Ordering::Time).await);
    let nested = json!({
        "ID": "Equipment#1", "State": "OK",
        "Address": {"$update": {"City": "Bonn", "Zip": null, "a.b": 1, "Geo": {"$update": {"Lat": 50.7}}}},
    });
    insta::assert_json_snapshot!("write_version_nested", written(nested, Ordering::Arrival).await);
    let tombstone = json!({"ID": "Equipment#1", "RequestId": "r-7", "Deleted": true, "ExpectedVersion": 6});
    insta::assert_json_snapshot!("write_version_tombstone", written(tombstone, Ordering::Arrival).await);
    let author = json!({"ID": "Equipment#1", "Actor": "amy", "Reason": "test", "Timestamp": 5});
    insta::assert_json_snapshot!("write_version_author", written(author, Ordering::Arrival).await);
    let first = json!({"ID": "Equipment#1", "ExpectedVersion": 0});
    insta::assert_json_snapshot!("write_version_first", written(first, Ordering::Arrival).await);
}

#[tokio::test]
async fn put_version() {
    let image = json!({
        "PK": {"S": "Equipment#1"}, "SK": {"S": "v0"}, "Latest": {"N": "7"}, "RequestId": {"S": "r-7"},
        "B": {"B": "Zm9v"}, "NS": {"NS": ["1", "2.5"]}, "NULL": {"NULL": true}, "M": {"M": {"a": {"L": []}}},
    });
    let version = VersionItem::from_image(serde_json::from_value(image).unwrap(), VersionDigits::default()).unwrap();
    let body = sent(async |client| put_version::request(version.item(), "Table").send_with(&client).await).await;
    insta::assert_json_snapshot!("put_version", body);
}

#[tokio::test]
async fn put_versions() {
    let image = |entity: &str, latest: u32| {
        let image = json!({
            "PK": {"S": entity}, "SK": {"S": "v0"}, "Latest": {"N": latest.to_string()}, "RequestId": {"S": "r-7"},
            "it's": {"B": "Zm9v"}, "NS": {"NS": ["1", "2.5"]}, "NULL": {"NULL": true}, "M": {"M": {"a": {"L": []}}},
        });
        VersionItem::from_image(serde_json::from_value(image).unwrap(), VersionDigits::default()).unwrap()
    };
    let versions = [image("Equipment#1", 7), image("Equipment#2", 10)];
    let inserts = versions
        .each_ref()
        .map(|version| Insert::new(version.item(), "Table").unwrap());
    let request = insert_versions::request(&inserts.each_ref()).unwrap();
    let body = sent(async |client| request.send_with(&client).await).await;
    insta::assert_json_snapshot!("put_versions", body);
}

#[tokio::test]
async fn scan_items() {
    let body = sent(async |client| scan_items::request("Table", None).send_with(&client).await).await;
    insta::assert_json_snapshot!("scan_items", body);
    let body = sent(async |client| Store::new(client, "Table", VersionDigits::default()).scan_items().await).await;
    insta::assert_json_snapshot!("scan_items", body);
}

fn item(json: Value) -> Item {
    serde_json::from_value(json).unwrap()
}

fn equipment() -> EntityId {
    EntityId::new("Equipment#1").unwrap()
}

#[tokio::test]
async fn forms_of_an_update() {
    let json = json!({"ID": "Equipment#1", "State": "OK"});
    let mut update = Update::parse(json, "request-1", Ordering::Arrival).unwrap();
    let window = Window::new(3).unwrap();
    let with_requests = |count: u32| {
        let requests = (1..=count).map(|number| {
            (
                format!("hash-{number}"),
                json!({"N": format!("{number}.000018688{number}")}),
            )
        });
        let requests = Value::Object(requests.collect());
        item(json!({
            "Latest": {"N": count.to_string()}, "RecentRequests": {"M": requests}, "RequestsSince": {"N": "5"},
            "RequestsDropped": {"N": "3"},
        }))
    };
    let none = item(json!({"Latest": {"N": "6"}, "RequestId": {"S": "request-0"}}));
    for (name, stored) in [
        ("recent_requests_create", None),
        ("recent_requests_create_with_last", Some(&none)),
        ("recent_requests_add", Some(&with_requests(10))),
        ("recent_requests_replace", Some(&with_requests(11))),
    ] {
        let form = form(RecentRequests::fitting(&update, window, now(), stored, Contention::None).unwrap());
        insta::assert_json_snapshot!(name, updated(&update, &form).await);
    }
    let recent_requests = RecentRequests::assumed(&update, window, now());
    let tick = Form {
        stamp: Stamp::Tick { from: now() },
        ..form(recent_requests.clone())
    };
    insta::assert_json_snapshot!("write_version_tick", updated(&update, &tick).await);
    let late = Guard {
        sent: Some(EpochMillis::new(7)),
        ..Guard::default()
    };
    let read = Guard {
        base: Version::new(6),
        ..late
    };
    for (name, guard) in [("guard_sent", late), ("guard_base", read)] {
        let guarded = Form {
            guard,
            ..form(recent_requests.clone())
        };
        insta::assert_json_snapshot!(name, updated(&update, &guarded).await);
    }
    let by_time = item(json!({"Latest": {"N": "6"}, "Time": {"S": "2020-11-01T20:04:00"}}));
    let json = json!({"ID": "Equipment#1", "Time": "2020-11-01T20:05:00"});
    let timed = Update::parse(json, "request-1", Ordering::Time).unwrap();
    let after_time = Form {
        order: Order::fitting(Some(&by_time)),
        ..form(RecentRequests::assumed(&timed, window, now()))
    };
    insta::assert_json_snapshot!("write_version_after_time", updated(&timed, &after_time).await);
    update.sender = Some("app via AIDA".to_owned());
    update.restored_from = Some(Version::FIRST);
    insta::assert_json_snapshot!("write_version_restore", updated(&update, &form(recent_requests)).await);
    // What the functions send first.
    update.sender = None;
    update.restored_from = None;
    let clock = Clock::new(|| std::time::Duration::from_secs(1_795_328_688));
    let store = |client| Store::new(client, "Table", VersionDigits::default()).with_clock(clock.clone());
    for (name, mode) in [("write_stream", WriteMode::Stream), ("write_inline", WriteMode::Inline)] {
        let options = WriteOptions {
            mode,
            ..WriteOptions::default()
        };
        insta::assert_json_snapshot!(
            name,
            sent(async |client| store(client).write(&update, options).await).await
        );
    }
}

#[tokio::test]
async fn forms_before_and_after_a_deletion() {
    let json = json!({"ID": "Equipment#1", "State": "OK"});
    let update = Update::parse(json, "request-1", Ordering::Arrival).unwrap();
    let window = Window::new(3).unwrap();
    let recent_requests = RecentRequests::assumed(&update, window, now());
    let tombstone = item(json!({
        "PK": {"S": "Equipment#1"}, "SK": {"S": "v0"}, "Latest": {"N": "6"}, "Deleted": {"BOOL": true}, "Note": {"S": "n"},
        "RecordedVersion": {"N": "6"}, "Actor": {"S": "amy"}, "TombstoneState": {"M": {"Why": {"S": "sold"}}},
    }));
    let after_deletion = Form {
        lifetime: Lifetime::fitting(&update, Some(&tombstone)),
        ..form(recent_requests)
    };
    insta::assert_json_snapshot!("write_version_after_deletion", updated(&update, &after_deletion).await);
    let live = item(json!({
        "PK": {"S": "Equipment#1"}, "SK": {"S": "v0"}, "Latest": {"N": "6"}, "State": {"S": "OK"}, "Note": {"S": "n"},
    }));
    let json = json!({"ID": "Equipment#1", "Deleted": true, "Actor": "amy", "Why": "sold", "Note": null});
    let deletion = Update::parse(json, "request-1", Ordering::Arrival).unwrap();
    let deleting = Form {
        lifetime: Lifetime::fitting(&deletion, Some(&live)),
        ..form(RecentRequests::assumed(&deletion, window, now()))
    };
    insta::assert_json_snapshot!("write_version_deletion", updated(&deletion, &deleting).await);
    let ended = ["Note".to_owned(), "State".to_owned()];
    let removal = ended_state::request(&deletion.entity, Version::new(7).unwrap(), &ended, "Table");
    insta::assert_json_snapshot!(
        "remove_ended_state",
        sent(async |client| removal.send_with(&client).await).await
    );
}

#[tokio::test]
async fn write_transaction() {
    let digits = VersionDigits::default();
    let json = json!({"ID": "Equipment#1", "State": "OK", "Note": null, "ExpectedVersion": 6, "Timestamp": 5});
    let update = Update::parse(json, "request-1", Ordering::Time).unwrap();
    let stored = item(json!({"PK": {"S": "Equipment#1"}, "SK": {"S": "v0"}, "Latest": {"N": "6"}, "Note": {"S": "n"}}));
    let uncounted = item(json!({"PK": {"S": "Equipment#1"}, "SK": {"S": "v0"}, "Note": {"S": "n"}}));
    for (name, stored, ledger, with_version) in [
        ("write_transaction", Some(&stored), None, true),
        ("write_transaction_first", None, None, true),
        ("write_transaction_uncounted", Some(&uncounted), None, true),
        ("write_ledger", Some(&stored), Some(1_700_000_000), false),
        ("write_transaction_ledger", Some(&stored), Some(1_700_000_000), true),
    ] {
        let image = apply(&update, stored, &Stamp::At(now())).unwrap();
        let version = VersionItem::from_image(image, digits).unwrap();
        let parts = transaction::Parts {
            form: form(match ledger {
                Some(_) => RecentRequests::in_marker(&update, now(), stored),
                None => RecentRequests::fitting(&update, Window::default(), now(), stored, Contention::None).unwrap(),
            }),
            is_absent: stored.is_none(),
            marker_expires: ledger,
            version_items: with_version.then(|| version.item().clone()).into_iter().collect(),
        };
        let request = transaction::request(&update, version.version(), &parts, "Table", "Table").unwrap();
        let mut body = sent(async |client| request.send_with(&client).await).await;
        // The SDK makes up a token for each.
        body["DynamoDB_20120810.TransactWriteItems"]["ClientRequestToken"] = json!("token");
        insta::assert_json_snapshot!(name, body);
    }
}

#[tokio::test]
async fn write_transaction_nested() {
    let json = json!({"ID": "Equipment#1", "Address": {"$update": {"City": "Bonn", "Zip": null}}});
    let update = Update::parse(json, "request-1", Ordering::Arrival).unwrap();
    let address = json!({"M": {"City": {"S": "Ulm"}, "Zip": {"N": "1"}, "Street": {"S": "s"}}});
    let stored = item(json!({"PK": {"S": "Equipment#1"}, "SK": {"S": "v0"}, "Latest": {"N": "6"}, "Address": address}));
    let image = apply(&update, Some(&stored), &Stamp::At(now())).unwrap();
    let version = VersionItem::from_image(image, VersionDigits::default()).unwrap();
    let parts = transaction::Parts {
        form: form(
            RecentRequests::fitting(&update, Window::default(), now(), Some(&stored), Contention::None).unwrap(),
        ),
        is_absent: false,
        marker_expires: None,
        version_items: vec![version.item().clone()],
    };
    let request = transaction::request(&update, version.version(), &parts, "Table", "Table").unwrap();
    let mut body = sent(async |client| request.send_with(&client).await).await;
    body["DynamoDB_20120810.TransactWriteItems"]["ClientRequestToken"] = json!("token");
    insta::assert_json_snapshot!("write_transaction_nested", body);
}

#[tokio::test]
async fn reads() {
    let get = get_item::request(equipment().as_str(), "v0", true, "Table");
    insta::assert_json_snapshot!("get_item", sent(async |client| get.send_with(&client).await).await);
    let store = |client| Store::new(client, "Table", VersionDigits::default());
    let keys = ["v1".to_owned(), "v2".to_owned()];
    let body = sent(async |client| store(client).batch_get(&equipment(), &keys, false).await).await;
    insta::assert_json_snapshot!("batch_get_items", body);
    let body = sent(async |client| store(client).newest_in_history(&equipment(), true).await).await;
    insta::assert_json_snapshot!("newest_in_history", body);
    let body = sent(async |client| store(client).has_history(&equipment(), true).await).await;
    insta::assert_json_snapshot!("has_history", body);
    let read = async |client| store(client).purge_markers([&equipment(), &equipment()]).await;
    insta::assert_json_snapshot!("purge_markers", sent(read).await);
    let keys = sort_keys::request(&equipment(), None, "Table");
    insta::assert_json_snapshot!("purge_keys", sent(async |client| keys.send_with(&client).await).await);
    let describe = describe_table::request("Table");
    insta::assert_json_snapshot!(
        "describe_table",
        sent(async |client| describe.send_with(&client).await).await
    );
    let body = sent(async |client| store(client).latest_versions(&[equipment()], false).await).await;
    insta::assert_json_snapshot!("latest_versions", body);
    assert_eq!(batch_get_items::MAX_KEYS, 100);
    let range = query_items::Range {
        from: "v01".to_owned(),
        to: "v99".to_owned(),
        reversed: true,
        limit: Some(7),
        consistent: true,
    };
    let query = query_items::request(&equipment(), &range, None, "Table");
    insta::assert_json_snapshot!("query_items", sent(async |client| query.send_with(&client).await).await);
}

#[tokio::test]
async fn tables_and_metadata() {
    let digits = VersionDigits::default();
    let table = |id: &str| TableIdentity {
        id: id.to_owned(),
        name: "Table".to_owned(),
    };
    let layout = |history: Option<&str>| StoredLayout {
        digits,
        history: history.map(str::to_owned),
        table: Some(table("a-table-id")),
    };
    let (mut original, mut incomplete) = (layout(Some("History")), layout(None));
    original.table = Some(table("an-earlier-id"));
    incomplete.table = None;
    let (same, own) = (layout(None), layout(Some("History")));
    let requests = [
        ("table_config", table_config::request(&same, None, "Table")),
        (
            "table_config_own_history",
            table_config::request(&own, Some(&same), "Table"),
        ),
        (
            "table_config_adopted",
            table_config::request(&layout(Some("Copy")), Some(&original), "Table"),
        ),
        (
            "table_config_completed",
            table_config::request(&same, Some(&incomplete), "Table"),
        ),
    ];
    for (name, request) in requests {
        insta::assert_json_snapshot!(name, sent(async |client| request.send_with(&client).await).await);
    }
    let owner = |id: &str| Owner {
        table: table(id),
        history_id: "a-history-id".to_owned(),
    };
    let puts = [
        (
            "history_owner",
            history_owner::put_request(&owner("a-table-id"), None, "History"),
        ),
        (
            "history_owner_adopted",
            history_owner::put_request(&owner("a-table-id"), Some(&owner("an-earlier-id")), "History"),
        ),
    ];
    for (name, request) in puts {
        insta::assert_json_snapshot!(name, sent(async |client| request.send_with(&client).await).await);
    }
    let left = history_owner::delete_request(&table("a-table-id"), "History");
    insta::assert_json_snapshot!(
        "history_owner_left",
        sent(async |client| left.send_with(&client).await).await
    );
    let name = crate::domain::AttributeValue::S("Equipment-001".to_owned());
    let changes = [
        ("Name".to_owned(), Change::Set(name)),
        ("LineID".to_owned(), Change::Remove),
    ]
    .into();
    let metadata = metadata::request(&equipment(), &changes, "Table");
    insta::assert_json_snapshot!(
        "update_metadata",
        sent(async |client| metadata.send_with(&client).await).await
    );
}
