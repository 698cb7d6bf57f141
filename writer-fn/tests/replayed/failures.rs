//! Requests of the counter to a DynamoDB that fails or throttles, with replayed responses.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use serde_json::{Value, json};
use shared::{
    clock::Clock,
    config::{Idempotency, MARKER_RETENTION, Ordering, Window, WriteMode, WriteOptions},
    domain::{keys::VersionDigits, recorded_at::RecordedAt, version::Version},
    dynamodb::{Store, client::error::ErrorKind},
    logging::chain,
};
use testkit::replay::{Replay, rejected};
use writer_fn::{
    counter::{self, WriteError, WriteOutcome, ledger::Marker},
    update::Update,
};

/// Returns a store on a DynamoDB that returns these responses, and the requests to it.
pub(crate) fn replaying(responses: &[Value]) -> (Store, Replay) {
    let replay = Replay::new(responses.iter().cloned());
    let store = Store::new(replay.client(), "Table", VersionDigits::default());
    (store, replay)
}

async fn write(store: &Store, mode: WriteMode, json: Value) -> Result<WriteOutcome, WriteError> {
    let options = WriteOptions {
        mode,
        ..WriteOptions::default()
    };
    counter::write(store, &update(json), options).await
}

fn update(json: Value) -> Update {
    Update::parse(json, "request-1", Ordering::Arrival).unwrap()
}

pub(crate) fn version(number: u64) -> Version {
    Version::new(number).unwrap()
}

pub(crate) fn v0(latest: &str, request: &str) -> Value {
    json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": latest}, "RequestId": {"S": request}})
}

fn cancelled(codes: [&str; 2]) -> Value {
    let reasons = codes.map(|code| json!({"Code": code}));
    json!({"__type": "TransactionCanceledException", "CancellationReasons": reasons})
}

fn failed() -> Value {
    json!({"__type": "InternalServerError"})
}

#[tokio::test(start_paused = true)]
async fn inline_retries_only_the_put() {
    let updated = json!({"Attributes": v0("7", "request-1")});
    // The SDK's three attempts of the put fail, and the next one succeeds.
    let (store, replay) = replaying(&[updated.clone(), failed(), failed(), failed(), json!({})]);
    let outcome = write(&store, WriteMode::Inline, json!({"ID": "E"})).await;
    assert_eq!(outcome, Ok(WriteOutcome::Written { version: version(7) }));
    assert_eq!(
        replay.operations(),
        ["UpdateItem", "PutItem", "PutItem", "PutItem", "PutItem"]
    );

    let mut responses = vec![updated];
    responses.extend(std::iter::repeat_n(failed(), 9));
    let (store, replay) = replaying(&responses);
    let error = write(&store, WriteMode::Inline, json!({"ID": "E"})).await.unwrap_err();
    assert!(matches!(error, WriteError::NotRecorded { version: named, .. } if named == version(7)));
    assert!(chain(&error).starts_with("version 7 was applied but not recorded: PutItem failed"));
    assert_eq!(
        replay
            .operations()
            .iter()
            .filter(|operation| *operation == "UpdateItem")
            .count(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn a_lost_race_is_retried_with_a_new_read() {
    let read = |latest: &str, request: &str| {
        let mut item = v0(latest, request);
        item["RecentRequests"] = json!({"M": {}});
        json!({"Item": item})
    };
    for lost in [
        cancelled(["ConditionalCheckFailed", "None"]),
        cancelled(["TransactionConflict", "None"]),
        cancelled(["None", "TransactionConflict"]),
    ] {
        let (store, replay) = replaying(&[read("1", "a"), lost.clone(), read("2", "b"), json!({})]);
        let outcome = write(&store, WriteMode::Transaction, json!({"ID": "E"})).await;
        assert_eq!(outcome, Ok(WriteOutcome::Written { version: version(3) }), "{lost}");
        assert_eq!(replay.operations().len(), 4);
    }
    // An earlier attempt was applied after all, and the map has dropped it.
    let request_of = |number| if number == 30 { "request-1" } else { "another" }.to_owned();
    let (overtaken, conflict) = (overtaken().0, cancelled(["TransactionConflict", "None"]));
    let (store, _) = replaying(&[
        read("1", "a"),
        conflict,
        json!({"Item": overtaken}),
        history(24..=39, request_of),
    ]);
    let outcome = write(&store, WriteMode::Transaction, json!({"ID": "E"})).await;
    assert_eq!(outcome, Ok(WriteOutcome::Duplicate { version: version(30) }));
    // If a version is expected, the winner of the race decides the outcome. It can be a previous delivery of the same request.
    let lost = cancelled(["ConditionalCheckFailed", "None"]);
    for (winner, expected) in [
        ("b", WriteOutcome::Conflict { expected: 1, latest: 2 }),
        ("request-1", WriteOutcome::Duplicate { version: version(2) }),
    ] {
        let (store, _) = replaying(&[read("1", "a"), lost.clone(), read("2", winner)]);
        let outcome = write(&store, WriteMode::Transaction, json!({"ID": "E", "ExpectedVersion": 1})).await;
        assert_eq!(outcome, Ok(expected));
    }
    // The number of attempts is limited.
    let round = [read("1", "a"), lost];
    let (store, replay) = replaying(&round.iter().cycle().take(40).cloned().collect::<Vec<_>>());
    let outcome = write(&store, WriteMode::Transaction, json!({"ID": "E"})).await;
    assert_eq!(outcome, Err(WriteError::Contended { attempts: 10 }));
    assert_eq!(replay.operations().len(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_ledger_detects_a_duplicate_after_later_updates() {
    let ledgered = async |responses: &[Value], skip_unchanged: bool, json: Value| {
        let (store, replay) = replaying(responses);
        let options = WriteOptions {
            idempotency: Idempotency::Ledger,
            skip_unchanged,
            ..WriteOptions::default()
        };
        (
            counter::write(&store, &update(json), options).await,
            replay.operations().len(),
        )
    };
    let plain = json!({"ID": "E", "A": 1});
    let expecting = json!({"ID": "E", "A": 1, "ExpectedVersion": 1});
    let latest = json!({"Item": v0("9", "another")});
    let marker = |json: &Value| {
        let marker = Marker {
            version: version(2),
            payload: Some(update(json.clone()).payload()),
        };
        serde_json::to_value(marker.item(&update(json.clone()), 1)).unwrap()
    };
    let rejected = |item: Option<Value>| {
        let mut reason = json!({"Code": "ConditionalCheckFailed"});
        if let Some(item) = item {
            reason["Item"] = item;
        }
        json!({"__type": "TransactionCanceledException", "CancellationReasons": [{"Code": "None"}, reason]})
    };
    let duplicate = || Ok(WriteOutcome::Duplicate { version: version(2) });
    let reused = || Err(WriteError::RequestIdReused { version: version(2) });
    let unchanging = json!({"ID": "E"});
    let stored = |json: &Value| json!({"Item": marker(json)});
    let conflict = Ok(WriteOutcome::Conflict { expected: 1, latest: 9 });
    let unchanged = Ok(WriteOutcome::Unchanged { version: version(9) });
    let written = Ok(WriteOutcome::Written { version: version(10) });
    let raced = [cancelled(["TransactionConflict", "None"]), latest.clone(), json!({})];
    // Responses after the read of the latest item.
    for (responses, skip_unchanged, update, expected) in [
        (&[rejected(Some(marker(&plain)))][..], false, &plain, duplicate()),
        // Some engines do not return the item.
        (&[rejected(None), stored(&plain)], false, &plain, duplicate()),
        (&[rejected(Some(marker(&expecting)))], false, &plain, reused()),
        // An applied update can violate other rules by now: the marker takes precedence.
        (&[stored(&expecting)], false, &expecting, duplicate()),
        (&[stored(&plain)], false, &expecting, reused()),
        (&[json!({})], false, &expecting, conflict),
        (&[stored(&unchanging)], true, &unchanging, duplicate()),
        (&[json!({})], true, &unchanging, unchanged),
        // A transaction conflict is retried.
        (&raced, false, &plain, written),
    ] {
        let responses = [std::slice::from_ref(&latest), responses].concat();
        let (outcome, requests) = ledgered(&responses, skip_unchanged, update.clone()).await;
        assert_eq!(
            (outcome, requests),
            (expected, responses.len()),
            "{update} {responses:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_update_expression_depends_on_the_map_of_recent_requests() {
    let (before, no_versions) = (v0("6", "another"), json!({"Items": []}));
    let with_requests = |count: usize| {
        let mut item = before.clone();
        let requests = (1..=count).map(|number| (format!("hash-{number}"), json!({"N": number.to_string()})));
        item["RecentRequests"] = json!({"M": Value::Object(requests.collect())});
        rejected(Some(item))
    };
    let (window, done) = (Window::default(), json!({"Attributes": {"Latest": {"N": "7"}}}));
    let full = with_requests(window.max_entries());
    for (responses, clause, count) in [
        // A first update, and a latest item without a map: another writer can create the map in between.
        (&[rejected(None), no_versions.clone()][..], "#recent = :requests", 1),
        (&[rejected(Some(before.clone()))], "#recent = :requests", 1),
        (&[rejected(None), no_versions, with_requests(1)], "#recent.#hash =", 1),
        // A full map is pruned to the window, with this request as its newest entry.
        (
            std::slice::from_ref(&full),
            "#recent.#f",
            window.max_entries() + 1 - window.get(),
        ),
    ] {
        let (store, replay) = replaying(&[responses, std::slice::from_ref(&done)].concat());
        let outcome = write(&store, WriteMode::Stream, json!({"ID": "E"})).await;
        assert_eq!(outcome, Ok(WriteOutcome::Written { version: version(7) }));
        let last = replay.bodies().pop().unwrap();
        let expression = last["UpdateExpression"].as_str().unwrap();
        assert_eq!(expression.matches(clause).count(), count, "{expression}");
    }
    // A condition check that fails although the returned item meets it is an error.
    let (store, _) = replaying(&[full.clone(), full]);
    let outcome = write(&store, WriteMode::Stream, json!({"ID": "E"})).await;
    assert_eq!(outcome, Err(WriteError::FailedWithoutViolation));
}

/// Returns a latest item of version 40 that has dropped all requests but the last one, and a condition that failed on it.
fn overtaken() -> (Value, Value) {
    let mut latest = v0("40", "another");
    latest["RecentRequests"] = json!({"M": {"key-40": {"N": "40.00001"}}});
    latest["RequestsDropped"] = json!({"N": "39"});
    latest["RequestsSince"] = json!({"N": "99999999999999"});
    latest["RecordedAt"] = json!({"S": "9000-01-01T00:00:00.000000000Z"});
    let failure = rejected(Some(latest.clone()));
    (latest, failure)
}

pub(crate) fn history(versions: std::ops::RangeInclusive<u64>, request_of: impl Fn(u64) -> String) -> Value {
    let item = |number: u64| json!({"PK": {"S": "E"}, "SK": {"S": format!("v{number}")}, "RequestId": {"S": request_of(number)}});
    json!({"Responses": {"Table": versions.map(item).collect::<Vec<_>>()}})
}

/// The first request is applied, its response is lost, and other updates follow until the recent requests no longer have it.
#[tokio::test(start_paused = true)]
async fn a_retry_finds_its_first_request_in_history() {
    let (latest, failure) = overtaken();
    let of_version_30 = |number| match number {
        30 => "request-1".to_owned(),
        number => format!("r-{number}"),
    };
    let (store, replay) = replaying(&[failed(), failure.clone(), history(24..=39, of_version_30)]);
    let outcome = write(&store, WriteMode::Stream, json!({"ID": "E"})).await;
    assert_eq!(outcome, Ok(WriteOutcome::Duplicate { version: version(30) }));
    assert_eq!(replay.operations(), ["UpdateItem", "UpdateItem", "BatchGetItem"]);

    // Without it, the update is sent again, on condition that no later version has been dropped.
    let others = |number: u64| format!("r-{number}");
    let read = json!({"Item": latest});
    let applied = json!({"Attributes": {"Latest": {"N": "41"}}});
    let pages = [
        history(24..=39, others),
        read.clone(),
        history(1..=23, others),
        read.clone(),
    ];
    let (store, replay) = replaying(&[&[failed(), failure.clone()][..], &pages, &[applied]].concat());
    let outcome = write(&store, WriteMode::Stream, json!({"ID": "E"})).await;
    assert_eq!(outcome, Ok(WriteOutcome::Written { version: version(41) }));
    let last = replay.bodies().pop().unwrap();
    assert!(
        last["ConditionExpression"]
            .as_str()
            .unwrap()
            .contains("#latest >= :base AND (attribute_not_exists(#dropped) OR #dropped <= :base)"),
        "{last}"
    );
    assert_eq!(last["ExpressionAttributeValues"][":base"]["N"], "40");

    // The version was pruned.
    let missing = json!({"Responses": {"Table": []}});
    let floor = json!({"Item": {"Floor": {"N": "40"}}});
    let (store, _) = replaying(&[failed(), failure.clone(), missing, floor]);
    let outcome = write(&store, WriteMode::Stream, json!({"ID": "E"})).await;
    assert_eq!(outcome, Err(WriteError::Pruned { version: version(39) }));

    // Meanwhile, the latest item is deleted: the update must not count from 1.
    let versions = json!({"Items": [{"PK": {"S": "E"}, "SK": {"S": "v40"}}]});
    let deleted = [json!({}), versions.clone(), json!({}), json!({}), versions];
    let (store, _) = replaying(&[&[failed(), failure.clone(), history(24..=39, others)], &deleted[..]].concat());
    let outcome = write(&store, WriteMode::Stream, json!({"ID": "E"})).await;
    assert_eq!(outcome, Err(WriteError::CounterMissing { version: version(40) }));

    // History does not catch up.
    let missing = json!({"Responses": {"Table": []}});
    let waiting = std::iter::repeat_n([missing.clone(), read.clone()], 60).flatten();
    let responses: Vec<_> = [failed(), failure, missing.clone(), json!({}), read.clone()]
        .into_iter()
        .chain(waiting)
        .collect();
    let (store, _) = replaying(&responses);
    let outcome = write(&store, WriteMode::Stream, json!({"ID": "E"})).await;
    assert_eq!(outcome, Err(WriteError::HistoryBehind { version: version(39) }));
}

#[tokio::test(start_paused = true)]
async fn after_no_response_the_identical_request_is_sent_again() {
    // Each look at the clock is 20 ms later. Another writer is faster, so the second request adds a tick to that writer's time.
    let start = Duration::from_secs(1_795_328_688);
    let looks = AtomicU64::new(0);
    let clock = Clock::new(move || start + Duration::from_millis(20 * looks.fetch_add(1, Relaxed)));
    let mut faster = v0("3", "r-3");
    faster["RecordedAt"] = json!({"S": RecordedAt::since_epoch(start + Duration::from_millis(15)).to_string()});
    faster["RecentRequests"] = json!({"M": {}});
    let raced = rejected(Some(faster));
    let applied = json!({"Attributes": {"Latest": {"N": "4"}}});
    let (store, replay) = replaying(&[failed(), raced, failed(), applied]);
    let outcome = write(&store.with_clock(clock), WriteMode::Stream, json!({"ID": "E"})).await;
    assert_eq!(outcome, Ok(WriteOutcome::Written { version: version(4) }));
    let bodies = replay.bodies();
    assert_eq!(bodies[0], bodies[1]);
    assert!(
        bodies[2]["ConditionExpression"]
            .as_str()
            .unwrap()
            .contains("#latest >= :base")
    );
    assert_eq!(bodies[2], bodies[3]);
}

/// A search reads 10,000 versions at most.
#[tokio::test(start_paused = true)]
async fn a_search_that_needs_too_many_versions_decides_nothing() {
    let mut latest = v0("20000", "another");
    latest["RecentRequests"] = json!({"M": {}});
    latest["RequestsDropped"] = json!({"N": "20000"});
    latest["RequestsSince"] = json!({"N": "1"});
    let failure = rejected(Some(latest.clone()));
    let read = json!({"Item": latest});
    let (mut responses, mut high) = (vec![failure], 20_000);
    while high > 10_000 {
        let low = (high + 1 - if high == 20_000 { 16 } else { 100 }).max(10_001);
        responses.extend([history(low..=high, |number| format!("r-{number}")), read.clone()]);
        high = low - 1;
    }
    // The last page decides.
    responses.pop();
    let (store, replay) = replaying(&responses);
    let outcome = write(&store, WriteMode::Stream, json!({"ID": "E", "RequestSentAt": 0})).await;
    assert_eq!(outcome, Err(WriteError::TooManyToSearch));
    assert_eq!(replay.operations().len(), responses.len());
}

#[tokio::test(start_paused = true)]
async fn other_cancellation_reasons_determine_the_error_kind() {
    let read = json!({"Item": v0("1", "a")});
    for (codes, kind) in [
        (["ThrottlingError", "None"], ErrorKind::Throttled),
        (["None", "ProvisionedThroughputExceeded"], ErrorKind::Throttled),
        (["ValidationError", "None"], ErrorKind::Rejected),
        (["Unheard", "None"], ErrorKind::Unavailable),
    ] {
        let (store, _) = replaying(&[read.clone(), cancelled(codes)]);
        let error = write(&store, WriteMode::Transaction, json!({"ID": "E"}))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), kind, "{codes:?}");
    }
    let (store, _) = replaying(&[read, cancelled(["None", "ConditionalCheckFailed"])]);
    let taken = Err(WriteError::Taken { version: version(2) });
    assert_eq!(write(&store, WriteMode::Transaction, json!({"ID": "E"})).await, taken);
}

#[tokio::test]
async fn a_marker_of_the_ledger_expires_by_the_clock_of_the_store() {
    let replay = Replay::new([json!({}), json!({}), json!({}), json!({})]);
    let clock = Clock::new(|| Duration::from_secs(1_000));
    let store = Store::new(replay.client(), "Table", VersionDigits::default()).with_clock(clock);
    let options = WriteOptions {
        mode: WriteMode::Stream,
        idempotency: Idempotency::Ledger,
        ..WriteOptions::default()
    };
    let update = update(json!({"ID": "E", "State": "OK"}));
    // Only the request matters.
    let _ = counter::write(&store, &update, options).await;
    let requests = replay.requests();
    let transaction = requests.iter().find(|(operation, _)| operation == "TransactWriteItems");
    let items = transaction.unwrap().1["TransactItems"].as_array().unwrap().clone();
    let marker = items.iter().find_map(|item| item.pointer("/Put/Item/TTL/N"));
    let expires = (Duration::from_secs(1_000) + MARKER_RETENTION).as_secs();
    assert_eq!(marker, Some(&json!(expires.to_string())));
}
