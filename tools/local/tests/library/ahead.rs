//! A latest item whose time is far ahead, on a real table: it is found, and repaired without losing a version.

use std::time::Duration;

use operations::{
    audit::{auditor::audit, collection::Finding},
    latest::raise_latest::raise_latest,
};
use serde_json::json;
use shared::{
    config::{Ordering, WriteMode},
    domain::{AttributeValue, Item, keys::LATEST_KEY, names, recorded_at::RecordedAt},
    dynamodb::{Store, read::history::HistoryQuery},
};
use testkit::database::{
    Database, MODES, at_second, entity, history, mode, put_version, update, version, write, written,
};
use writer_fn::{
    counter::{self, WriteOutcome},
    update::Update,
};

/// A time in seconds since 1970.
const START: u64 = 1_795_328_688;
const YEAR: u64 = 31_536_000;

/// Applies an update at this second, and puts its version.
async fn write_at(store: &Store, second: u64) {
    let update = update(json!({"ID": "E", "Second": second, "Actor": "amy"}));
    let written = write(&at_second(store, second), &update, mode(WriteMode::Stream)).await;
    assert!(matches!(written, Ok(WriteOutcome::Written { .. })), "{written:?}");
}

async fn latest(store: &Store) -> Item {
    store.get(&entity("E"), LATEST_KEY, true).await.unwrap().unwrap()
}

/// Moves the time of the latest item ahead, as a writer with a wrong clock does.
async fn move_ahead(store: &Store, seconds: u64) {
    write_at(store, START + seconds).await;
}

async fn findings(store: &Store, second: u64) -> Vec<Finding> {
    let audited = audit(&at_second(store, second), &entity("E"), Duration::ZERO).await;
    audited.unwrap().unwrap()
}

async fn as_of(store: &Store, second: u64) -> Option<u64> {
    let time = RecordedAt::since_epoch(Duration::from_secs(second));
    let found = operations::as_of::as_of(store, &entity("E"), time, true).await.unwrap();
    found.map(|view| view.version.get())
}

#[tokio::test]
async fn a_repair_begins_a_new_sequence_of_times() {
    let database = Database::start().await;
    let store = database.store("Table", 1).await;
    for second in [START, START + 1] {
        write_at(&store, second).await;
    }
    move_ahead(&store, YEAR).await;
    // Updates go on, with the time of the latest item.
    for second in START + 2..START + 6 {
        write_at(&store, second).await;
    }
    assert_eq!(
        findings(&store, START + 6).await,
        [Finding::Ahead { version: version(7) }]
    );
    let before = latest(&store).await;
    let raised = raise_latest(
        &at_second(&store, START + 6),
        &entity("E"),
        Some(version(7)),
        version(8),
    )
    .await;
    let raised = raised.unwrap().unwrap();
    put_version(&store, &entity("E")).await;
    // No first attempt by the clock of another writer has a later time.
    let time = RecordedAt::since_epoch(Duration::from_secs(START + 16));
    assert_eq!(RecordedAt::of_latest(&raised), Some(time));
    assert_eq!(raised.get("Second"), before.get("Second"));
    let text = |name: &str| shared::domain::attributes::text(&raised, name);
    assert_eq!((text(names::ACTOR), text(names::REQUEST_ID)), (None, None));
    assert!(text(names::REASON).is_some_and(|reason| reason.contains("ahead")));
    assert_eq!(
        raised.get(names::REQUESTS_DROPPED),
        Some(&AttributeValue::N("8".to_owned()))
    );
    assert_eq!(findings(&store, START + 6).await, []);
    for second in [START + 7, START + 20, START + 30] {
        write_at(&store, second).await;
    }
    // The versions with wrong times are never the latest as of a time before theirs, and none is lost.
    for (second, expected) in [
        (START - 1, None),
        (START, Some(1)),
        (START + 15, Some(2)),
        (START + 17, Some(9)),
        (START + 20, Some(10)),
        (START + 40, Some(11)),
        (START + 2 * YEAR, Some(11)),
    ] {
        assert_eq!(as_of(&store, second).await, expected, "{}", second - START + 1);
    }
    // A second repair, and reads before both.
    move_ahead(&store, 2 * YEAR).await;
    let raised = raise_latest(
        &at_second(&store, START + 50),
        &entity("E"),
        Some(version(12)),
        version(13),
    )
    .await;
    assert!(raised.unwrap().is_some());
    put_version(&store, &entity("E")).await;
    for (second, expected) in [(START + 1, 2), (START + 25, 10), (START + 59, 11), (START + 60, 13)] {
        assert_eq!(as_of(&store, second).await, Some(expected), "{}", second - START);
    }
    let mut found = history(&store, "E", HistoryQuery::default()).await.unwrap();
    found.sort_unstable();
    assert_eq!(found, (1..=13).collect::<Vec<_>>());
}

/// An update that was applied before is recognized after the repair, although its request left the map.
#[tokio::test]
async fn a_repair_forgets_no_request() {
    let database = Database::start().await;
    let store = database.store("Table", 1).await;
    let sent = RecordedAt::since_epoch(Duration::from_secs(START)).to_string();
    let first = || {
        let json = json!({"ID": "E", "RequestId": "first", "RequestSentAt": sent, "Value": 0});
        Update::parse(json, "default", Ordering::Arrival).unwrap()
    };
    let applied = write(&at_second(&store, START), &first(), mode(WriteMode::Stream)).await;
    assert_eq!(applied, Ok(written(1)));
    move_ahead(&store, YEAR).await;
    for second in START + 1..START + 20 {
        write_at(&store, second).await;
    }
    let raised = raise_latest(
        &at_second(&store, START + 20),
        &entity("E"),
        Some(version(21)),
        version(22),
    )
    .await;
    assert!(raised.unwrap().is_some());
    put_version(&store, &entity("E")).await;
    let again = write(&at_second(&store, START + 60), &first(), mode(WriteMode::Stream)).await;
    assert_eq!(again, Ok(WriteOutcome::Duplicate { version: version(1) }));
}

/// A version that begins a new sequence of times keeps the client's time: an older update stays stale.
#[tokio::test]
async fn a_repair_keeps_the_order_by_time() {
    let database = Database::start().await;
    let store = database.store("Table", 1).await;
    let by_time = |id: &str, time: u64| {
        let json = json!({"ID": "E", "Timestamp": time, "Value": time});
        Update::parse(json, id, Ordering::Time).unwrap()
    };
    let newer = write(
        &at_second(&store, START + YEAR),
        &by_time("a", 10),
        mode(WriteMode::Stream),
    )
    .await;
    assert_eq!(newer, Ok(written(1)));
    let raised = raise_latest(&at_second(&store, START), &entity("E"), Some(version(1)), version(2)).await;
    assert!(raised.unwrap().is_some());
    put_version(&store, &entity("E")).await;
    let older = write(
        &at_second(&store, START + 60),
        &by_time("b", 5),
        mode(WriteMode::Stream),
    )
    .await;
    assert!(matches!(older, Ok(WriteOutcome::Stale { .. })), "{older:?}");
}

/// Another program can write a time in a form whose texts do not sort with ours, or a value that is no time. Updates go on.
#[tokio::test]
async fn a_time_in_another_form_does_not_stop_updates() {
    let database = Database::start().await;
    let store = database.store("Table", 1).await;
    for (index, value) in [
        json!({"S": "2026-11-22T09:24:48.123456+02:00"}),
        json!({"S": "2026-11-22T06:24:48Z"}),
        json!({"S": "2026-11-22T06:24:48"}),
        json!({"S": "2027-01-01"}),
        json!({"S": "tomorrow"}),
        json!({"N": "1795328688123"}),
        json!({"NULL": true}),
    ]
    .into_iter()
    .enumerate()
    {
        for write_mode in MODES {
            let id = format!("E{index} {write_mode:?}");
            let latest = json!({
                "PK": {"S": id}, "SK": {"S": "v0"}, "Latest": {"N": "1"}, "RecordedAt": value,
            });
            database.put("Table", latest).await;
            let mut times = Vec::new();
            for next in 2..5 {
                let update = update(json!({"ID": id, "Value": next}));
                let outcome = counter::write(&at_second(&store, START), &update, mode(write_mode)).await;
                assert_eq!(outcome, Ok(written(next)), "{value}");
                let latest = store.get(&entity(&id), LATEST_KEY, true).await.unwrap().unwrap();
                times.push(RecordedAt::of_latest(&latest).unwrap());
            }
            assert!(times.is_sorted_by(|before, after| before < after), "{value}: {times:?}");
        }
    }
}
