//! Tombstones that expire, and the order of updates by time, on a real table.

use serde_json::{Value, json};
use shared::{
    domain::{
        audit::Finding,
        keys::LATEST_KEY,
        ledger::Retention,
        recent_requests::Window,
        recorded_at::RecordedAt,
        request_id::RequestId,
        update::{Ordering, Update},
        version::Version,
    },
    dynamodb::{
        Store,
        read::history::HistoryQuery,
        write::{
            Idempotency, WriteError, WriteMode, WriteOptions, WriteOutcome,
            restore::{ChangeOptions, RestoreError},
        },
    },
};
use testkit::database::{Database, at_second, delete_item, entity, put_version};

use crate::uncounted;

const DAY: u64 = 86_400;
const ID: &str = "User#2";
/// Time of the deletion.
const DELETED: u64 = 1_721_757_900;

fn settings() -> Vec<WriteOptions> {
    let expiring = |options| WriteOptions {
        tombstone_ttl: Retention::days(7),
        ..options
    };
    uncounted::settings().into_iter().map(expiring).collect()
}

fn parse(json: Value, request: &str) -> Update {
    Update::parse(json, request, Ordering::Time).unwrap()
}

async fn write(store: &Store, update: &Update, options: WriteOptions) -> Result<WriteOutcome, WriteError> {
    let outcome = store.write(update, options).await;
    if options.mode == WriteMode::Stream && matches!(outcome, Ok(WriteOutcome::Written { .. })) {
        put_version(store, &entity(ID)).await;
    }
    outcome
}

fn written(version: u64) -> WriteOutcome {
    let version = Version::new(version).unwrap();
    WriteOutcome::Written { version }
}

async fn item(store: &Store, key: &str) -> Value {
    serde_json::to_value(store.get(&entity(ID), key, true).await.unwrap()).unwrap()
}

/// Writes a rating and deletes it. The tombstone expires after 7 days.
async fn deleted(store: &Store, options: WriteOptions) {
    let store = at_second(store, DELETED);
    let rating = parse(
        json!({"ID": ID, "Timestamp": 1_721_757_100_000_u64, "Rating": 5}),
        "r-1",
    );
    assert_eq!(write(&store, &rating, options).await, Ok(written(1)));
    let delete = parse(
        json!({"ID": ID, "Timestamp": 1_721_757_900_000_u64, "Deleted": true}),
        "r-2",
    );
    assert_eq!(write(&store, &delete, options).await, Ok(written(2)));
}

#[tokio::test]
async fn an_expired_tombstone_is_absent_before_and_after_dynamodb_deletes_it() {
    let database = Database::start().await;
    for (number, options) in settings().into_iter().enumerate() {
        for is_swept in [false, true] {
            let table = format!("T{number}{is_swept}");
            let store = database.store(&table, 1).await;
            deleted(&store, options).await;
            let expires = json!({"N": (DELETED + 7 * DAY).to_string()});
            assert_eq!(item(&store, LATEST_KEY).await["TTL"], expires);
            // The version stays.
            let version = item(&store, "v2").await;
            assert_eq!((version.get("TTL"), &version["TombstoneExpires"]), (None, &expires));

            // Until then, it is a tombstone.
            let before = at_second(&store, DELETED + 7 * DAY - 1);
            assert!(before.latest(&entity(ID), true).await.unwrap().unwrap().deleted);
            let late = parse(
                json!({"ID": ID, "Timestamp": 1_721_757_800_000_u64, "Rating": 4}),
                "r-late",
            );
            let stale = write(&before, &late, options).await;
            assert!(matches!(stale, Ok(WriteOutcome::Stale { .. })), "{stale:?}");

            if is_swept {
                delete_item(&database.client, &database.table_name(&table), ID, LATEST_KEY).await;
            }
            let after = at_second(&store, DELETED + 7 * DAY);
            assert!(after.latest(&entity(ID), true).await.unwrap().is_none());
            assert!(after.latest_versions(&[entity(ID)], true).await.unwrap().is_empty());
            // History stays, and is consistent.
            let history = after
                .history(&entity(ID), HistoryQuery::default())
                .await
                .unwrap()
                .unwrap();
            assert_eq!(history.collect().await.unwrap().len(), 2);
            let at_first = RecordedAt::since_epoch(std::time::Duration::from_secs(DELETED));
            assert_eq!(
                after.as_of(&entity(ID), at_first, true).await.unwrap().unwrap().version,
                Version::FIRST
            );
            let findings = after.audit(&entity(ID), std::time::Duration::ZERO).await.unwrap();
            assert_eq!(findings, Some(Vec::new()));
            let request = RequestId::new("undelete").unwrap();
            let undeleted = after
                .undelete(&entity(ID), request, ChangeOptions::default(), options)
                .await;
            assert_eq!(undeleted, Err(RestoreError::NotFound));

            // A request that was applied before is still detected.
            let mut again = parse(
                json!({"ID": ID, "Timestamp": 1_721_757_100_000_u64, "Rating": 5}),
                "r-1",
            );
            let first = shared::domain::time::EpochMillis::new(1_721_757_100_000);
            again.sent_at = Some(shared::domain::sent_at::SentAt::since(first));
            let again = write(&after, &again, options).await;
            assert_eq!(
                again,
                Ok(WriteOutcome::Duplicate {
                    version: Version::FIRST
                }),
                "{options:?} {is_swept}"
            );

            // The next update revives the entity, also an older one, without the attributes from before.
            let version = if is_swept { "absent" } else { "expired" };
            let conflict = parse(json!({"ID": ID, "Timestamp": 1, "ExpectedVersion": 2}), "r-3");
            let conflict = write(&after, &conflict, options).await;
            assert_eq!(
                conflict,
                Ok(WriteOutcome::Conflict { expected: 2, latest: 0 }),
                "{version}"
            );
            let revived = parse(
                json!({"ID": ID, "Timestamp": 1_721_757_800_000_u64, "Stars": 4, "ExpectedVersion": 0}),
                "r-4",
            );
            assert_eq!(
                write(&after, &revived, options).await,
                Ok(written(3)),
                "{options:?} {version}"
            );
            let latest = item(&after, LATEST_KEY).await;
            assert_eq!(latest["Latest"], json!({"N": "3"}));
            for name in ["Rating", "Deleted", "TTL", "TombstoneExpires"] {
                assert!(
                    latest.get(name).is_none() && item(&after, "v3").await.get(name).is_none(),
                    "{name}"
                );
            }
            let findings = after.audit(&entity(ID), std::time::Duration::ZERO).await.unwrap();
            assert_eq!(findings, Some(Vec::new()));
        }
    }
}

#[tokio::test]
async fn the_attributes_of_an_expired_entity_do_not_come_back() {
    let database = Database::start().await;
    for (number, options) in settings().into_iter().enumerate() {
        let store = database.store(&format!("T{number}"), 1).await;
        deleted(&store, options).await;
        let store = at_second(&store, DELETED + 8 * DAY);
        let newer = parse(json!({"ID": ID, "Timestamp": 1_722_449_100_000_u64, "Stars": 4}), "r-3");
        assert_eq!(write(&store, &newer, options).await, Ok(written(3)), "{options:?}");
        for key in [LATEST_KEY, "v3"] {
            let item = item(&store, key).await;
            assert!(
                item.get("Rating").is_none() && item.get("TTL").is_none(),
                "{options:?} {item}"
            );
        }
    }
}

/// DynamoDB can delete it at any time, so that an update must not depend on whether it has.
#[tokio::test]
async fn a_latest_item_that_another_program_lets_expire_is_absent() {
    let database = Database::start().await;
    for (number, options) in settings().into_iter().enumerate() {
        let table = format!("T{number}");
        let store = database.store(&table, 1).await;
        let first = parse(
            json!({"ID": ID, "Timestamp": 1_721_757_100_000_u64, "Rating": 5}),
            "r-1",
        );
        assert_eq!(
            write(&at_second(&store, DELETED), &first, options).await,
            Ok(written(1))
        );
        let mut expiring = item(&store, LATEST_KEY).await;
        expiring["TTL"] = json!({"N": (DELETED + 10).to_string()});
        database.put(&table, expiring).await;
        let store = at_second(&store, DELETED + 20);
        assert!(store.latest(&entity(ID), true).await.unwrap().is_none());
        let next = parse(json!({"ID": ID, "Timestamp": 1_721_757_200_000_u64, "Stars": 4}), "r-2");
        assert_eq!(write(&store, &next, options).await, Ok(written(2)), "{options:?}");
        let latest = item(&store, LATEST_KEY).await;
        assert!(
            latest.get("Rating").is_none() && latest.get("TTL").is_none(),
            "{options:?}: {latest}"
        );
        assert_eq!(latest["Stars"], json!({"N": "4"}));
    }
}

#[tokio::test]
async fn an_undeleted_entity_does_not_expire() {
    let database = Database::start().await;
    let store = database.store("Table", 1).await;
    let options = settings()[0];
    deleted(&store, options).await;
    let store = at_second(&store, DELETED + DAY);
    let request = RequestId::new("undelete").unwrap();
    let change = ChangeOptions {
        timestamp: Some(shared::domain::time::EpochMillis::new(1_721_844_300_000)),
        ..ChangeOptions::default()
    };
    let undeleted = store.undelete(&entity(ID), request, change, options).await.unwrap();
    assert!(matches!(undeleted, Some(WriteOutcome::Written { .. })));
    let latest = item(&store, LATEST_KEY).await;
    assert_eq!((latest.get("TTL"), &latest["Rating"]), (None, &json!({"N": "5"})));
}

#[tokio::test]
async fn a_restore_revives_an_expired_entity() {
    let database = Database::start().await;
    let store = database.store("Table", 1).await;
    let options = settings()[0];
    deleted(&store, options).await;
    let store = at_second(&store, DELETED + 8 * DAY);
    let request = RequestId::new("restore").unwrap();
    let change = ChangeOptions {
        timestamp: Some(shared::domain::time::EpochMillis::new(1)),
        ..ChangeOptions::default()
    };
    let restored = store
        .restore(&entity(ID), Version::FIRST, request, change, options)
        .await;
    assert_eq!(restored, Ok(written(3)));
    assert_eq!(item(&store, LATEST_KEY).await["Rating"], json!({"N": "5"}));
}

#[tokio::test]
async fn a_lost_latest_item_is_not_taken_for_an_expired_one() {
    let database = Database::start().await;
    let options = settings()[0];
    // It was lost before the tombstone expired, or its tombstone does not expire.
    for (name, tombstone_ttl, second) in [
        ("early", options.tombstone_ttl, DELETED + 6 * DAY),
        ("kept", None, DELETED + 8 * DAY),
    ] {
        let store = database.store(name, 1).await;
        deleted(
            &store,
            WriteOptions {
                tombstone_ttl,
                ..options
            },
        )
        .await;
        delete_item(&database.client, &database.table_name(name), ID, LATEST_KEY).await;
        let findings = at_second(&store, second)
            .audit(&entity(ID), std::time::Duration::ZERO)
            .await
            .unwrap();
        let (from, to) = (Version::FIRST, Version::new(2).unwrap());
        assert_eq!(findings, Some(vec![Finding::Orphan { from, to }]), "{name}");
        let late = parse(json!({"ID": ID, "Timestamp": 1_721_757_950_000_u64}), "r-3");
        let error = write(&at_second(&store, second), &late, options).await.unwrap_err();
        assert_eq!(
            error,
            WriteError::Uncounted {
                version: Version::new(2).unwrap()
            },
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_revived_entity_knows_its_requests_and_gaps_are_found() {
    let database = Database::start().await;
    let store = database.store("Table", 1).await;
    let options = WriteOptions {
        idempotency: Idempotency::Recent(Window::new(20).unwrap()),
        ..settings()[0]
    };
    let early = at_second(&store, DELETED);
    for number in 1..=15 {
        let rating = parse(
            json!({"ID": ID, "Timestamp": 1, "Rating": number}),
            &format!("r-{number}"),
        );
        assert_eq!(write(&early, &rating, options).await, Ok(written(number)));
    }
    let delete = parse(json!({"ID": ID, "Timestamp": 1, "Deleted": true}), "r-16");
    assert_eq!(write(&early, &delete, options).await, Ok(written(16)));
    let table = database.table_name("Table");
    delete_item(&database.client, &table, ID, LATEST_KEY).await;
    let late = at_second(&store, DELETED + 8 * DAY);
    let repeated = |rating: u64| parse(json!({"ID": ID, "Timestamp": 1, "Rating": rating}), "r-2");
    let version = Version::new(2).unwrap();
    assert_eq!(
        write(&late, &repeated(2), options).await,
        Ok(WriteOutcome::Duplicate { version })
    );
    let reused = write(&late, &repeated(3), options).await;
    assert_eq!(reused, Err(WriteError::RequestIdReused { version }));
    // A gap in the history of an entity that has expired is found.
    for key in ["v7", LATEST_KEY] {
        delete_item(&database.client, &table, ID, key).await;
    }
    let findings = late.audit(&entity(ID), std::time::Duration::ZERO).await.unwrap();
    let gap = Version::new(7).unwrap();
    assert_eq!(findings, Some(vec![Finding::Gap { from: gap, to: gap }]));
}

#[tokio::test]
async fn a_latest_item_from_before_the_order_by_time_is_compared_by_its_time() {
    let database = Database::start().await;
    for (number, options) in settings().into_iter().enumerate() {
        let store = database.store(&format!("T{number}"), 1).await;
        let by_arrival = |time: Option<&str>, request: &str| {
            Update::parse(json!({"ID": ID, "Time": time}), request, Ordering::Arrival).unwrap()
        };
        let by_time = |time: &str, request: &str| parse(json!({"ID": ID, "Time": time}), request);
        let noon = "2024-07-23T12:00:00";
        assert_eq!(
            write(&store, &by_arrival(Some(noon), "r-1"), options).await,
            Ok(written(1))
        );
        assert!(item(&store, LATEST_KEY).await.get("Timestamp").is_none());
        let older = write(&store, &by_time("2024-07-23T13:59:59+02:00", "r-2"), options).await;
        assert_eq!(
            older,
            Ok(WriteOutcome::Stale {
                version: Version::FIRST
            }),
            "{options:?}"
        );
        assert_eq!(
            write(&store, &by_time("2024-07-23T14:00:00+02:00", "r-3"), options).await,
            Ok(written(2))
        );
        assert!(item(&store, LATEST_KEY).await.get("Timestamp").is_some());
        // A latest item without any time is older than every update.
        assert_eq!(write(&store, &by_arrival(None, "r-4"), options).await, Ok(written(3)));
        assert_eq!(
            write(&store, &by_time("1999-01-01T00:00:00", "r-5"), options).await,
            Ok(written(4))
        );
    }
    // A time that another program wrote and that cannot be compared.
    let store = database.store("Unordered", 1).await;
    database
        .put(
            "Unordered",
            json!({"PK": {"S": ID}, "SK": {"S": "v0"}, "Latest": {"N": "1"}, "Time": {"S": "soon"}}),
        )
        .await;
    for (request, options) in settings().into_iter().enumerate() {
        let update = parse(json!({"ID": ID, "Timestamp": 1}), &format!("r-{request}"));
        let error = write(&store, &update, options).await.unwrap_err();
        assert_eq!(
            error,
            WriteError::Unordered {
                version: Version::FIRST
            }
        );
    }
}
