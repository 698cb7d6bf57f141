//! A snapshot of every request that only operators send, as it goes over the wire.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use serde_json::{Value, json};
use shared::{
    clock::Clock,
    domain::{
        AttributeValue, Item, attached::AttachedTable, entity::EntityId, erased, keys::VersionDigits,
        purge_marker::PurgeMarker, quarantine::QuarantinedRecord, recorded_at::RecordedAt, request_id::RequestId,
        sequence::SequenceNumber, version::Version,
    },
    dynamodb::{
        Store,
        read::{history_owner::Owner, table_identity::TableIdentity},
        s,
        write::Write,
    },
};
use testkit::replay::{Replay, sent};

use crate::{
    erase,
    hold::{self, Hold},
    item_change::{self, ItemChange},
    latest::write::{count_first, move_latest, raise_latest},
    prune::requests::{Mark, mark_version, raise_floor, raise_floor_unless_held},
    purge::requests as purges,
    quarantine::{self, delete_quarantined},
    read::{
        attached_items, histories,
        items::{self, item_collection},
        scans,
        versions_in_history::versions_in_history,
    },
    sealed::{self, Operation, Place},
    segments::scan,
    snapshot::target,
    table::{
        create::{self, enable_point_in_time_recovery, enable_ttl},
        owner,
        settings::{self, TableSettings},
    },
    tables,
    time_index::{audit, pages, source::Window},
};

/// Compares a request, or that which a store sends, with its snapshot.
macro_rules! snapshot {
    ($name:expr, |$store:ident| $sending:expr) => {
        let body = sent(async |client| {
            let $store = store(client);
            $sending.await
        });
        insta::assert_json_snapshot!($name, body.await);
    };
    ($name:expr, $request:expr) => {
        let request = $request;
        insta::assert_json_snapshot!($name, sent(async |client| request.send_with(&client).await).await);
    };
}

fn store(client: Client) -> Store {
    let clock = Clock::new(|| now().to_duration());
    Store::new(client, "Table", VersionDigits::default()).with_clock(clock)
}

fn now() -> RecordedAt {
    RecordedAt::parse("2026-11-22T06:24:48.123456Z").unwrap()
}

fn item(json: Value) -> Item {
    serde_json::from_value(json).unwrap()
}

fn with(mut json: Value, more: &Value) -> Item {
    json.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    item(json)
}

fn equipment() -> EntityId {
    EntityId::new("Equipment#1").unwrap()
}

fn version(number: u64) -> Version {
    Version::new(number).unwrap()
}

fn orders() -> AttachedTable {
    let definition = json!({
        "TableName": "Orders", "VersionAttribute": "rev",
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}, {"AttributeName": "no", "KeyType": "RANGE"}],
        "AttributeDefinitions": [
            {"AttributeName": "id", "AttributeType": "S"}, {"AttributeName": "no", "AttributeType": "N"},
        ],
    });
    attach::parse(&definition.to_string()).unwrap()
}

#[tokio::test]
async fn quarantine_delete() {
    let record = QuarantinedRecord {
        entity: equipment(),
        number: SequenceNumber::new("300000000000000000042").unwrap(),
        kind: String::new(),
        reason: String::new(),
        version: None,
        at: None,
        record: String::new(),
    };
    snapshot!("quarantine_delete", |store| delete_quarantined(&store, &record));
}

#[tokio::test]
async fn create_table() {
    let request = create::request(&TableSettings::default(), "Table");
    snapshot!("create_table", request.unwrap());
    let indexed = TableSettings {
        time_index: true,
        ..TableSettings::of_history()
    };
    snapshot!("create_table_time_index", create::request(&indexed, "History").unwrap());
    snapshot!("create_table_ttl", |store| enable_ttl(&store, "TTL"));
    snapshot!("create_table_backups", |store| enable_point_in_time_recovery(&store));
    snapshot!("table_state_ttl", |store| settings::ttl(&store));
    snapshot!("table_state_backups", |store| settings::point_in_time_recovery(&store));
}

#[tokio::test]
async fn reads() {
    let entity = &equipment();
    snapshot!("item_collection", |store| item_collection(&store, entity, true, |_| ()));
    let segment = Some(scan::Segment { index: 2, total: 4 });
    let start = [("PK".to_owned(), s("E")), ("SK".to_owned(), s("v1"))].into();
    let scan = scan::request(segment, Some(start), Some(100), "Table");
    snapshot!("scan_segment", scan.consistent_read(false));
    let scan = scan::request(segment, None, Some(100), "Table");
    for (name, text, deleted) in [
        ("scan_latest", "", None),
        ("scan_latest_live", "Equipment#", Some(false)),
        ("scan_latest_deleted", "Equipment#", Some(true)),
    ] {
        let text = text.to_owned();
        let wanted = scans::LatestFilter { text, deleted };
        snapshot!(name, scans::of_latest(scan.clone(), &wanted));
        if deleted.is_none_or(|deleted| deleted) {
            let name = name.replace("latest", "histories");
            snapshot!(name, histories::of_versions(scan.clone(), &wanted));
        }
    }
    snapshot!("scan_quarantined", quarantine::scan_request(None, Some(100), "Table"));
    let versions = [7, 8].map(|number| (equipment(), version(number)));
    snapshot!("versions_in_history", |store| versions_in_history(
        &store, &versions, true
    ));
    snapshot!("list_tables", tables::list_request(Some("Orders".to_owned())));
    snapshot!("table_settings", |store| attach::find::settings(&store));
    // The restore of an item sends this read and one conditional request.
    let key = item(json!({"id": {"S": "a"}, "no": {"N": "7"}}));
    snapshot!("attached_item", attached_items::request(&key, "Orders"));
    snapshot!("snapshot_put", |store| target::put(&store, "id", &key));
}

#[tokio::test]
async fn time_index() {
    let window = Window::new(now(), Some(now()));
    let start = || {
        let keys = ["PK", "SK", "TimePartition", "InsertedAt"];
        Some(keys.map(|name| (name.to_owned(), s(name))).into())
    };
    for (name, partition, start) in [
        ("time_index_page", "17", start()),
        ("time_index_late_page", "late17", None),
    ] {
        snapshot!(name, pages::request(partition, &window, start, "Table"));
    }
    snapshot!(
        "audit_index_scan",
        audit::of_versions(scan::request(None, None, None, "Table"))
    );
}

#[tokio::test]
async fn pruning() {
    let (entity, time) = (&equipment(), Duration::from_secs(1_600_000_000));
    snapshot!("prune_floor", |store| raise_floor_unless_held(
        &store,
        entity,
        version(7)
    ));
    snapshot!("repair_floor", |store| raise_floor(&store, entity, version(7)));
    for (name, mark) in [
        ("prune_mark", Mark::Expires(time)),
        ("prune_pin", Mark::Pinned { now: time }),
        ("prune_unpin", Mark::Unpinned),
    ] {
        snapshot!(name, |store| mark_version(&store, entity, version(7), mark));
    }
}

#[tokio::test]
async fn sealed_history() {
    snapshot!("sealed_place", |store| Place::of(&store));
    let operation = Operation {
        id: [7; 16],
        kind: sealed::Kind::Prune,
        table: "arn:aws:dynamodb:us-east-1:000000000000:table/Table".to_owned(),
        entity: equipment().as_str().to_owned(),
        versions: (1, 6),
        role: String::new(),
        reason: "too old".to_owned(),
        recorded_at: now().to_string(),
        paths: Vec::new(),
        index: None,
    };
    snapshot!("sealed_operation", |store| operation.add(&store, "SealState"));
}

#[tokio::test]
async fn purge() {
    snapshot!("purge_keys", |store| items::sort_keys(&store, &equipment()));
    let deletions = purges::deletions(&equipment(), &["v1", "Metadata"]).unwrap();
    snapshot!("purge_batch", purges::batch_request(deletions, "Table"));
    let latest = json!({"Latest": {"N": "7"}, "RecordedAt": {"S": now().to_string()}});
    for (name, seen) in [("purge_latest", latest), ("purge_latest_uncounted", json!({}))] {
        let delete = purges::delete_latest(&equipment(), &item(seen), "Table");
        snapshot!(name, |store| delete.send(store.client()));
    }
    let hold = Hold::new(now(), "case 7", Some("amy"));
    for (name, write) in [
        ("purge_floor", purges::delete_floor(&equipment(), "Table")),
        ("hold_set", hold::set_request(&equipment(), &hold, "Table")),
        ("hold_release", hold::release_request(&equipment(), "Table")),
    ] {
        snapshot!(name, |store| write.send(store.client()));
    }
    let first = PurgeMarker::new(now());
    let mut later = PurgeMarker::new(now().after(Duration::from_secs(60)));
    later.add_latest(&item(json!({"V0Id": {"S": "q83H"}})), version(7));
    let raised = first.max(&later);
    let path = erased::ErasedPath::attribute(["Place", "Street"]).unwrap();
    let (at, to, reason) = (now(), version(7), "asked".to_owned());
    let erasures = erased::Erasures([(path, erased::Erasure { at, to, reason })].into());
    let marker = |purge: Option<&PurgeMarker>, erasures: &erased::Erasures| purges::Marker {
        purge: purge.cloned(),
        erasures: erasures.clone(),
    };
    let none = erased::Erasures::default();
    for (name, new, seen) in [
        ("purge_marker", marker(Some(&first), &none), marker(None, &none)),
        (
            "purge_marker_raised",
            marker(Some(&raised), &none),
            marker(Some(&first), &none),
        ),
        (
            "purge_marker_after_erasure",
            marker(Some(&first), &erasures),
            marker(None, &erasures),
        ),
    ] {
        let put = purges::put_marker(&equipment(), &new, &seen, "Table");
        snapshot!(name, |store| put.send(store.client()));
    }
}

#[tokio::test]
async fn repair() {
    let stored = json!({"RequestId": {"S": "r"}, "RecordedAt": {"S": now().to_string()}});
    let ahead = now().after(Duration::from_secs(86_400 * 365)).to_string();
    let same = json!({"Item": {"PK": {"S": "E"}, "SK": {"S": "v8"}}});
    let retimed = json!({"RecordedVersion": {"N": "2"}, "RecordedAt": {"S": ahead}});
    let recorded = |version: &str| json!({"RecordedVersion": {"N": version}});
    for (name, latest, more, in_history) in [
        ("raise_latest", Some(2), recorded("1"), json!({})),
        ("raise_latest_to_same", Some(2), recorded("2"), same),
        ("raise_latest_adopted", None, json!({}), json!({})),
        ("raise_latest_retimed", Some(2), retimed, json!({})),
    ] {
        let mut stored = with(stored.clone(), &more);
        if let Some(latest) = latest {
            stored.insert("Latest".to_owned(), AttributeValue::N(latest.to_string()));
        }
        let replay = Replay::new([json!({"Item": stored}), json!({}), in_history, json!({})]);
        let from = latest.and_then(Version::new);
        let raised = raise_latest(&store(replay.client()), &equipment(), from, version(8)).await;
        assert!(raised.unwrap().is_some(), "{name}");
        let mut body = replay.bodies().remove(3);
        body.sort_all_objects();
        insta::assert_json_snapshot!(name, json!({"DynamoDB_20120810.UpdateItem": body}));
    }
    let id = RequestId::new("backfill#Table#1").unwrap();
    snapshot!("backfill_adopt", |store| count_first(&store, &equipment(), &id));
    let latest = item(json!({"PK": {"S": "Equipment#1"}, "SK": {"S": "v0"}, "Latest": {"N": "7"}}));
    for (name, counter) in [
        ("move_latest", json!({})),
        ("move_latest_counted", json!({"Latest": {"N": "7"}})),
    ] {
        let padded = json!({"PK": {"S": "Equipment#1"}, "SK": {"S": "v00"}, "State": {"S": "OK"}});
        let padded = with(padded, &counter);
        snapshot!(name, |store| move_latest(&store, &padded, &latest));
    }
    let revive = Write::insert("Table", latest);
    snapshot!("revive_latest", |store| revive.send(store.client()));
}

/// A version in its form, on condition of its marks; and what shows which requests the latest item and the ledger have.
#[tokio::test]
async fn erasure() {
    let marks = json!({"TTL": {"N": "7"}, "InsertedAt": {"S": "t"}, "TimePartition": {"S": "3"}});
    let old = json!({"PK": {"S": "Equipment#1"}, "SK": {"S": "v7"}, "Image": {"M": {"Street": {"S": "x"}}}});
    let old = with(old, &marks);
    let new = json!({"PK": {"S": "Equipment#1"}, "SK": {"S": "v7"}, "State": {"S": "OK"}, "Erased": {"M": {}}});
    let new = with(new, &marks);
    snapshot!("erase_version", |store| {
        let store = store.with_history(Some("History".to_owned()));
        async move { erase::version::replace_version(&store, &old, new).await }
    });
    let latest = json!({
        "Latest": {"N": "7"}, "RequestPayload": {"S": "p"}, "RecentRequests": {"M": {"a": {"N": "7.1"}}}, "Deleted": {"BOOL": true},
        "RecordedVersion": {"N": "7"}, "TombstoneState": {"M": {"Place": {"M": {"Street": {"S": "x"}, "City": {"S": "y"}}}}},
    });
    let version = json!({"Item": {"PK": {"S": "Equipment#1"}, "SK": {"S": "v7"}, "Erased": {"M": {}}}});
    let path = erased::ErasedPath::attribute(["Place", "Street"]).unwrap();
    let (at, to, reason) = (now(), Version::FIRST, String::new());
    let erasures = erased::Erasures([(path, erased::Erasure { at, to, reason })].into());
    let replay = Replay::new([json!({"Item": latest}), version, json!({}), json!({})]);
    let cleaned = erase::clean_latest(&store(replay.client()), &equipment(), &erasures, true).await;
    assert!(cleaned.unwrap());
    let mut body = replay.bodies().remove(2);
    body.sort_all_objects();
    insta::assert_json_snapshot!("erase_latest", json!({"DynamoDB_20120810.UpdateItem": body}));
    let marker = json!({"PK": {"S": "Equipment#1"}, "SK": {"S": "request#r"}, "Payload": {"S": "p"}});
    let replay = Replay::new([json!({"Items": [marker]}), json!({})]);
    let cleaned = erase::clean_ledger(&store(replay.client()), &equipment()).await;
    assert_eq!(cleaned.unwrap(), 1);
    let mut bodies = replay.bodies();
    bodies.iter_mut().for_each(Value::sort_all_objects);
    insta::assert_json_snapshot!("erase_ledger", bodies);
}

/// One request, on condition that no attribute that was read has changed: of an existing item, of a new one, and a deletion. Or that none
/// that the request changes has.
#[tokio::test]
async fn attached_change() {
    let key = json!({"id": {"S": "a"}, "no": {"N": "7"}});
    let old = json!({"status": {"S": "open"}, "rev": {"N": "6"}, "note": {"S": "x"}});
    let now = json!({"status": {"S": "shut"}, "rev": {"N": "5"}, "extra": {"SS": ["y"]}});
    let [old, now] = [old, now].map(|more| with(key.clone(), &more));
    let part = with(
        key.clone(),
        &json!({"status": {"S": "open"}, "rev": {"N": "6"}, "extra": {"SS": ["y"]}}),
    );
    for (name, now, wanted, only_changed) in [
        ("attached_change_update", Some(&now), Some(&old), false),
        ("attached_change_create", None, Some(&old), false),
        ("attached_change_delete", Some(&now), None, false),
        ("attached_change_part", Some(&now), Some(&part), true),
        ("attached_change_delete", Some(&now), None, true),
    ] {
        let change = ItemChange {
            key: item(key.clone()),
            item: now.cloned(),
            wanted: wanted.cloned(),
            newest: 3,
            only_changed,
            erased: erased::Erased::default(),
        };
        let body = sent(async |client| item_change::change_item(&Store::attached(client, orders()), &change).await);
        insta::assert_json_snapshot!(name, body.await);
    }
}

#[tokio::test]
async fn history_owner() {
    let table = |id: &str| TableIdentity {
        id: id.to_owned(),
        name: "Table".to_owned(),
    };
    let owned_by = |id: &str| Owner {
        table: table(id),
        history_id: "a-history-id".to_owned(),
    };
    let adopted = owned_by("an-earlier-id");
    for (name, read) in [("history_owner", None), ("history_owner_adopted", Some(&adopted))] {
        snapshot!(name, |store| owner::store_owner(&store, &owned_by("a-table-id"), read));
    }
    let left = table("a-table-id");
    snapshot!("history_owner_left", |store| owner::delete_owner(&store, &left));
}
