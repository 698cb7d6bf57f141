//! A snapshot of every request that only operators send, as it goes over the wire.

use std::time::Duration;

use serde_json::{Value, json};
use shared::{
    domain::{
        AttributeValue, Item, attached::AttachedTable, entity::EntityId, keys::VersionDigits,
        purge_marker::PurgeMarker, recorded_at::RecordedAt, request_id::RequestId, time::EpochMillis, version::Version,
    },
    dynamodb::{
        Store,
        read::{history_owner::Owner, table_identity::TableIdentity},
        s,
    },
};
use testkit::replay::sent;

use crate::{
    attach::{check, enable_stream},
    backfill::in_place,
    item_restore::{self, ItemRestore, change},
    latest::{
        move_latest,
        raise_latest::{self, Raised},
        revive_latest,
    },
    prune::requests::{self, Mark},
    purge::entity,
    quarantine,
    read::{attached_items, item_collection, quarantined, scan_latest, scan_request, sort_keys, versions_in_history},
    segments::scan,
    table::{create, owner, settings::TableSettings, state},
};

/// Compares a request with its snapshot.
macro_rules! snapshot {
    ($name:expr, $request:expr) => {
        let request = $request;
        insta::assert_json_snapshot!($name, sent(async |client| request.send_with(&client).await).await);
    };
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
    crate::attached::parse(&definition.to_string()).unwrap()
}

#[tokio::test]
async fn quarantine_delete() {
    let keys = |count| {
        (1..=count).map(|part| match part {
            1 => "quarantine#300000000000000000042".to_owned(),
            part => format!("quarantine#300000000000000000042#{part}"),
        })
    };
    let request = |count| quarantine::delete_request(&equipment(), &keys(count).collect::<Vec<_>>(), "Table").unwrap();
    let one = request(1);
    let mut body = sent(async |client| one.send_with(&client).await).await;
    // The SDK makes up a token for each.
    body["DynamoDB_20120810.TransactWriteItems"]["ClientRequestToken"] = json!("token");
    insta::assert_json_snapshot!("quarantine_delete", body);
    // A long record has more items.
    assert_eq!(request(2).get_transact_items().as_ref().map(Vec::len), Some(2));
}

#[tokio::test]
async fn purge_keys() {
    let keys = sort_keys::request(&equipment(), None, "Table");
    insta::assert_json_snapshot!("purge_keys", sent(async |client| keys.send_with(&client).await).await);
}

#[tokio::test]
async fn create_table() {
    snapshot!(
        "create_table",
        create::request(&TableSettings::default(), "Table").unwrap()
    );
    snapshot!("create_table_ttl", create::ttl_request("TTL", "Table").unwrap());
    snapshot!("create_table_backups", create::backups_request("Table").unwrap());
    snapshot!("table_state_ttl", state::ttl_request("Table"));
    snapshot!("table_state_backups", state::backups_request("Table"));
}

#[tokio::test]
async fn reads() {
    let request = item_collection::request(&equipment(), true, None, "Table");
    snapshot!("item_collection", request);
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
        let wanted = scan_latest::LatestFilter { text, deleted };
        snapshot!(name, scan_latest::of_latest(scan.clone(), &wanted));
    }
    for (name, is_nested) in [("scan_request", false), ("scan_request_history", true)] {
        snapshot!(name, scan_request::of_request(scan.clone(), "r1", is_nested));
    }
    snapshot!("scan_quarantined", quarantined::request(None, Some(100), "Table"));
    let versions = [7, 8].map(|number| (equipment(), version(number)));
    let body = sent(async |client| {
        let store = Store::new(client, "Table", VersionDigits::default());
        versions_in_history::versions_in_history(&store, &versions, true).await
    });
    insta::assert_json_snapshot!("versions_in_history", body.await);
    // The restore of an item sends this read and one conditional request.
    let key = item(json!({"id": {"S": "a"}, "no": {"N": "7"}}));
    snapshot!("attached_item", attached_items::request(&key, "Orders"));
}

#[tokio::test]
async fn pruning() {
    let time = Duration::from_secs(1_600_000_000);
    snapshot!(
        "prune_floor",
        requests::floor_request(&equipment(), version(7), "Table")
    );
    for (name, mark) in [
        ("prune_mark", Mark::Expires(time)),
        ("prune_pin", Mark::Pinned { now: time }),
        ("prune_unpin", Mark::Unpinned),
    ] {
        let digits = VersionDigits::default();
        let request = requests::mark_request(&equipment(), version(7), mark, "Table", digits);
        snapshot!(name, request);
    }
}

#[tokio::test]
async fn purge() {
    let deletions = entity::deletions(&equipment(), &["v1".to_owned(), "Metadata".to_owned()]).unwrap();
    snapshot!("purge_batch", entity::batch_request(deletions, "Table"));
    let latest = json!({"Latest": {"N": "7"}, "RecordedAt": {"S": now().to_string()}});
    for (name, seen) in [("purge_latest", latest), ("purge_latest_uncounted", json!({}))] {
        snapshot!(name, entity::latest_request(&equipment(), &item(seen), "Table"));
    }
    let first = PurgeMarker::new(now());
    let mut later = PurgeMarker::new(now().after(Duration::from_secs(60)));
    later.add_latest(&item(json!({"V0Id": {"S": "q83H"}})), version(7));
    let raised = first.max(&later);
    for (name, marker, seen) in [
        ("purge_marker", &first, None),
        ("purge_marker_raised", &raised, Some(&first)),
    ] {
        snapshot!(name, entity::marker_request(&equipment(), marker, seen, "Table"));
    }
}

#[tokio::test]
async fn backfill_adopt() {
    let id = RequestId::new("backfill#Table#1").unwrap();
    snapshot!("backfill_adopt", in_place::request(&equipment(), &id, now(), "Table"));
}

#[tokio::test]
async fn repair() {
    let raised = Raised {
        from: Some(version(2)),
        to: version(8),
        requests: [("hash".to_owned(), AttributeValue::N("7".to_owned()))].into(),
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
        snapshot!(name, raise_latest::request(&equipment(), raised, "Table"));
    }
    let latest = item(json!({"PK": {"S": "Equipment#1"}, "SK": {"S": "v0"}, "Latest": {"N": "7"}}));
    for (name, counter) in [
        ("move_latest", json!({})),
        ("move_latest_counted", json!({"Latest": {"N": "7"}})),
    ] {
        let padded = json!({"PK": {"S": "Equipment#1"}, "SK": {"S": "v00"}, "State": {"S": "OK"}});
        let padded = with(padded, &counter);
        snapshot!(name, move_latest::request(&padded, &latest, "Table").unwrap());
    }
    snapshot!("revive_latest", revive_latest::request(&latest, "Table"));
}

#[tokio::test]
async fn attachment() {
    snapshot!("attachment_sample", check::request("Orders", 100));
    snapshot!("attachment_stream", enable_stream::request("Orders").unwrap());
    let read = item(json!({"id": {"S": "a"}, "no": {"N": "7"}, "status": {"S": "open"}}));
    let again = sent(async |client| {
        let store = Store::new(client, "Orders", VersionDigits::default());
        check::read_again(&store, &orders(), &[&read]).await
    });
    insta::assert_json_snapshot!("attachment_again", again.await);
}

/// One request, on condition that no attribute that was read has changed: of an existing item, of a deleted one, and a deletion.
#[tokio::test]
async fn attached_restore() {
    let keys = || json!({"id": {"S": "a"}, "no": {"N": "7"}});
    let old = json!({"status": {"S": "open"}, "rev": {"N": "3"}, "note": {"S": "x"}});
    let now = json!({"status": {"S": "shut"}, "rev": {"N": "5"}, "extra": {"SS": ["y"]}});
    let last = json!({"rev": {"N": "6"}});
    let [old, now, last] = [old, now, last].map(|more| with(keys(), &more));
    for (name, old, now, last) in [
        ("attached_restore_update", Some(&old), Some(&now), None),
        ("attached_restore_create", Some(&old), None, Some(&last)),
        ("attached_restore_delete", None, Some(&now), None),
    ] {
        let restore = ItemRestore {
            key: item(keys()),
            item: now.cloned(),
            change: change::plan(&orders(), old, now, last),
        };
        let body = sent(async |client| item_restore::restore_item(&Store::attached(client, orders()), &restore).await);
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
    let puts = [
        (
            "history_owner",
            owner::put_request(&owned_by("a-table-id"), None, "History"),
        ),
        (
            "history_owner_adopted",
            owner::put_request(&owned_by("a-table-id"), Some(&owned_by("an-earlier-id")), "History"),
        ),
    ];
    for (name, request) in puts {
        insta::assert_json_snapshot!(name, sent(async |client| request.send_with(&client).await).await);
    }
    let left = owner::delete_request(&table("a-table-id"), "History");
    insta::assert_json_snapshot!(
        "history_owner_left",
        sent(async |client| left.send_with(&client).await).await
    );
}
