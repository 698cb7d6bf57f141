//! Requests of a purge to a DynamoDB that fails, or that other clients write, with replayed responses and paused time.

use std::{cell::Cell, time::Duration};

use operations::purge::entity::{DEFAULT_WAIT, ItemCounts, PurgeError};
use serde_json::{Value, json};
use shared::{
    clock::Clock,
    domain::{
        entity::EntityId,
        keys::{ItemKind, VersionDigits},
        version::Version,
    },
    dynamodb::{Store, client::error::ErrorKind},
};
use testkit::replay::Replay;
use tokio::time::Instant;

/// Time of the operator's clock.
const NOW: u64 = 1_795_328_688;
const ZERO: Duration = Duration::ZERO;

/// Result of a purge with replayed responses.
struct Purged {
    done: Result<(), PurgeError>,
    /// Deleted latest items and versions.
    deleted: [u64; 2],
    requests: Vec<(String, Value)>,
    /// Announced and actual duration of the wait.
    waited: (Option<Duration>, Duration),
}

impl Purged {
    fn operations(&self) -> Vec<&str> {
        self.requests.iter().map(|(operation, _)| operation.as_str()).collect()
    }
}

async fn purge(wait: Duration, responses: &[Vec<Value>]) -> Purged {
    let replay = Replay::new(responses.concat());
    let clock = Clock::new(|| Duration::from_secs(NOW));
    let store = Store::new(replay.client(), "Table", VersionDigits::default()).with_clock(clock);
    let (start, announced) = (Instant::now(), Cell::new(None));
    let mut deleted = ItemCounts::new();
    let entity = EntityId::new("E").unwrap();
    let done =
        operations::purge::entity::purge(&store, &entity, wait, |wait| announced.set(Some(wait)), &mut deleted).await;
    Purged {
        done,
        deleted: [ItemKind::Latest, ItemKind::Version].map(|kind| deleted.get(&kind).copied().unwrap_or_default()),
        requests: replay.requests(),
        waited: (announced.get(), start.elapsed()),
    }
}

fn time(second: u64) -> String {
    let time = shared::domain::recorded_at::RecordedAt::since_epoch(Duration::from_secs(second));
    time.to_string()
}

/// Returns a latest item that was recorded this many seconds after 1970.
fn v0(latest: u64, second: u64) -> Value {
    json!({"Item": {
        "PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": latest.to_string()}, "RecordedAt": {"S": time(second)},
        "V0Id": {"S": "current"},
    }})
}

/// Returns versions that history has, each with its incarnation.
fn history(versions: &[(&str, &str)]) -> Value {
    let item =
        |(key, incarnation): &(&str, &str)| json!({"PK": {"S": "E"}, "SK": {"S": key}, "V0Id": {"S": incarnation}});
    json!({"Items": versions.iter().map(item).collect::<Vec<_>>()})
}

fn none() -> Value {
    json!({})
}

fn keys(keys: &[&str]) -> Value {
    let keys: Vec<_> = keys.iter().map(|key| json!({"SK": {"S": key}})).collect();
    json!({ "Items": keys })
}

fn markers(markers: &[Value]) -> Value {
    json!({"Responses": {"Table": markers}, "UnprocessedKeys": {}})
}

fn condition_failed() -> Value {
    json!({"__type": "ConditionalCheckFailedException"})
}

/// Returns the responses until the marker is written.
fn until_marked(latest: Value) -> Vec<Value> {
    vec![latest, history(&[]), markers(&[]), json!({})]
}

/// Returns the responses to the last check.
fn gone() -> Vec<Value> {
    vec![none(), keys(&[])]
}

#[tokio::test(start_paused = true)]
async fn a_purge_waits_for_the_stream_and_checks_again() {
    let before = v0(2, NOW - 5);
    let purged = purge(
        DEFAULT_WAIT,
        &[
            until_marked(before.clone()),
            vec![keys(&["v0", "v1"]), json!({})],
            // The stream was behind: version 2 arrived during the wait.
            vec![before, keys(&["v0", "v2"]), json!({}), json!({})],
            gone(),
        ],
    )
    .await;
    assert_eq!((&purged.done, purged.deleted), (&Ok(()), [1, 2]));
    assert_eq!(
        purged.operations(),
        [
            "GetItem",
            "Query",
            "BatchGetItem",
            "PutItem",
            "Query",
            "BatchWriteItem",
            "GetItem",
            "Query",
            "BatchWriteItem",
            "DeleteItem",
            "GetItem",
            "Query"
        ]
    );
    assert_eq!(purged.waited, (Some(DEFAULT_WAIT), DEFAULT_WAIT));
    let marker = &purged.requests[3].1["Item"];
    assert_eq!(marker["PurgedAt"]["S"], time(NOW));
    assert_eq!(marker["Purged"], json!({"M": {"current": {"N": "2"}}}));
    assert_eq!(marker.as_object().unwrap().len(), 4, "{marker}");
    assert!(!marker["PK"].to_string().contains("\"E\""), "{marker}");
}

/// The incarnation, and not the time, tells its versions from versions of a later entity.
#[tokio::test(start_paused = true)]
async fn a_time_far_ahead_prolongs_no_wait() {
    let before = v0(1, NOW + 31_536_000);
    let responses = [
        until_marked(before.clone()),
        vec![keys(&["v0"]), before.clone(), keys(&["v0"]), json!({})],
        gone(),
    ];
    let waited = (Some(DEFAULT_WAIT), DEFAULT_WAIT);
    assert_eq!(purge(DEFAULT_WAIT, &responses).await.waited, waited);
    let responses = [until_marked(before), vec![keys(&["v0"]), json!({})], gone()];
    let purged = purge(ZERO, &responses).await;
    assert_eq!((purged.done, purged.waited), (Ok(()), (None, ZERO)));
}

/// Another program overwrote the latest item, and an update began a new incarnation.
#[tokio::test(start_paused = true)]
async fn all_incarnations_that_history_has_are_purged() {
    let versions = history(&[("v1", "first"), ("v10", "current"), ("v2", "first")]);
    let responses = [
        vec![v0(11, NOW), versions, markers(&[]), json!({})],
        vec![keys(&["v0"]), json!({})],
        gone(),
    ];
    let purged = purge(ZERO, &responses).await;
    assert_eq!(purged.done, Ok(()));
    assert_eq!(
        purged.requests[3].1["Item"]["Purged"],
        json!({"M": {"first": {"N": Version::MAX.to_string()}, "current": {"N": "11"}}})
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_before_the_marker_is_written() {
    let lost = json!({"__type": "InternalServerError"});
    let invalid = markers(&[json!({"PK": {"S": hash_of_e()}, "SK": {"S": "purged"}, "PurgedAt": {"N": "1"}})]);
    for marker in [
        vec![lost.clone(); 9],
        [vec![markers(&[])], vec![lost; 9]].concat(),
        vec![invalid],
        // Other purges change it at the same time.
        vec![[markers(&[]), condition_failed()]; 9].concat(),
    ] {
        let purged = purge(ZERO, &[vec![v0(2, NOW), history(&[])], marker]).await;
        let unavailable = |error: &PurgeError| match error {
            PurgeError::Service(error) => error.kind == ErrorKind::Unavailable,
            PurgeError::WrittenAgain => false,
        };
        assert!(purged.done.as_ref().is_err_and(unavailable), "{:?}", purged.done);
        let is_read_or_put = |operation: &&str| ["GetItem", "Query", "BatchGetItem", "PutItem"].contains(operation);
        assert!(
            purged.operations().iter().all(is_read_or_put),
            "{:?}",
            purged.operations()
        );
    }
}

fn hash_of_e() -> String {
    // printf E | sha256sum
    format!(
        "#vzero#purged#{}",
        "a9f51566bd6705f7ea6ad54bb9deb449f795582d6529a0e22207b8981233ec58"
    )
}

#[tokio::test(start_paused = true)]
async fn what_a_marker_covers_never_decreases() {
    let marker = |purged: u64, versions: Value| {
        json!({
            "PK": {"S": hash_of_e()}, "SK": {"S": "purged"},
            "PurgedAt": {"S": time(purged)}, "Purged": {"M": versions},
        })
    };
    let current = |version: &str| json!({"current": {"N": version}});
    let both = json!({"before": {"N": "7"}, "current": {"N": "1"}});
    for (stored, expected) in [
        (marker(NOW - 9, json!({})), marker(NOW, current("1"))),
        (marker(NOW + 9, current("1")), marker(NOW + 9, current("1"))),
        (marker(NOW - 9, current("3")), marker(NOW, current("3"))),
        (marker(NOW - 9, json!({"before": {"N": "7"}})), marker(NOW, both)),
    ] {
        let responses = [
            vec![v0(1, NOW - 5), history(&[])],
            // Another purge writes the marker in between.
            vec![
                markers(&[]),
                condition_failed(),
                markers(std::slice::from_ref(&stored)),
                json!({}),
            ],
            vec![keys(&["v0"]), json!({})],
            gone(),
        ];
        let purged = purge(ZERO, &responses).await;
        assert_eq!(purged.done, Ok(()));
        let put = &purged.requests[5].1;
        assert_eq!(put["Item"], expected);
        assert_eq!(put["ConditionExpression"], "#at = :at AND #purged = :purged");
        assert_eq!(put["ExpressionAttributeValues"][":purged"], stored["Purged"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_purge_retries_unprocessed_items() {
    let left = json!({"DeleteRequest": {"Key": {"PK": {"S": "E"}, "SK": {"S": "v2"}}}});
    let unprocessed = json!({"UnprocessedItems": {"Table": [left]}});
    let responses = [
        until_marked(v0(2, NOW)),
        vec![keys(&["v0", "v1", "v2"]), unprocessed.clone(), json!({}), json!({})],
        gone(),
    ];
    let purged = purge(ZERO, &responses).await;
    assert_eq!((purged.done, purged.deleted), (Ok(()), [1, 2]));
    // Items that stay unprocessed are throttled, and the latest item is kept.
    let responses = [
        until_marked(v0(2, NOW)),
        vec![keys(&["v0", "v2"])],
        vec![unprocessed; 20],
    ];
    let purged = purge(ZERO, &responses).await;
    assert!(matches!(&purged.done, Err(PurgeError::Service(error)) if error.kind == ErrorKind::Throttled));
    assert_eq!(purged.deleted, [0, 0]);
    assert!(!purged.operations().contains(&"DeleteItem"));
}

#[tokio::test(start_paused = true)]
async fn a_purge_reports_a_writer_and_keeps_what_it_wrote() {
    // During the wait: a later version, the same version of a new entity, a first version.
    for (before, after) in [
        (v0(2, NOW - 5), v0(3, NOW + 1)),
        (v0(1, NOW - 5), v0(1, NOW + 1)),
        (none(), v0(1, NOW + 1)),
    ] {
        let purged = purge(
            DEFAULT_WAIT,
            &[until_marked(before), vec![keys(&["v1"]), json!({}), after]],
        )
        .await;
        assert_eq!((&purged.done, purged.deleted), (&Err(PurgeError::WrittenAgain), [0, 1]));
        assert_eq!(purged.operations().last(), Some(&"GetItem"));
    }
    // Between the last check and the deletion of the latest item.
    let responses = [
        until_marked(v0(2, NOW)),
        vec![keys(&["v0"]), condition_failed(), v0(3, NOW + 1)],
    ];
    let purged = purge(ZERO, &responses).await;
    assert_eq!((purged.done, purged.deleted), (Err(PurgeError::WrittenAgain), [0, 0]));
    // After the deletion.
    let responses = [until_marked(v0(2, NOW)), vec![keys(&["v0"]), json!({}), v0(1, NOW + 1)]];
    let purged = purge(ZERO, &responses).await;
    assert_eq!((purged.done, purged.deleted), (Err(PurgeError::WrittenAgain), [1, 0]));
}

/// An update between the marker and the first deletion.
#[tokio::test(start_paused = true)]
async fn a_purge_that_is_given_up_deletes_no_later_version() {
    let responses = [
        until_marked(v0(2, NOW - 5)),
        vec![keys(&["v0", "v1", "v2", "v3", "v10"]), json!({}), v0(3, NOW + 1)],
    ];
    let purged = purge(DEFAULT_WAIT, &responses).await;
    assert_eq!((&purged.done, purged.deleted), (&Err(PurgeError::WrittenAgain), [0, 2]));
    let deletions = &purged.requests[5].1["RequestItems"]["Table"];
    let keys: Vec<_> = (deletions.as_array().unwrap().iter())
        .map(|deletion| deletion["DeleteRequest"]["Key"]["SK"]["S"].as_str().unwrap())
        .collect();
    assert_eq!(keys, ["v1", "v2"]);
}

#[tokio::test(start_paused = true)]
async fn the_last_check_deletes_versions_of_a_slow_writer() {
    let responses = [
        until_marked(v0(2, NOW)),
        vec![keys(&["v0"]), json!({}), none(), keys(&["v2"]), json!({})],
        gone(),
    ];
    let purged = purge(ZERO, &responses).await;
    assert_eq!((purged.done, purged.deleted), (Ok(()), [1, 1]));
}

#[tokio::test(start_paused = true)]
async fn a_lost_response_to_the_deletion_of_the_latest_item() {
    let lost = json!({"__type": "InternalServerError"});
    let responses = [
        until_marked(v0(2, NOW)),
        vec![keys(&["v0"]), lost, condition_failed()],
        gone(),
    ];
    assert_eq!(purge(ZERO, &responses).await.done, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn an_expired_latest_item_that_dynamodb_deletes_meanwhile_is_no_writer() {
    let responses = [
        until_marked(v0(2, NOW)),
        vec![keys(&["v0"]), none(), keys(&[]), condition_failed()],
        gone(),
    ];
    assert_eq!(purge(DEFAULT_WAIT, &responses).await.done, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn without_a_latest_item_history_tells_the_incarnations() {
    let before = vec![none(), history(&[("v7", "current")]), markers(&[]), json!({})];
    let responses = [before, vec![keys(&["v7"]), json!({})], gone()];
    let purged = purge(ZERO, &responses).await;
    assert_eq!((&purged.done, purged.deleted), (&Ok(()), [0, 1]));
    assert_eq!(
        purged.requests[3].1["Item"]["Purged"],
        json!({"M": {"current": {"N": Version::MAX.to_string()}}})
    );
    assert!(!purged.operations().contains(&"DeleteItem"));
}
