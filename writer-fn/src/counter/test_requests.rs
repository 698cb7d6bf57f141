//! A snapshot of every request of the counter, as it goes over the wire.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use shared::{
    clock::Clock,
    config::{Idempotency, Ordering, Window, WriteMode, WriteOptions},
    domain::{
        AttributeValue, Item, change::Change, keys::VersionDigits, recorded_at::RecordedAt, time::EpochMillis,
        version::Version, version_item::VersionItem,
    },
    dynamodb::{Store, cancellation},
};
use testkit::replay::{sent, sent_after};

use crate::{
    counter::{
        self,
        decision::apply,
        earlier_delivery::EarlierDeliveries,
        ended_state,
        form::{self, Form},
        lifetime::Lifetime,
        order::Order,
        recent_requests::change::{Contention, RecentRequests},
        stamp::Stamp,
        transaction,
    },
    update::{Update, sent_at::SentAt, set},
};

fn now() -> RecordedAt {
    RecordedAt::parse("2026-11-22T06:24:48.123456Z").unwrap()
}

/// Returns the form of an update that is sent for the first time.
fn form(recent_requests: RecentRequests) -> Form {
    Form::first(recent_requests, now())
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
    let author =
        json!({"ID": "Equipment#1", "Actor": "amy", "Reason": "test", "ChangeSet": "import-7", "Timestamp": 5});
    insta::assert_json_snapshot!("write_version_author", written(author, Ordering::Arrival).await);
    let first = json!({"ID": "Equipment#1", "ExpectedVersion": 0});
    insta::assert_json_snapshot!("write_version_first", written(first, Ordering::Arrival).await);
}

fn item(json: Value) -> Item {
    serde_json::from_value(json).unwrap()
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
    let late = EarlierDeliveries {
        sent: Some(EpochMillis::new(7)),
        ..EarlierDeliveries::default()
    };
    let read = EarlierDeliveries {
        base: Version::new(6),
        ..late.clone()
    };
    let known = EarlierDeliveries {
        incarnation: Some("q83H".into()),
        ..read.clone()
    };
    for (name, earlier) in [("guard_sent", late), ("guard_base", read), ("guard_known", known)] {
        let guarded = Form {
            earlier,
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
    let mut early = update.clone();
    early.sent_at = Some(SentAt {
        is_claimed: true,
        is_ahead: true,
        ..SentAt::exactly(EpochMillis::new(now().floor_millis().get() + 60_000))
    });
    let ahead = form(RecentRequests::assumed(&early, window, now()));
    insta::assert_json_snapshot!("recent_requests_ahead", updated(&early, &ahead).await);
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
            sent(async |client| counter::write(&store(client), &update, options).await).await
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
    let version = Version::new(7).unwrap();
    let part = BTreeMap::from([("State".to_owned(), Change::Set(AttributeValue::S("OK".to_owned())))]);
    for (name, before) in [("stage_restore", None), ("stage_restore_next", Some("token-1"))] {
        let staging = ended_state::staging(&deletion.entity, version, &part, (before, "token-2"), "Table");
        insta::assert_json_snapshot!(name, sent(async |client| staging.send(&client).await).await);
    }
    let ended = ["Note".to_owned(), "State".to_owned()];
    let removal = ended_state::removal(&deletion.entity, version, &ended, "Table");
    insta::assert_json_snapshot!(
        "remove_ended_state",
        sent(async |client| removal.send(&client).await).await
    );
}

#[tokio::test]
async fn write_transaction() {
    let json = json!({"ID": "Equipment#1", "State": "OK", "Note": null, "ExpectedVersion": 6, "Timestamp": 5});
    let update = Update::parse(json, "request-1", Ordering::Time).unwrap();
    let json = json!({"ID": "Equipment#1", "Address": {"$update": {"City": "Bonn", "Zip": null}}});
    let nested = Update::parse(json, "request-1", Ordering::Arrival).unwrap();
    let uncounted = item(json!({"PK": {"S": "Equipment#1"}, "SK": {"S": "v0"}, "Note": {"S": "n"}}));
    let mut stored = uncounted.clone();
    stored.insert("Latest".to_owned(), AttributeValue::N("6".to_owned()));
    let address = json!({"M": {"City": {"S": "Ulm"}, "Zip": {"N": "1"}, "Street": {"S": "s"}}});
    let with_address =
        item(json!({"PK": {"S": "Equipment#1"}, "SK": {"S": "v0"}, "Latest": {"N": "6"}, "Address": address}));
    let expires = Some(1_700_000_000);
    for (name, update, stored, ledger, with_version) in [
        ("write_transaction", &update, Some(&stored), None, true),
        ("write_transaction_first", &update, None, None, true),
        ("write_transaction_uncounted", &update, Some(&uncounted), None, true),
        ("write_ledger", &update, Some(&stored), expires, false),
        ("write_transaction_ledger", &update, Some(&stored), expires, true),
        ("write_transaction_nested", &nested, Some(&with_address), None, true),
    ] {
        let image = apply(update, stored, &Stamp::At(now())).unwrap();
        let version = VersionItem::from_image(image, VersionDigits::default()).unwrap();
        let parts = transaction::Parts {
            form: form(match ledger {
                Some(_) => RecentRequests::in_marker(update, now(), stored),
                None => RecentRequests::fitting(update, Window::default(), now(), stored, Contention::None).unwrap(),
            }),
            is_absent: stored.is_none(),
            marker_expires: ledger,
            version_items: with_version.then(|| version.item().clone()).into_iter().collect(),
        };
        let items = transaction::items(update, version.version(), &parts, "Table", "Table").unwrap();
        let body = sent(async |client| cancellation::send(&client, items, &[]).await).await;
        insta::assert_json_snapshot!(name, body);
    }
}

#[tokio::test]
async fn change_set() {
    let json = json!({"RequestId": "r-7", "Actor": "amy", "Updates": [
        {"ID": "Equipment#1", "State": "OK"},
        {"ID": "Equipment#2", "ExpectedVersion": 6, "Address": {"$update": {"City": "Bonn"}}},
    ]});
    let set = set::parse(json, "", Ordering::Arrival).unwrap();
    let stored = |id: &str, recorded: &str| {
        let address = json!({"M": {"City": {"S": "Ulm"}}});
        json!({
            "PK": {"S": id}, "SK": {"S": "v0"}, "Latest": {"N": "6"}, "RecordedAt": {"S": recorded}, "Address": address,
            "RecentRequests": {"M": {}}, "V0Id": {"S": "0"},
        })
    };
    // The second time is that of a clock which is ahead.
    let (first, second) = ("2026-11-22T06:24:48.000000000Z", "2026-11-22T06:24:49.000000000Z");
    let read = json!({"Responses": {"Table": [stored("Equipment#1", first), stored("Equipment#2", second)]}});
    for (name, idempotency, before) in [
        ("read_change_set", Idempotency::default(), &[][..]),
        ("read_change_set_ledger", Idempotency::Ledger, &[]),
        ("write_change_set", Idempotency::default(), &[read]),
    ] {
        let options = WriteOptions {
            idempotency,
            ..WriteOptions::default()
        };
        let clock = Clock::new(|| std::time::Duration::from_secs(1_795_328_688));
        let store = |client| Store::new(client, "Table", VersionDigits::default()).with_clock(clock.clone());
        let write = async |client| counter::set::write(&store(client), &set, options).await.is_ok();
        insta::assert_json_snapshot!(name, sent_after(before, write).await);
    }
}
