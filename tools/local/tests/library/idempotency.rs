//! Duplicate deliveries of an update: the guarantee of each idempotency setting, on a real table.

use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use shared::{
    clock::Clock,
    config::{Idempotency, Ordering, Retention, Window, WriteMode, WriteOptions},
    domain::{names, time::EpochMillis},
    dynamodb::Store,
};
use testkit::database::{Database, MODES, duplicate, entity, item, mode, put_version, record, version, written};
use writer_fn::{
    counter::{self, WriteError, WriteOutcome},
    update::{Update, sent_at::SentAt},
};

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

async fn apply(store: &Store, request: u64, options: WriteOptions) -> WriteOutcome {
    let json = json!({"ID": "E", "N": request});
    let update = Update::parse(json, &format!("request-{request}"), Ordering::Arrival).unwrap();
    counter::write(store, &update, options).await.unwrap()
}

/// A delivery of an update of the entity `E`.
struct Delivery<'a> {
    /// Time of the writer's clock in milliseconds.
    at: u64,
    request: &'a str,
    members: Value,
    sent: Option<SentAt>,
}

impl Delivery<'_> {
    /// Applies the update, and puts its version.
    async fn send(mut self, store: &Store, options: WriteOptions) -> Result<WriteOutcome, WriteError> {
        self.members["ID"] = json!("E");
        let mut update = Update::parse(self.members, self.request, Ordering::Arrival).unwrap();
        update.sent_at = self.sent;
        let clock = Clock::new(move || Duration::from_millis(self.at));
        record(&store.clone().with_clock(clock), &update, options).await
    }
}

fn millis(millis: u64) -> EpochMillis {
    EpochMillis::new(i64::try_from(millis).unwrap())
}

/// Returns the size of the latest item's map of recent requests.
async fn recent_requests(store: &Store) -> u64 {
    let latest = item(store, "E", "v0").await;
    latest[names::RECENT_REQUESTS]["M"].as_object().unwrap().len() as u64
}

#[tokio::test]
async fn a_duplicate_within_the_window_is_detected_after_any_updates_in_between() {
    let database = Database::start().await;
    for mode in MODES {
        for window in [2, 3, 16] {
            let store = database.store(&format!("{mode:?}{window}"), 1).await;
            let options = recent(mode, window);
            let window = u64::from(window);
            for request in 1..=3 * window {
                assert_eq!(apply(&store, request, options).await, written(request));
                assert!(recent_requests(&store).await <= window + 8);
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
            // A different update with a request id of the window.
            let other = Update::parse(
                json!({"ID": "E"}),
                &format!("request-{}", 3 * window),
                Ordering::Arrival,
            )
            .unwrap();
            let version = version(3 * window);
            assert_eq!(
                counter::write(&store, &other, options).await,
                Err(WriteError::RequestIdReused { version })
            );
        }
    }
}

#[tokio::test]
async fn an_update_that_is_sent_again_is_found_in_history() {
    let database = Database::start().await;
    for mode in MODES {
        for digits in [1, 10] {
            let store = database.store(&format!("{mode:?}{digits}"), digits).await;
            let options = recent(mode, 2);
            let send = async |second: u64, request: u64, value: u64, sent_at: Option<u64>| {
                let delivery = Delivery {
                    at: second * 1000,
                    request: &format!("request-{request}"),
                    members: json!({"N": value}),
                    sent: sent_at.map(|second| SentAt::since(millis(second * 1000))),
                };
                delivery.send(&store, options).await
            };
            for request in 1..=130 {
                assert_eq!(send(1000 + request, request, request, None).await, Ok(written(request)));
            }
            // Delivered for the first time at 1010 and 1100 seconds, and again much later.
            for (request, first) in [(10, 1010), (100, 1100), (120, 1120), (130, 1130)] {
                let again = send(60_000, request, request, Some(first)).await;
                assert_eq!(again, Ok(duplicate(request)), "{mode:?} {request}");
            }
            // The first delivery had not applied it.
            assert_eq!(send(60_000, 131, 131, Some(1050)).await, Ok(written(131)));
            assert_eq!(send(60_001, 131, 131, Some(1050)).await, Ok(duplicate(131)));
            // A different update with the same request id.
            let version = version(100);
            for first in [1100, 1130] {
                let sent_at = Some(first).filter(|first| *first == 1100);
                let reused = send(60_002, 100, 7, sent_at).await;
                match sent_at {
                    Some(_) => assert_eq!(reused, Err(WriteError::RequestIdReused { version })),
                    // A first delivery does not read history.
                    None => assert_eq!(reused, Ok(written(132))),
                }
            }
        }
    }
}

/// The requests of versions that have no entry in the map count as sent at the latest time that is possible: writers' clocks can be
/// behind that of the queue, and a sender can claim a time in the future.
#[tokio::test]
async fn a_late_delivery_is_detected_beside_requests_without_an_entry() {
    const T: u64 = 1_795_328_688;
    let database = Database::start().await;
    let time = |second: u64| millis(second * 1000);
    let ledger = WriteOptions {
        idempotency: Idempotency::Ledger(Retention::default()),
        ..mode(WriteMode::Stream)
    };
    let recent = recent(WriteMode::Stream, 10);
    let exactly = (SentAt::exactly(time(T)), T - 4, T + 60);
    let claimed = (SentAt::claimed(time(T + 3600)), T, T + 7200);
    for (name, (sent, applied_at, again_at), first, others, removes_map) in [
        ("MapRemoved", exactly, recent, recent, true),
        ("MapRemovedAfterClaim", claimed, recent, recent, true),
        ("Ledger", exactly, ledger, ledger, false),
        ("LedgerAfterClaim", claimed, ledger, ledger, false),
        ("LedgerLater", claimed, recent, ledger, false),
    ] {
        let store = database.store(name, 1).await;
        let send = async |second: u64, id: &str, sent: Option<SentAt>, options: WriteOptions| {
            let delivery = Delivery {
                at: second * 1000,
                request: id,
                members: json!({"A": id}),
                sent,
            };
            delivery.send(&store, options).await
        };
        assert_eq!(send(T - 10, "first", None, recent).await, Ok(written(1)));
        assert_eq!(send(applied_at, "u", Some(sent), first).await, Ok(written(2)));
        // More than the map holds.
        for other in 3..30 {
            let at = applied_at + if other == 3 { 1 } else { 2 };
            assert_eq!(
                send(at, &format!("r-{other}"), None, others).await,
                Ok(written(other)),
                "{name}"
            );
        }
        if removes_map {
            let mut latest = item(&store, "E", "v0").await;
            for name in [names::RECENT_REQUESTS, names::REQUESTS_SINCE, names::REQUESTS_DROPPED] {
                latest.as_object_mut().unwrap().remove(name);
            }
            database.put(name, latest).await;
            assert_eq!(send(applied_at + 2, "x", None, recent).await, Ok(written(30)), "{name}");
        }
        assert_eq!(
            send(again_at, "u", Some(sent), recent).await,
            Ok(duplicate(2)),
            "{name}"
        );
    }
}

/// A writer's clock is 3.5 s ahead once, so that all later versions have its time, with ticks. Then times prove nothing.
#[tokio::test]
async fn a_late_delivery_is_detected_although_the_time_of_the_latest_item_stands_still() {
    let database = Database::start().await;
    for mode in MODES {
        let store = database.store(&format!("{mode:?}"), 1).await;
        let options = recent(mode, 10);
        let send = async |at: u64, request: u64, sent: Option<u64>| {
            let delivery = Delivery {
                at,
                request: &format!("request-{request}"),
                members: json!({"N": request}),
                sent: sent.map(|sent| SentAt::exactly(millis(sent))),
            };
            delivery.send(&store, options).await.unwrap()
        };
        for request in 1..=30 {
            send(100_000 + request, request, None).await;
        }
        assert_eq!(send(103_600, 31, None).await, written(31));
        // Sent long before, delivered now and, because its response was lost, after 30 other updates again.
        assert_eq!(send(100_200, 32, Some(90_000)).await, written(32));
        for request in 33..=62 {
            assert_eq!(send(100_200 + request, request, None).await, written(request));
        }
        for sent in [90_000, 99_000] {
            assert_eq!(send(101_000, 32, Some(sent)).await, duplicate(32), "{mode:?}");
        }
    }
}

/// With `skip_unchanged`, an update that changes nothing can have been applied by an earlier delivery.
#[tokio::test]
async fn a_late_duplicate_names_its_version_although_it_changes_nothing() {
    let database = Database::start().await;
    for mode in MODES {
        let store = database.store(&format!("{mode:?}"), 1).await;
        let send = async |second: u64, id: &str, value: u64, skip_unchanged: bool| {
            let delivery = Delivery {
                at: second * 1000,
                request: id,
                members: json!({"N": value}),
                sent: Some(SentAt::exactly(millis(second * 1000))),
            };
            let options = WriteOptions {
                skip_unchanged,
                ..recent(mode, 2)
            };
            delivery.send(&store, options).await.unwrap()
        };
        assert_eq!(send(1000, "late", 0, true).await, written(1));
        for number in 1..=20 {
            assert_eq!(
                send(1000 + number, &format!("r-{number}"), number % 20, false).await,
                written(number + 1)
            );
        }
        // The state is that of the first version again.
        assert_eq!(send(1000, "late", 0, true).await, duplicate(1), "{mode:?}");
        let unchanged = WriteOutcome::Unchanged { version: version(21) };
        assert_eq!(send(1000, "another", 0, true).await, unchanged, "{mode:?}");
    }
}

#[tokio::test]
async fn an_update_that_was_applied_is_a_duplicate_although_its_expected_version_is_old() {
    let database = Database::start().await;
    for mode in MODES {
        let store = database.store(&format!("{mode:?}"), 1).await;
        let options = recent(mode, 2);
        let send = async |second: u64, members: Value, id: &str, sent_at: Option<u64>| {
            let delivery = Delivery {
                at: second * 1000,
                request: id,
                members,
                sent: sent_at.map(millis).map(SentAt::since),
            };
            delivery.send(&store, options).await
        };
        let expecting = json!({"ID": "E", "N": 1, "ExpectedVersion": 0});
        assert_eq!(send(1000, expecting.clone(), "first", None).await, Ok(written(1)));
        for number in 2..=40 {
            let json = json!({"ID": "E", "N": number});
            let outcome = send(1000 + number, json, &format!("r-{number}"), None).await;
            assert_eq!(outcome, Ok(written(number)));
        }
        let again = send(60_000, expecting.clone(), "first", Some(1_000_000)).await;
        assert_eq!(again, Ok(duplicate(1)), "{mode:?}");
        let conflict = Ok(WriteOutcome::Conflict {
            expected: 0,
            latest: 40,
        });
        assert_eq!(
            send(60_000, expecting, "another", Some(1_000_000)).await,
            conflict,
            "{mode:?}"
        );
    }
}

#[tokio::test]
async fn a_latest_item_without_a_map_gets_one_and_the_window_can_change() {
    let database = Database::start().await;
    for mode in [WriteMode::Stream, WriteMode::Transaction] {
        let store = database.store(&format!("{mode:?}"), 1).await;
        assert_eq!(apply(&store, 1, ledger(mode)).await, written(1));
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
        assert!(recent_requests(&store).await <= 10);
        assert_eq!(apply(&store, 139, recent(mode, 2)).await, duplicate(139));
        // A ledger does not change the map. Its requests are found in history.
        assert_eq!(apply(&store, 139, ledger(mode)).await, duplicate(139));
        assert_eq!(apply(&store, 141, ledger(mode)).await, written(141));
        assert_eq!(apply(&store, 139, ledger(mode)).await, duplicate(139));
        put_version(&store, &entity("E")).await;
        assert_eq!(apply(&store, 142, recent(mode, 2)).await, written(142));
        put_version(&store, &entity("E")).await;
        let json = json!({"ID": "E", "N": 141});
        let mut late = Update::parse(json, "request-141", Ordering::Arrival).unwrap();
        late.sent_at = Some(SentAt::since(EpochMillis::new(0)));
        assert_eq!(counter::write(&store, &late, recent(mode, 2)).await, Ok(duplicate(141)));
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
        let version = version(1);
        for json in [
            json!({"ID": "E", "N": 2}),
            json!({"ID": "E", "N": 1, "ExpectedVersion": 40}),
            json!({"ID": "E", "N": 1, "ExpectedVersion": 3}),
        ] {
            let reused = counter::write(&store, &other(json, "request-1"), ledger(mode)).await;
            assert_eq!(reused, Err(WriteError::RequestIdReused { version }));
        }
        // The same request id for another entity is a different request.
        let elsewhere = other(json!({"ID": "F", "N": 2}), "request-1");
        assert_eq!(counter::write(&store, &elsewhere, ledger(mode)).await, Ok(written(1)));
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
            let first = 4 * round;
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
