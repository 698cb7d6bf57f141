//! Duplicate deliveries of an update: the guarantee of each idempotency setting, on a real table.

use futures::future::join_all;
use serde_json::{Value, json};
use shared::{
    domain::{
        ledger::Retention,
        names,
        recent_requests::Window,
        update::{Ordering, Update},
        version::Version,
    },
    dynamodb::{
        Store,
        write::{Idempotency, WriteError, WriteMode, WriteOptions, WriteOutcome},
    },
};

use testkit::database::{Database, entity, put_version};

const MODES: [WriteMode; 3] = [WriteMode::Stream, WriteMode::Inline, WriteMode::Transaction];

fn recent(mode: WriteMode, window: u8) -> WriteOptions {
    WriteOptions {
        mode,
        idempotency: Idempotency::Recent(Window::new(window).unwrap()),
        skip_unchanged: false,
    }
}

fn ledger(mode: WriteMode) -> WriteOptions {
    WriteOptions {
        mode,
        idempotency: Idempotency::Ledger(Retention::default()),
        skip_unchanged: false,
    }
}

async fn apply(store: &Store, request: usize, options: WriteOptions) -> WriteOutcome {
    let json = json!({"ID": "E", "N": request});
    let update = Update::parse(json, &format!("request-{request}"), Ordering::Arrival).unwrap();
    store.write(&update, options).await.unwrap()
}

fn written(version: usize) -> WriteOutcome {
    let version = Version::new(version as u64).unwrap();
    WriteOutcome::Written { version }
}

fn duplicate(version: usize) -> WriteOutcome {
    let version = Version::new(version as u64).unwrap();
    WriteOutcome::Duplicate { version }
}

/// Returns the size of the latest item's map of recent requests.
async fn recent_requests(store: &Store) -> usize {
    let latest = store.get(&entity("E"), "v0", true).await.unwrap().unwrap();
    serde_json::to_value(&latest[names::RECENT_REQUESTS]).unwrap()["M"]
        .as_object()
        .unwrap()
        .len()
}

#[tokio::test]
async fn a_duplicate_within_the_window_is_detected_after_any_updates_in_between() {
    let database = Database::start().await;
    for mode in MODES {
        for window in [2, 3, 16] {
            let store = database.store(&format!("{mode:?}{window}"), 1).await;
            let options = recent(mode, window);
            let window = usize::from(window);
            for request in 1..=3 * window {
                assert_eq!(apply(&store, request, options).await, written(request));
                assert!(recent_requests(&store).await <= 2 * window);
                // The oldest request of the guaranteed window, and the newest.
                let oldest = request.saturating_sub(window - 1).max(1);
                for repeated in [oldest, request] {
                    assert_eq!(
                        apply(&store, repeated, options).await,
                        duplicate(repeated),
                        "{mode:?} {window}"
                    );
                }
            }
        }
    }
}

#[tokio::test]
async fn a_window_of_one_covers_the_last_request_without_a_map() {
    let database = Database::start().await;
    for mode in MODES {
        let store = database.store(&format!("{mode:?}"), 1).await;
        let options = recent(mode, 1);
        assert_eq!(apply(&store, 1, options).await, written(1));
        assert_eq!(apply(&store, 1, options).await, duplicate(1));
        assert_eq!(apply(&store, 2, options).await, written(2));
        assert_eq!(apply(&store, 1, options).await, written(3));
        let latest = store.get(&entity("E"), "v0", true).await.unwrap().unwrap();
        assert!(!latest.contains_key(names::RECENT_REQUESTS));
    }
}

#[tokio::test]
async fn a_latest_item_without_a_map_is_migrated_and_the_window_can_change() {
    let database = Database::start().await;
    for mode in [WriteMode::Stream, WriteMode::Transaction] {
        let store = database.store(&format!("{mode:?}"), 1).await;
        assert_eq!(apply(&store, 1, recent(mode, 1)).await, written(1));
        // The last request is detected although it was applied before the map existed.
        assert_eq!(apply(&store, 1, recent(mode, 16)).await, duplicate(1));
        assert_eq!(apply(&store, 2, recent(mode, 16)).await, written(2));
        assert_eq!(apply(&store, 1, recent(mode, 16)).await, duplicate(1));
        assert_eq!(recent_requests(&store).await, 2);
        for request in 3..=130 {
            assert_eq!(apply(&store, request, recent(mode, 100)).await, written(request));
        }
        // The map shrinks to a smaller window in steps.
        for request in 131..=140 {
            assert_eq!(apply(&store, request, recent(mode, 2)).await, written(request));
        }
        assert!(recent_requests(&store).await <= 4);
        assert_eq!(apply(&store, 139, recent(mode, 2)).await, duplicate(139));
        // A ledger does not change the map; a window of one removes it.
        assert_eq!(apply(&store, 139, ledger(mode)).await, duplicate(139));
        assert_eq!(apply(&store, 141, ledger(mode)).await, written(141));
        assert_eq!(apply(&store, 139, ledger(mode)).await, duplicate(139));
        assert_eq!(apply(&store, 142, recent(mode, 1)).await, written(142));
        let latest = store.get(&entity("E"), "v0", true).await.unwrap().unwrap();
        assert!(!latest.contains_key(names::RECENT_REQUESTS));
    }
}

#[tokio::test]
async fn a_ledger_detects_every_duplicate_and_rejects_a_different_payload() {
    let database = Database::start().await;
    for mode in MODES {
        let store = database.store(&format!("{mode:?}"), 1).await;
        for request in 1..=40 {
            assert_eq!(apply(&store, request, ledger(mode)).await, written(request));
        }
        for request in [1, 20, 40] {
            assert_eq!(apply(&store, request, ledger(mode)).await, duplicate(request));
        }
        let other = |json: Value, id: &str| Update::parse(json, id, Ordering::Arrival).unwrap();
        let version = Version::FIRST;
        for json in [
            json!({"ID": "E", "N": 2}),
            json!({"ID": "E", "N": 1, "ExpectedVersion": 40}),
            json!({"ID": "E", "N": 1, "ExpectedVersion": 3}),
        ] {
            let reused = store.write(&other(json, "request-1"), ledger(mode)).await;
            assert_eq!(reused, Err(WriteError::RequestIdReused { version }));
        }
        // The same request id for another entity is a different request.
        let elsewhere = other(json!({"ID": "F", "N": 2}), "request-1");
        assert_eq!(store.write(&elsewhere, ledger(mode)).await, Ok(written(1)));
        let latest = store.get(&entity("E"), "v0", true).await.unwrap().unwrap();
        assert!(!latest.contains_key(names::RECENT_REQUESTS));
        let marker = store
            .get(&entity("E"), "request#request-7", true)
            .await
            .unwrap()
            .unwrap();
        assert!(marker.contains_key(names::TTL));
    }
}

#[tokio::test]
async fn concurrent_writers_apply_each_request_once() {
    let database = Database::start().await;
    for (mode, options) in MODES
        .iter()
        .flat_map(|mode| [(mode, recent(*mode, 4)), (mode, ledger(*mode))])
    {
        let ledger = matches!(options.idempotency, Idempotency::Ledger(_));
        let store = database.store(&format!("{mode:?}{ledger}"), 1).await;
        for round in 0..4 {
            // Sends each request twice concurrently.
            let requests = (0..4).flat_map(|index| [4 * round + index, 4 * round + index]);
            let outcomes = join_all(requests.map(|request| apply(&store, request, options))).await;
            let mut created: Vec<_> = outcomes
                .into_iter()
                .filter_map(|outcome| match outcome {
                    WriteOutcome::Written { version } => Some(version.get()),
                    WriteOutcome::Duplicate { .. } => None,
                    other => panic!("{other:?}"),
                })
                .collect();
            created.sort_unstable();
            let first = 4 * round as u64;
            assert_eq!(
                created,
                (first + 1..=first + 4).collect::<Vec<_>>(),
                "{mode:?} {ledger}"
            );
        }
        if *mode == WriteMode::Stream {
            put_version(&store, &entity("E")).await;
        }
    }
}
