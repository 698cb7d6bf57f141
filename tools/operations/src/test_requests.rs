//! A snapshot of every request that only operators send, as it goes over the wire.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use serde_json::{Value, json};
use shared::{
    domain::{
        Item, attached::AttachedTable, entity::EntityId, keys::VersionDigits, purge_marker::PurgeMarker,
        recorded_at::RecordedAt, time::EpochMillis, version::Version,
    },
    dynamodb::{Store, s},
};
use testkit::replay::Replay;

use crate::{
    attach::{enable_stream, sample},
    backfill::in_place,
    item_restore::{self, ItemRestore, change},
    latest::{
        move_latest,
        raise_latest::{self, Raised},
        revive_latest,
    },
    prune::requests,
    purge::{entity, marker},
    read::{item_collection, quarantined, scan_latest, scan_request, versions_in_history},
    segments::scan,
    table::{create, settings::TableSettings, state},
};

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

fn item(json: Value) -> Item {
    serde_json::from_value(json).unwrap()
}

fn equipment() -> EntityId {
    EntityId::new("Equipment#1").unwrap()
}

fn orders() -> AttachedTable {
    let definition = json!({
        "TableName": "Orders", "VersionAttribute": "rev",
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}, {"AttributeName": "no", "KeyType": "RANGE"}],
        "AttributeDefinitions": [
            {"AttributeName": "id", "AttributeType": "S"}, {"AttributeName": "no", "AttributeType": "N"},
        ],
    });
    AttachedTable::parse(&definition.to_string()).unwrap()
}

#[tokio::test]
async fn create_table() {
    let create = create::request(&TableSettings::default(), "Table").unwrap();
    insta::assert_json_snapshot!(
        "create_table",
        sent(async |client| create.send_with(&client).await).await
    );
    let ttl = create::ttl_request("TTL", "Table").unwrap();
    insta::assert_json_snapshot!(
        "create_table_ttl",
        sent(async |client| ttl.send_with(&client).await).await
    );
    let backups = create::backups_request("Table").unwrap();
    insta::assert_json_snapshot!(
        "create_table_backups",
        sent(async |client| backups.send_with(&client).await).await
    );
    let ttl = state::ttl_request("Table");
    insta::assert_json_snapshot!(
        "table_state_ttl",
        sent(async |client| ttl.send_with(&client).await).await
    );
    let backups = state::backups_request("Table");
    insta::assert_json_snapshot!(
        "table_state_backups",
        sent(async |client| backups.send_with(&client).await).await
    );
}

#[tokio::test]
async fn item_collection() {
    let request = item_collection::request(&equipment(), true, None, "Table");
    insta::assert_json_snapshot!(
        "item_collection",
        sent(async |client| request.send_with(&client).await).await
    );
}

#[tokio::test]
async fn parts_of_a_table() {
    let segment = scan::Segment { index: 2, total: 4 };
    let start = [("PK".to_owned(), s("E")), ("SK".to_owned(), s("v1"))].into();
    let scan = scan::request(segment, Some(start), Some(100), false, "Table");
    insta::assert_json_snapshot!("scan_segment", sent(async |client| scan.send_with(&client).await).await);
    for (name, text, deleted) in [
        ("scan_latest", "", None),
        ("scan_latest_live", "Equipment#", Some(false)),
        ("scan_latest_deleted", "Equipment#", Some(true)),
    ] {
        let wanted = scan_latest::LatestFilter {
            text: text.to_owned(),
            deleted,
        };
        let scan = scan_latest::request(segment, &wanted, None, Some(100), "Table");
        insta::assert_json_snapshot!(name, sent(async |client| scan.send_with(&client).await).await);
    }
    for (name, is_nested) in [("scan_request", false), ("scan_request_history", true)] {
        let scan = scan_request::request(segment, "r1", is_nested, None, Some(100), "Table");
        insta::assert_json_snapshot!(name, sent(async |client| scan.send_with(&client).await).await);
    }
}

#[tokio::test]
async fn versions_in_history() {
    let store = |client| Store::new(client, "Table", VersionDigits::default());
    let versions = [7, 8].map(|number| (equipment(), Version::new(number).unwrap()));
    let body =
        sent(async |client| versions_in_history::versions_in_history(&store(client), &versions, true).await).await;
    insta::assert_json_snapshot!("versions_in_history", body);
}

#[tokio::test]
async fn pruning() {
    let (digits, version) = (VersionDigits::default(), Version::new(7).unwrap());
    let time = std::time::Duration::from_secs(1_600_000_000);
    for (name, request) in [
        ("prune_floor", requests::floor_request(&equipment(), version, "Table")),
        (
            "prune_mark",
            requests::mark_request(&equipment(), version, requests::Mark::Expires(time), "Table", digits),
        ),
        (
            "prune_pin",
            requests::mark_request(
                &equipment(),
                version,
                requests::Mark::Pinned { now: time },
                "Table",
                digits,
            ),
        ),
        (
            "prune_unpin",
            requests::unpin_request(&equipment(), version, "Table", digits),
        ),
    ] {
        insta::assert_json_snapshot!(name, sent(async |client| request.send_with(&client).await).await);
    }
    let deletions = entity::deletions(&equipment(), &["v1".to_owned(), "Metadata".to_owned()]).unwrap();
    let batch = entity::batch_request(deletions, "Table");
    insta::assert_json_snapshot!("purge_batch", sent(async |client| batch.send_with(&client).await).await);
    for (name, seen) in [
        (
            "purge_latest",
            json!({"Latest": {"N": "7"}, "RecordedAt": {"S": now().to_string()}}),
        ),
        ("purge_latest_uncounted", json!({})),
    ] {
        let delete = entity::latest_request(&equipment(), &item(seen), "Table");
        insta::assert_json_snapshot!(name, sent(async |client| delete.send_with(&client).await).await);
    }
    let marker = PurgeMarker::new(now());
    let mut later = PurgeMarker::new(now().after(Duration::from_secs(60)));
    later.add_latest(&item(json!({"V0Id": {"S": "q83H"}})), Version::new(7).unwrap());
    let raised = marker.max(&later);
    for (name, marker, seen) in [
        ("purge_marker", &marker, None),
        ("purge_marker_raised", &raised, Some(&marker)),
    ] {
        let put = marker::request(&equipment(), marker, seen, "Table");
        insta::assert_json_snapshot!(name, sent(async |client| put.send_with(&client).await).await);
    }
}

#[tokio::test]
async fn backfill_adopt() {
    let id = shared::domain::request_id::RequestId::new("backfill#Table#1").unwrap();
    let request = in_place::request(&equipment(), &id, now(), "Table");
    insta::assert_json_snapshot!(
        "backfill_adopt",
        sent(async |client| request.send_with(&client).await).await
    );
}

#[tokio::test]
async fn repair() {
    let (from, to) = (Version::new(2).unwrap(), Version::new(8).unwrap());
    let requests = [("hash".to_owned(), shared::domain::AttributeValue::N("7".to_owned()))].into();
    let raised = Raised {
        from: Some(from),
        to,
        requests,
        since: EpochMillis::new(7),
        recorded: Some(now()),
        begins_times: false,
        is_stale: true,
    };
    let retimed = Raised {
        begins_times: true,
        ..raised.clone()
    };
    let kept = Raised {
        recorded: None,
        is_stale: false,
        ..raised.clone()
    };
    let adopted = Raised {
        from: None,
        ..raised.clone()
    };
    for (name, raised) in [
        ("raise_latest", raised),
        ("raise_latest_to_same", kept),
        ("raise_latest_adopted", adopted),
        ("raise_latest_retimed", retimed),
    ] {
        let raise = raise_latest::request(&equipment(), raised, "Table");
        insta::assert_json_snapshot!(name, sent(async |client| raise.send_with(&client).await).await);
    }
    let latest = item(json!({"PK": {"S": "Equipment#1"}, "SK": {"S": "v0"}, "Latest": {"N": "7"}}));
    for (name, number) in [("move_latest", None), ("move_latest_counted", Some("7"))] {
        let mut padded = item(json!({"PK": {"S": "Equipment#1"}, "SK": {"S": "v00"}, "State": {"S": "OK"}}));
        if let Some(number) = number {
            padded.insert(
                "Latest".to_owned(),
                shared::domain::AttributeValue::N(number.to_owned()),
            );
        }
        let moved = move_latest::request(&padded, &latest, "Table").unwrap();
        let mut body = sent(async |client| moved.send_with(&client).await).await;
        // The SDK makes up a token for each.
        body["DynamoDB_20120810.TransactWriteItems"]["ClientRequestToken"] = json!("token");
        insta::assert_json_snapshot!(name, body);
    }
    let revive = revive_latest::request(&latest, "Table");
    insta::assert_json_snapshot!(
        "revive_latest",
        sent(async |client| revive.send_with(&client).await).await
    );
}

#[tokio::test]
async fn attachment() {
    let sample = sample::request("Orders", 100);
    insta::assert_json_snapshot!(
        "attachment_sample",
        sent(async |client| sample.send_with(&client).await).await
    );
    let enable = enable_stream::request("Orders").unwrap();
    insta::assert_json_snapshot!(
        "attachment_stream",
        sent(async |client| enable.send_with(&client).await).await
    );
    let read = item(json!({"id": {"S": "a"}, "no": {"N": "7"}, "status": {"S": "open"}}));
    let again = async |client| {
        let store = Store::new(client, "Orders", shared::domain::keys::VersionDigits::default());
        sample::read_again(&store, &orders(), &[&read]).await
    };
    insta::assert_json_snapshot!("attachment_again", sent(again).await);
}

/// The restore of an item sends the read and one conditional request.
#[tokio::test]
async fn attached_item() {
    let key = item(json!({"id": {"S": "a"}, "no": {"N": "7"}}));
    let request = crate::read::attached_items::request(&key, "Orders");
    insta::assert_json_snapshot!(
        "attached_item",
        sent(async |client| request.send_with(&client).await).await
    );
}

/// One request, on condition that no attribute that was read has changed: of an existing item, of a deleted one, and a deletion.
#[tokio::test]
async fn attached_restore() {
    let keys = json!({"id": {"S": "a"}, "no": {"N": "7"}});
    let with = |more: serde_json::Value| {
        let mut members = keys.clone();
        members
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        item(members)
    };
    let old = with(json!({"status": {"S": "open"}, "rev": {"N": "3"}, "note": {"S": "x"}}));
    let now = with(json!({"status": {"S": "shut"}, "rev": {"N": "5"}, "extra": {"SS": ["y"]}}));
    let last = with(json!({"rev": {"N": "6"}}));
    for (name, old, now, last) in [
        ("attached_restore_update", Some(&old), Some(&now), None),
        ("attached_restore_create", Some(&old), None, Some(&last)),
        ("attached_restore_delete", None, Some(&now), None),
    ] {
        let restore = ItemRestore {
            key: item(keys.clone()),
            item: now.cloned(),
            change: change::plan(&orders(), old, now, last),
        };
        let send = async |client| item_restore::restore_item(&Store::attached(client, orders()), &restore).await;
        insta::assert_json_snapshot!(name, sent(send).await);
    }
}

#[tokio::test]
async fn scan_quarantined() {
    let scan = quarantined::request(None, Some(100), "Table");
    insta::assert_json_snapshot!(
        "scan_quarantined",
        sent(async |client| scan.send_with(&client).await).await
    );
}

#[tokio::test]
async fn update_metadata() {
    let name = shared::domain::AttributeValue::S("Equipment-001".to_owned());
    let changes = [
        ("Name".to_owned(), shared::domain::change::Change::Set(name)),
        ("LineID".to_owned(), shared::domain::change::Change::Remove),
    ]
    .into();
    let metadata = crate::metadata::request(&equipment(), &changes, "Table");
    insta::assert_json_snapshot!(
        "update_metadata",
        sent(async |client| metadata.send_with(&client).await).await
    );
}
