//! Requests of a purge to a DynamoDB that fails, or that other clients write, with replayed responses and paused time.

use std::{cell::Cell, time::Duration};

use operations::{
    error::OperationError,
    purge::{DEFAULT_WAIT, Purge},
};
use serde_json::{Value, json};
use shared::{
    clock::Clock,
    domain::{
        entity::EntityId,
        keys::{ItemKind, VersionDigits},
        recorded_at::RecordedAt,
        version::Version,
    },
    dynamodb::{Store, client::error::ErrorKind},
};
use testkit::replay::Replay;
use tokio::time::Instant;

/// Time of the operator's clock.
const NOW: u64 = 1_795_328_688;
const ZERO: Duration = Duration::ZERO;
/// Responses after the read of the latest item, until the marker is written.
const MARKED: &str = "history= markers -";
/// Responses to the last check.
const GONE: &str = "- keys=";

/// Result of a purge with replayed responses.
struct Purged {
    done: &'static str,
    /// Deleted latest items and versions.
    deleted: [u64; 2],
    operations: Vec<String>,
    bodies: Vec<Value>,
    /// Announced and actual duration of the wait.
    waited: (Option<Duration>, Duration),
}

async fn purge(wait: Duration, responses: &str) -> Purged {
    purge_with(wait, Replay::new(unheld(responses).into_iter().map(response))).await
}

/// Adds the responses that there is no hold: at the start, and before versions are deleted.
fn unheld(responses: &str) -> Vec<&str> {
    let mut words = vec!["-"];
    for word in responses.split_whitespace() {
        words.push(word);
        if word.starts_with("keys=v") && word != "keys=v0" {
            words.push("-");
        }
    }
    words
}

async fn purge_with(wait: Duration, replay: Replay) -> Purged {
    let clock = Clock::new(|| Duration::from_secs(NOW));
    let store = Store::new(replay.client(), "Table", VersionDigits::default()).with_clock(clock);
    let (start, announced) = (Instant::now(), Cell::new(None));
    let mut purge = Purge::new(&store, EntityId::new("E").unwrap());
    let done = purge.run(wait, |wait| announced.set(Some(wait))).await;
    let of_kind = |kind| purge.deleted.get(&kind).copied().unwrap_or_default();
    Purged {
        done: match done {
            Ok(()) => "purged",
            Err(OperationError::WrittenAgain) => "written again",
            Err(OperationError::Service(error)) if error.kind == ErrorKind::Throttled => "throttled",
            Err(OperationError::Service(error)) if error.kind == ErrorKind::Unavailable => "unavailable",
            Err(error) => panic!("{error}"),
        },
        deleted: [ItemKind::Latest, ItemKind::Version].map(of_kind),
        operations: replay.operations(),
        bodies: replay.bodies(),
        waited: (announced.get(), start.elapsed()),
    }
}

fn time(second: u64) -> String {
    RecordedAt::since_epoch(Duration::from_secs(second)).to_string()
}

/// Returns the response that a word stands for:
///
/// | word | response |
/// |---|---|
/// | `-` | nothing |
/// | `v0=2@-5` | the latest item of version 2, recorded 5 seconds before now |
/// | `history=v1:a` | version 1 of the incarnation a |
/// | `keys=v0,v1` | sort keys |
/// | `markers` | no marker |
/// | `unprocessed=v2` | a deletion that was not processed |
/// | any other | an error |
fn response(word: &str) -> Value {
    let (kind, content) = word.split_once('=').unwrap_or((word, ""));
    let words = content.split(',').filter(|word| !word.is_empty());
    match kind {
        "-" => json!({}),
        "v0" => {
            let (latest, second) = content.split_once('@').unwrap();
            let second = NOW.saturating_add_signed(second.parse().unwrap());
            json!({"Item": {
                "PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": latest}, "RecordedAt": {"S": time(second)},
                "V0Id": {"S": "current"},
            }})
        }
        "history" => {
            let item = |(key, incarnation)| json!({"PK": {"S": "E"}, "SK": {"S": key}, "V0Id": {"S": incarnation}});
            json!({"Items": words.map(|word| item(word.split_once(':').unwrap())).collect::<Vec<_>>()})
        }
        "keys" => json!({"Items": words.map(|key| json!({"SK": {"S": key}})).collect::<Vec<_>>()}),
        "markers" => markers(&[]),
        "unprocessed" => {
            let left = json!({"DeleteRequest": {"Key": {"PK": {"S": "E"}, "SK": {"S": content}}}});
            json!({"UnprocessedItems": {"Table": [left]}})
        }
        error => json!({"__type": error}),
    }
}

fn markers(markers: &[Value]) -> Value {
    json!({"Responses": {"Table": markers}, "UnprocessedKeys": {}})
}

/// Returns a marker of `E`.
fn marker(purged: u64, versions: Value) -> Value {
    // printf E | sha256sum
    let hash = "#vzero#purged#a9f51566bd6705f7ea6ad54bb9deb449f795582d6529a0e22207b8981233ec58";
    json!({
        "PK": {"S": hash}, "SK": {"S": "purged"}, "PurgedAt": {"S": time(purged)}, "Purged": {"M": versions},
    })
}

#[tokio::test(start_paused = true)]
async fn a_purge_waits_for_the_stream_and_checks_again() {
    // The incarnation, and not the time, tells its versions from versions of a later entity: a time far ahead prolongs no wait.
    for v0 in ["v0=2@-5", "v0=2@31536000"] {
        // The stream was behind: version 2 arrived during the wait.
        let responses = format!("{v0} {MARKED} keys=v0,v1 - {v0} keys=v0,v2 - - - {GONE}");
        let purged = purge(DEFAULT_WAIT, &responses).await;
        assert_eq!((&purged.done, purged.deleted), (&"purged", [1, 2]));
        let operations = "GetItem GetItem Query BatchGetItem PutItem Query GetItem BatchWriteItem GetItem Query GetItem \
                          BatchWriteItem GetItem DeleteItem GetItem Query";
        assert_eq!(purged.operations.join(" "), operations);
        assert_eq!(purged.waited, (Some(DEFAULT_WAIT), DEFAULT_WAIT));
        assert_eq!(purged.bodies[4]["Item"], marker(NOW, json!({"current": {"N": "2"}})));
    }
    let purged = purge(ZERO, &format!("v0=1@0 {MARKED} keys=v0 - - {GONE}")).await;
    assert_eq!((purged.done, purged.waited), ("purged", (None, ZERO)));
}

#[tokio::test(start_paused = true)]
async fn all_incarnations_that_history_has_are_purged() {
    let all = Version::MAX.to_string();
    for (until_marked, deletions, expected) in [
        // Another program overwrote the latest item, and an update began a new incarnation.
        (
            "v0=11@0 history=v1:first,v10:current,v2:first markers -",
            "keys=v0 - -",
            json!({"first": {"N": all}, "current": {"N": "11"}}),
        ),
        // Without a latest item, history tells the incarnations.
        (
            "- history=v7:current markers -",
            "keys=v7 -",
            json!({"current": {"N": all}}),
        ),
    ] {
        let purged = purge(ZERO, &format!("{until_marked} {deletions} {GONE}")).await;
        assert_eq!(purged.done, "purged");
        assert_eq!(purged.bodies[4]["Item"], marker(NOW, expected));
        let deletes_latest = until_marked.starts_with("v0");
        assert_eq!(purged.operations.contains(&"DeleteItem".to_owned()), deletes_latest);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_before_the_marker_is_written() {
    let lost = "InternalServerError ".repeat(9);
    for responses in [
        lost.clone(),
        format!("markers {lost}"),
        // Other purges change it at the same time.
        "markers ConditionalCheckFailedException ".repeat(9),
    ] {
        let purged = purge(ZERO, &format!("v0=2@0 history= {responses}")).await;
        assert_eq!(purged.done, "unavailable");
        let is_deletion = |operation: &String| ["BatchWriteItem", "DeleteItem"].contains(&&**operation);
        assert!(!purged.operations.iter().any(is_deletion), "{:?}", purged.operations);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_marker_covers_never_decreases() {
    let current = |version: &str| json!({"current": {"N": version}});
    let before = json!({"before": {"N": "7"}});
    let both = json!({"before": {"N": "7"}, "current": {"N": "1"}});
    let mut invalid = marker(NOW, json!({}));
    invalid["PurgedAt"] = json!({"N": "1"});
    // What was erased stays erased.
    let erasures = json!({"M": {r#"["Attribute","A"]"#: {"M": {
        "At": {"S": "2026-11-26T13:20:52.000000000Z"}, "To": {"N": "7"}, "Reason": {"S": "asked"},
    }}}});
    let with_erasures = |mut marker: Value| {
        marker["Erasures"] = erasures.clone();
        marker
    };
    for (stored, expected) in [
        (marker(NOW - 9, json!({})), Some(marker(NOW, current("1")))),
        (marker(NOW + 9, current("1")), Some(marker(NOW + 9, current("1")))),
        (marker(NOW - 9, current("3")), Some(marker(NOW, current("3")))),
        (marker(NOW - 9, before), Some(marker(NOW, both))),
        (
            with_erasures(marker(NOW - 9, json!({}))),
            Some(with_erasures(marker(NOW, current("1")))),
        ),
        (invalid, None),
    ] {
        // Another purge writes the marker in between.
        let found = markers(std::slice::from_ref(&stored));
        let responses = "- v0=1@-5 history= markers ConditionalCheckFailedException found - keys=v0 - - - keys=";
        let responses = responses.split(' ').map(|word| match word {
            "found" => found.clone(),
            word => response(word),
        });
        let replay = Replay::new(responses);
        let purged = purge_with(ZERO, replay).await;
        let Some(expected) = expected else {
            assert_eq!((purged.done, purged.operations.len()), ("unavailable", 6));
            continue;
        };
        assert_eq!(purged.done, "purged");
        let put = &purged.bodies[6];
        assert_eq!(put["Item"], expected);
        assert_eq!(
            put["ConditionExpression"],
            match stored.get("Erasures") {
                Some(_) => "#PurgedAt = :PurgedAt AND #Purged = :Purged AND #Erasures = :Erasures",
                None => "#PurgedAt = :PurgedAt AND #Purged = :Purged AND attribute_not_exists(#Erasures)",
            }
        );
        assert_eq!(put["ExpressionAttributeValues"][":Purged"], stored["Purged"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_purge_retries_unprocessed_items() {
    let responses = format!("v0=2@0 {MARKED} keys=v0,v1,v2 unprocessed=v2 - - - {GONE}");
    let purged = purge(ZERO, &responses).await;
    assert_eq!((purged.done, purged.deleted), ("purged", [1, 2]));
    // Items that stay unprocessed are throttled, and the latest item is kept.
    let unprocessed = "unprocessed=v2 ".repeat(20);
    let purged = purge(ZERO, &format!("v0=2@0 {MARKED} keys=v0,v1,v2 {unprocessed}")).await;
    assert_eq!((purged.done, purged.deleted), ("throttled", [0, 0]));
    assert!(!purged.operations.contains(&"DeleteItem".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_purge_reports_a_writer_and_keeps_what_it_wrote() {
    // Seconds of the wait, the latest item, the responses, and the number of deleted latest items and versions.
    for case in [
        // During the wait: a later version, the same version of a new entity, a first version.
        "90 | v0=2@-5 | keys=v1 - v0=3@1 | written again, 0 1",
        "90 | v0=1@-5 | keys=v1 - v0=1@1 | written again, 0 1",
        "90 | - | keys=v1 - v0=1@1 | written again, 0 1",
        // Between the last check and the deletion of the latest item.
        "0 | v0=2@0 | keys=v0 - ConditionalCheckFailedException v0=3@1 | written again, 0 0",
        // After the deletion.
        "0 | v0=2@0 | keys=v0 - - v0=1@1 | written again, 1 0",
        // The last check deletes versions of a slow writer.
        "0 | v0=2@0 | keys=v0 - - - keys=v2 - - keys= | purged, 1 1",
        // The response to the deletion of the latest item was lost.
        "0 | v0=2@0 | keys=v0 - InternalServerError ConditionalCheckFailedException - keys= | purged, 0 0",
        // It expired, and DynamoDB deletes it meanwhile.
        "90 | v0=2@0 | keys=v0 - keys= - ConditionalCheckFailedException - keys= | purged, 0 0",
    ] {
        let [wait, v0, responses, expected] = case.split(" | ").collect::<Vec<_>>().try_into().unwrap();
        let wait = Duration::from_secs(wait.parse().unwrap());
        let purged = purge(wait, &format!("{v0} {MARKED} {responses}")).await;
        let [latest, versions] = purged.deleted;
        assert_eq!(format!("{}, {latest} {versions}", purged.done), expected, "{case}");
    }
    // An update between the marker and the first deletion: no later version is deleted.
    let responses = format!("v0=2@-5 {MARKED} keys=v0,v1,v2,v3,v10 - v0=3@1");
    let purged = purge(DEFAULT_WAIT, &responses).await;
    assert_eq!((purged.done, purged.deleted), ("written again", [0, 2]));
    let deletions = purged.bodies[7]["RequestItems"]["Table"].as_array().unwrap().iter();
    let keys: Vec<_> = deletions
        .map(|deletion| &deletion["DeleteRequest"]["Key"]["SK"]["S"])
        .collect();
    assert_eq!(keys, ["v1", "v2"]);
}
