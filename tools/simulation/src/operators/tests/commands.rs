//! Each command works in virtual time, tells what it did, and sends the same requests for the same seed.

use std::time::Duration;

use operations::purge::entity::DEFAULT_WAIT;
use operations::{
    error::Kind,
    prune::{Options, Rule},
};
use serde_json::{Value, json};
use shared::domain::keys::LATEST_KEY;
use tokio::time::{Instant, sleep};

use super::{
    super::result::{End, OperatorResult},
    World, entity, escaped,
    interruptions::Command,
    recorder::Request,
    simulate, version,
};

const LAG: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

fn is_conflict(result: &OperatorResult) -> bool {
    matches!(
        &result.end,
        End::Failed {
            kind: Kind::Conflict,
            ..
        }
    )
}

#[test]
fn the_same_seed_sends_the_same_requests() {
    for command in Command::ALL {
        let runs = [(); 2].map(|()| {
            simulate(3, async {
                let world = World::new(3);
                command.prepare(&world).await;
                world.recorder.take();
                let told = command.run(&world).await;
                let audited = world.operators.audit(LAG).await;
                let requests: Vec<Request> = world.recorder.take();
                (requests, told, audited, world.clock.millis())
            })
        });
        let [first, second] = &runs;
        assert!(first.0.len() > 5, "{command:?}");
        for (index, requests) in first.0.iter().zip(&second.0).enumerate() {
            assert_eq!(requests.0, requests.1, "{command:?}: request {index}");
        }
        assert_eq!(first, second, "{command:?}");
    }
}

#[test]
fn a_purge_waits_in_virtual_time() {
    let began = std::time::Instant::now();
    simulate(1, async {
        let world = World::new(1);
        world.write("A", 3).await;
        let purged = Instant::now();
        let result = world.operators.purge_with("A", DEFAULT_WAIT).await;
        assert_eq!(result.end, End::Done);
        assert!(purged.elapsed() >= DEFAULT_WAIT, "{:?}", purged.elapsed());
        assert_eq!(
            result.summary.as_ref().unwrap()["Deleted"],
            json!({"v0": 1, "versions": 3})
        );
        let again = world.operators.purge_with("A", DEFAULT_WAIT).await;
        assert!(
            matches!(
                &again.end,
                End::Failed {
                    kind: Kind::NotFound,
                    ..
                }
            ),
            "{again:?}"
        );
    });
    assert!(began.elapsed() < DEFAULT_WAIT);
}

#[test]
fn a_purge_of_an_entity_that_is_written_reports_a_conflict() {
    simulate(1, async {
        let world = World::new(1);
        world.write("A", 2).await;
        let writer = async {
            sleep(DEFAULT_WAIT / 2).await;
            world.write("A", 1).await;
        };
        let (result, ()) = tokio::join!(world.operators.purge_with("A", DEFAULT_WAIT), writer);
        assert!(is_conflict(&result), "{result:?}");
        assert_eq!(result.summary.unwrap()["Deleted"], json!({"versions": 2}));
        assert_eq!(world.history("A").await, [3]);
    });
}

#[test]
fn a_prune_marks_no_pinned_version() {
    simulate(1, async {
        let world = World::new(1);
        world.write("A", 4).await;
        assert_eq!(world.operators.pin("A", version(2)).await.end, End::Done);
        let options = Options {
            rule: Rule::Keep(1),
            grace: DAY,
            over_gaps: false,
            dry_run: false,
        };
        let result = world.operators.prune("A", options).await;
        assert_eq!((result.count("Marked"), result.count("Left")), (2, 1), "{result:?}");
        let missing = world.operators.pin("A", version(5)).await;
        assert!(
            matches!(
                &missing.end,
                End::Failed {
                    kind: Kind::NotFound,
                    ..
                }
            ),
            "{missing:?}"
        );
    });
}

#[test]
fn pruned_versions_expire_in_virtual_time() {
    simulate(1, async {
        let world = World::new(1);
        world.write("A", 5).await;
        let options = Options {
            rule: Rule::Keep(2),
            grace: DAY,
            over_gaps: false,
            dry_run: false,
        };
        let now = world.clock.millis() / 1000;
        let result = world.operators.prune("A", options).await;
        assert_eq!((result.count("Marked"), result.count("Floor")), (3, 4), "{result:?}");
        assert!(
            (now..now + 5).contains(&(result.count("Expires") - DAY.as_secs())),
            "{result:?}"
        );
        let has_first = async || {
            world
                .store
                .version(&entity("A"), version(1), true)
                .await
                .unwrap()
                .is_some()
        };
        assert!(has_first().await);
        sleep(DAY + Duration::from_secs(5)).await;
        assert!(!has_first().await);
        // By its age, the latest version is the only one that was the latest within the last hour.
        let options = Options {
            rule: Rule::OlderThan(Duration::from_secs(3600)),
            ..options
        };
        let result = world.operators.prune_table(options).await;
        assert_eq!((result.count("Marked"), result.count("Left")), (1, 3), "{result:?}");
    });
}

#[test]
fn a_redrive_tells_the_outcome_of_each_record() {
    let told = |form: fn(Value) -> Value| {
        simulate(1, async {
            let world = World::new(1);
            for name in ["A", "B", "C", "D"] {
                world.write(name, 3).await;
            }
            let documents = [
                world.document("A", &[1, 2, 3]),
                world.document("B", &[1]),
                world.document("C", &[2]),
                world.document("D", &[3]),
            ];
            world.delete("A", &["v2"]);
            assert!(world.operators.purge_with("B", DEFAULT_WAIT).await.is_done());
            // A different item has the key, and a counter that was set back does not count the version.
            world.put(&json!({"PK": {"S": "C"}, "SK": {"S": "v2"}, "By": {"S": "another program"}}));
            world.delete("D", &["v3"]);
            let mut latest = world.item("GetItem", "D", LATEST_KEY)["Item"].clone();
            latest["Latest"] = json!({"N": "2"});
            world.put(&latest);
            let result = world.operators.redrive(&documents.map(form)).await;
            assert_eq!(world.history("A").await, [1, 2, 3]);
            result
        })
    };
    let result = told(|document| document);
    let counts = |result: &OperatorResult| {
        [
            "Documents",
            "Records",
            "Recorded",
            "AlreadyRecorded",
            "Purged",
            "Conflict",
            "AboveLatest",
            "Failed",
        ]
        .map(|name| result.count(name))
    };
    assert_eq!(counts(&result), [4, 6, 1, 2, 1, 1, 1, 0], "{result:?}");
    for (list, id, number) in [("Conflicts", "C", 2), ("VersionsAboveLatest", "D", 3)] {
        let named: Vec<_> = (result.list(list).iter())
            .map(|named| (&named["ID"], &named["Version"]))
            .collect();
        assert_eq!(named, [(&json!(id), &json!(number))], "{list}");
    }
    let mut lines = result.lines.clone();
    lines.sort_by_key(|line| line["Source"].to_string());
    let per_document: Vec<_> = lines
        .iter()
        .map(|line| (line["Records"].as_u64(), line["Recorded"].as_u64()))
        .collect();
    assert_eq!(
        per_document,
        [(3, 1), (1, 0), (1, 0), (1, 0)].map(|(records, recorded)| (Some(records), Some(recorded)))
    );
    assert!(is_conflict(&result));
    // The payload of a document is an object, or a string that contains it.
    assert_eq!(told(escaped), result);
}

#[test]
fn an_audit_finds_what_is_missing() {
    simulate(1, async {
        let world = World::new(1);
        world.write("A", 5).await;
        world.write("B", 2).await;
        let result = world.operators.audit(LAG).await;
        assert_eq!((&result.end, result.lines.len()), (&End::Done, 0));
        world.delete("A", &["v2", "v3"]);
        let began = Instant::now();
        let result = world.operators.audit(LAG).await;
        assert!(began.elapsed() >= LAG);
        assert_eq!(result.lines, [json!({"ID": "A", "Finding": "Gap", "From": 2, "To": 3})]);
        assert!(is_conflict(&result));
    });
}
