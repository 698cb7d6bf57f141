//! Duplicate deliveries of an update: the guarantee of each idempotency setting. The simulation checks interleavings of writers whose
//! clocks differ.

use futures::future::join_all;
use serde_json::{Value, json};
use shared::{config::Window, domain::time::EpochMillis};
use testkit::{
    database::Database,
    updates::{
        Idempotency, MODES, Update, WriteError, WriteMode, WriteOptions, WriteOutcome, duplicate, ledger, mode, parse,
        version, written,
    },
    world::World,
};
use writer_fn::update::sent_at::SentAt;

type Outcome = Result<WriteOutcome, WriteError>;

fn recent(write_mode: WriteMode, window: u8) -> WriteOptions {
    WriteOptions {
        idempotency: Idempotency::Recent(Window::new(window).unwrap()),
        ..mode(write_mode)
    }
}

fn numbered(request: u64) -> Update {
    parse(json!({"ID": "E", "N": request}), &format!("request-{request}"))
}

/// Applies the update of this number, without its version item in the mode `stream`.
async fn apply(world: &World<'_>, request: u64) -> Outcome {
    testkit::updates::apply(&world.store, &numbered(request), world.options).await
}

fn millis(millis: u64) -> EpochMillis {
    EpochMillis::new(i64::try_from(millis).unwrap())
}

/// Delivers an update when the writer's clock shows this time in milliseconds, and puts its version.
async fn send(world: &World<'_>, at: u64, request: &str, mut members: Value, sent: Option<SentAt>) -> Outcome {
    members["ID"] = json!("E");
    let mut update = parse(members, request);
    update.sent_at = sent;
    world.at_millis(at).record(&update).await
}

/// Delivers the update of this number at a second, sent first at another one.
async fn send_number(world: &World<'_>, at: u64, request: u64, value: u64, first: Option<u64>) -> Outcome {
    let sent = first.map(|second| SentAt::since(millis(second * 1000)));
    let id = format!("request-{request}");
    send(world, at * 1000, &id, json!({"N": value}), sent).await
}

/// Returns the size of the latest item's map of recent requests.
async fn recent_requests(world: &World<'_>) -> usize {
    world.v0().await["RecentRequests"]["M"].as_object().unwrap().len()
}

#[tokio::test]
async fn a_duplicate_within_the_window_is_detected_after_any_updates_in_between() {
    let database = Database::start().await;
    for mode in MODES {
        for window in [2, 3, 16] {
            let world = World::new(&database, &format!("{mode:?}{window}"), 1).await;
            let world = world.with(recent(mode, window));
            let window = u64::from(window);
            for request in 1..=3 * window {
                assert_eq!(apply(&world, request).await, Ok(written(request)));
                assert!(recent_requests(&world).await as u64 <= window + 8);
                // The oldest request of the guaranteed window, and the newest.
                for repeated in [request.saturating_sub(window - 1).max(1), request] {
                    let again = apply(&world, repeated).await;
                    assert_eq!(again, Ok(duplicate(repeated)), "{mode:?} {window}");
                }
            }
            // A different update with a request id of the window.
            let other = json!({"RequestId": format!("request-{}", 3 * window)});
            let version = version(3 * window);
            assert_eq!(world.apply(other).await, Err(WriteError::RequestIdReused { version }));
        }
    }
}

#[tokio::test]
async fn an_update_that_is_sent_again_is_found_in_history() {
    let database = Database::start().await;
    for mode in MODES {
        for digits in [1, 10] {
            let world = World::new(&database, &format!("{mode:?}{digits}"), digits).await;
            let world = world.with(recent(mode, 2));
            for request in 1..=130 {
                let first = send_number(&world, 1000 + request, request, request, None).await;
                assert_eq!(first, Ok(written(request)));
            }
            let reused = Err(WriteError::RequestIdReused { version: version(100) });
            for (at, request, value, first, expected) in [
                // Delivered for the first time at these seconds, and again much later.
                (60_000, 10, 10, Some(1010), Ok(duplicate(10))),
                (60_000, 100, 100, Some(1100), Ok(duplicate(100))),
                (60_000, 120, 120, Some(1120), Ok(duplicate(120))),
                (60_000, 130, 130, Some(1130), Ok(duplicate(130))),
                // The first delivery had not applied it.
                (60_000, 131, 131, Some(1050), Ok(written(131))),
                (60_001, 131, 131, Some(1050), Ok(duplicate(131))),
                // A different update with the same request id. A first delivery does not read history.
                (60_002, 100, 7, Some(1100), reused),
                (60_002, 100, 7, None, Ok(written(132))),
            ] {
                let outcome = send_number(&world, at, request, value, first).await;
                assert_eq!(outcome, expected, "{mode:?} {digits} {request} {first:?}");
            }
        }
    }
}

/// An update that was applied before is a duplicate of its version, although by now another rule would decide about it.
#[tokio::test]
async fn an_earlier_delivery_takes_precedence_over_other_rules() {
    let database = Database::start().await;
    let conflict = WriteOutcome::Conflict {
        expected: 0,
        latest: 40,
    };
    let unchanged = WriteOutcome::Unchanged { version: version(40) };
    for mode in MODES {
        for (members, skip_unchanged, of_another) in [
            (json!({"N": 1, "ExpectedVersion": 0}), false, conflict),
            // After the last update, the state equals the first version.
            (json!({"N": 40}), true, unchanged),
        ] {
            let world = World::new(&database, &format!("{mode:?}{skip_unchanged}"), 1).await;
            let world = world.with(WriteOptions {
                skip_unchanged,
                ..recent(mode, 2)
            });
            let sent = |at| Some(SentAt::since(millis(at)));
            let first = send(&world, 1_000_000, "first", members.clone(), sent(1_000_000)).await;
            assert_eq!(first, Ok(written(1)));
            for number in 2..=40 {
                let other = send_number(&world, 1000 + number, number, number, None).await;
                assert_eq!(other, Ok(written(number)));
            }
            for (id, expected) in [("first", duplicate(1)), ("another", of_another)] {
                let again = send(&world, 60_000_000, id, members.clone(), sent(1_000_000)).await;
                assert_eq!(again, Ok(expected), "{mode:?} {members}");
            }
        }
    }
}

#[tokio::test]
async fn a_latest_item_without_a_map_gets_one_and_the_window_can_change() {
    let database = Database::start().await;
    for mode in [WriteMode::Stream, WriteMode::Transaction] {
        let world = World::new(&database, &format!("{mode:?}"), 1).await;
        let apply = async |options: WriteOptions, request: u64| {
            let outcome = apply(&world.clone().with(options), request).await.unwrap();
            (outcome == duplicate(request)) || {
                assert_eq!(outcome, written(request));
                false
            }
        };
        let (window, small, ledger) = (recent(mode, 16), recent(mode, 2), ledger(mode));
        // The last request is detected although it was applied before the map existed.
        assert!(!apply(ledger, 1).await && apply(window, 1).await);
        assert!(!apply(window, 2).await && apply(window, 1).await);
        assert_eq!(recent_requests(&world).await, 2);
        for request in 3..=130 {
            assert!(!apply(recent(mode, 100), request).await);
        }
        // The map shrinks to a smaller window in steps.
        for request in 131..=140 {
            assert!(!apply(small, request).await);
        }
        assert!(recent_requests(&world).await <= 10);
        assert!(apply(small, 139).await);
        // A ledger does not change the map. Its requests are found in history.
        assert!(apply(ledger, 139).await && !apply(ledger, 141).await && apply(ledger, 139).await);
        world.put_version().await;
        assert!(!apply(small, 142).await);
        world.put_version().await;
        let mut late = numbered(141);
        late.sent_at = Some(SentAt::since(millis(0)));
        assert_eq!(world.clone().with(small).record(&late).await, Ok(duplicate(141)));
    }
}

#[tokio::test]
async fn a_ledger_detects_every_duplicate_and_rejects_a_different_payload() {
    let database = Database::start().await;
    for mode in MODES {
        let world = World::new(&database, &format!("{mode:?}"), 1).await.with(ledger(mode));
        for request in 1..=40 {
            assert_eq!(apply(&world, request).await, Ok(written(request)));
        }
        for request in [1, 20, 40] {
            assert_eq!(apply(&world, request).await, Ok(duplicate(request)));
        }
        for mut json in [
            json!({"N": 2}),
            json!({"N": 1, "ExpectedVersion": 40}),
            json!({"N": 1, "ExpectedVersion": 3}),
        ] {
            json["RequestId"] = json!("request-1");
            let reused = Err(WriteError::RequestIdReused { version: version(1) });
            assert_eq!(world.apply(json).await, reused);
        }
        // The same request id for another entity is a different request.
        let elsewhere = json!({"ID": "F", "N": 2, "RequestId": "request-1"});
        assert_eq!(world.apply(elsewhere).await, Ok(written(1)));
        assert!(world.v0().await.get("RecentRequests").is_none());
        assert!(world.item("request#request-7").await.get("TTL").is_some());
    }
}

#[tokio::test]
async fn concurrent_writers_apply_each_request_once() {
    let database = Database::start().await;
    let of_mode = |mode: WriteMode| [recent(mode, 4), ledger(mode)];
    for (number, options) in MODES.into_iter().flat_map(of_mode).enumerate() {
        let world = World::new(&database, &format!("T{number}"), 1).await.with(options);
        for round in 0..4 {
            // Sends each request twice concurrently.
            let requests = (0..4).flat_map(|index| [4 * round + index, 4 * round + index]);
            let outcomes = join_all(requests.map(|request| apply(&world, request))).await;
            let created = outcomes.into_iter().filter_map(|outcome| match outcome.unwrap() {
                WriteOutcome::Written { version } => Some(version.get()),
                WriteOutcome::Duplicate { .. } => None,
                other => panic!("{other:?}"),
            });
            let mut created: Vec<_> = created.collect();
            created.sort_unstable();
            assert_eq!(
                created,
                (4 * round + 1..=4 * round + 4).collect::<Vec<_>>(),
                "{options:?}"
            );
        }
        if options.mode == WriteMode::Stream {
            world.put_version().await;
        }
    }
}
