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

/// Returns a time of the sender in seconds.
fn sent(second: u64) -> SentAt {
    let millis = i64::try_from(second * 1000).unwrap();
    SentAt::since(EpochMillis::new(millis))
}

/// Delivers an update when the writer's clock shows this second, and puts its version.
async fn send(world: &World<'_>, at: u64, request: u64, mut members: Value, sent: Option<SentAt>) -> Outcome {
    members["ID"] = json!("E");
    let mut update = parse(members, &format!("request-{request}"));
    update.sent_at = sent;
    world.at(at).record(&update).await
}

/// Returns the size of the latest item's map of recent requests.
async fn recent_requests(world: &World<'_>) -> usize {
    world.v0().await["RecentRequests"]["M"].as_object().unwrap().len()
}

#[tokio::test]
async fn an_update_that_is_sent_again_is_found_in_history() {
    let database = Database::start().await;
    for mode in MODES {
        for digits in [1, 10] {
            let world = World::new(&database, &format!("{mode:?}{digits}"), digits).await;
            let world = world.with(recent(mode, 2));
            for request in 1..=130 {
                let first = send(&world, 1000 + request, request, json!({"N": request}), None).await;
                assert_eq!(first, Ok(written(request)));
            }
            let reused = Err(WriteError::RequestIdReused { version: version(100) });
            for (request, value, first, expected) in [
                // Delivered for the first time at these seconds, and again much later.
                (10, 10, Some(sent(1010)), Ok(duplicate(10))),
                (100, 100, Some(sent(1100)), Ok(duplicate(100))),
                (120, 120, Some(sent(1120)), Ok(duplicate(120))),
                (130, 130, Some(sent(1130)), Ok(duplicate(130))),
                // The first delivery had not applied it.
                (131, 131, Some(sent(1050)), Ok(written(131))),
                (131, 131, Some(sent(1050)), Ok(duplicate(131))),
                // A different update with the same request id. A first delivery does not read history.
                (100, 7, Some(sent(1100)), reused),
                (100, 7, None, Ok(written(132))),
            ] {
                let outcome = send(&world, 60_000, request, json!({"N": value}), first).await;
                assert_eq!(outcome, expected, "{mode:?} {digits} {request}");
            }
        }
    }
}

/// An update that was applied before is a duplicate of its version, although by now another rule would decide about it.
#[tokio::test]
async fn an_earlier_delivery_takes_precedence_over_other_rules() {
    let database = Database::start().await;
    let (expected, latest) = (0, 40);
    let conflict = WriteOutcome::Conflict { expected, latest };
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
            let first = send(&world, 1000, 1, members.clone(), Some(sent(1000))).await;
            assert_eq!(first, Ok(written(1)));
            for number in 2..=40 {
                let other = send(&world, 1000 + number, number, json!({"N": number}), None).await;
                assert_eq!(other, Ok(written(number)));
            }
            for (request, expected) in [(1, duplicate(1)), (41, of_another)] {
                let again = send(&world, 60_000, request, members.clone(), Some(sent(1000))).await;
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
        late.sent_at = Some(sent(0));
        assert_eq!(world.clone().with(small).record(&late).await, Ok(duplicate(141)));
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
            let expected = 4 * round + 1..=4 * round + 4;
            assert!(expected.eq(created.iter().copied()), "{options:?}: {created:?}");
        }
        if options.mode == WriteMode::Stream {
            world.put_version().await;
        }
    }
}
