//! Audit of an entity whose counter does not fit its versions, while the stream is behind. The clock of the lag is advanced.

use std::time::Duration;

use operations::{audit::auditor::Auditor, rate_limit::RateLimiter};
use serde_json::{Value, json};

use testkit::database::{Database, entity};

const LAG: Duration = Duration::from_secs(60);

fn version(number: u64) -> Value {
    json!({"PK": {"S": "E"}, "SK": {"S": format!("v{number}")}, "State": {"N": number.to_string()}})
}

fn latest(latest: Option<u64>) -> Value {
    let mut item = json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "State": {"S": "other"}});
    if let Some(latest) = latest {
        item["Latest"] = json!({"N": latest.to_string()});
    }
    item
}

fn run(name: &str, from: u64, to: u64) -> Value {
    json!({"ID": "E", "Finding": name, "From": from, "To": to})
}

/// Settles the first check after the lag. Returns its findings.
async fn settle(auditor: &mut Auditor) -> Vec<Value> {
    tokio::time::pause();
    tokio::time::advance(LAG).await;
    tokio::time::resume();
    let settled = auditor.settle().await.unwrap().unwrap();
    let findings = settled.findings.iter();
    findings.map(|finding| finding.to_json(&settled.entity)).collect()
}

async fn auditor(database: &Database, items: Vec<Value>) -> Auditor {
    let store = database.store("Table", 1).await;
    for item in items {
        database.put("Table", item).await;
    }
    Auditor::new(store, RateLimiter::unlimited(), LAG, Vec::new())
}

fn versions(numbers: std::ops::RangeInclusive<u64>) -> Vec<Value> {
    numbers.map(version).collect()
}

/// Entities in which version 7 was acknowledged, but its stream record is not processed yet. Each with its findings
/// afterwards.
fn cases() -> [(Vec<Value>, Vec<Value>); 4] {
    let no_version = json!({"ID": "E", "Finding": "NoVersion", "Why": "Latest is missing"});
    let differs = json!({"ID": "E", "Finding": "LatestDiffers", "Version": 6});
    let with = |latest: Value| [vec![latest], versions(1..=6)].concat();
    [
        // The latest item was deleted.
        (versions(1..=6), vec![run("Orphan", 1, 7)]),
        // Its counter was set back, to a lower version and to the highest one that is known.
        (
            with(latest(Some(2))),
            vec![
                json!({"ID": "E", "Finding": "LatestDiffers", "Version": 2}),
                run("Stray", 3, 7),
            ],
        ),
        (with(latest(Some(6))), vec![differs, run("Stray", 7, 7)]),
        // Another program replaced it.
        (with(latest(None)), vec![no_version, run("Orphan", 1, 7)]),
    ]
}

#[tokio::test]
async fn a_finding_about_the_counter_counts_after_a_lag_without_a_higher_version() {
    for (items, expected) in cases() {
        let database = Database::start().await;
        let mut auditor = auditor(&database, items).await;
        let (_, findings) = auditor.entity(&entity("E"), None).await.unwrap().unwrap();
        assert_eq!((findings.len(), auditor.waiting()), (0, 1), "{expected:?}");
        // The record arrives within the lag: the entity is read again after another lag.
        database.put("Table", version(7)).await;
        assert!(settle(&mut auditor).await.is_empty(), "{expected:?}");
        assert_eq!(auditor.waiting(), 1);
        assert_eq!(settle(&mut auditor).await, expected);
        assert_eq!(auditor.waiting(), 0);
    }
}

#[tokio::test]
async fn without_a_higher_version_one_lag_is_enough() {
    for (mut items, expected) in cases() {
        items.push(version(7));
        let database = Database::start().await;
        let mut auditor = auditor(&database, items).await;
        let (_, findings) = auditor.entity(&entity("E"), None).await.unwrap().unwrap();
        assert_eq!((findings.len(), auditor.waiting()), (0, 1), "{expected:?}");
        assert_eq!(settle(&mut auditor).await, expected);
        assert_eq!(auditor.waiting(), 0);
    }
}

#[tokio::test]
async fn a_latest_item_without_a_counter_may_have_versions_that_arrive() {
    let database = Database::start().await;
    let mut auditor = auditor(&database, vec![latest(None)]).await;
    let (_, findings) = auditor.entity(&entity("E"), None).await.unwrap().unwrap();
    assert!(findings.is_empty());
    database.put("Table", version(1)).await;
    assert!(settle(&mut auditor).await.is_empty());
    let no_version = json!({"ID": "E", "Finding": "NoVersion", "Why": "Latest is missing"});
    assert_eq!(settle(&mut auditor).await, [no_version, run("Orphan", 1, 1)]);
}

#[tokio::test]
async fn a_counter_that_fits_again_is_no_finding() {
    let database = Database::start().await;
    let mut auditor = auditor(&database, versions(1..=3)).await;
    auditor.entity(&entity("E"), None).await.unwrap();
    // Another operator repaired it.
    let mut repaired = version(3);
    repaired["SK"] = json!({"S": "v0"});
    repaired["Latest"] = json!({"N": "3"});
    database.put("Table", repaired).await;
    assert!(settle(&mut auditor).await.is_empty());
    assert_eq!(auditor.waiting(), 0);
}

#[tokio::test]
async fn gaps_of_such_an_entity_are_those_that_persist() {
    let database = Database::start().await;
    // Versions 2 and 4 are missing, and the counter was set back from 6.
    let items = [vec![latest(Some(4))], vec![version(1), version(3), version(6)]].concat();
    let mut auditor = auditor(&database, items).await;
    auditor.entity(&entity("E"), None).await.unwrap();
    // Version 4 arrives, and a writer adds version 5.
    database.put("Table", version(4)).await;
    database.put("Table", latest(Some(5))).await;
    assert_eq!(settle(&mut auditor).await, [run("Gap", 2, 2), run("Stray", 6, 6)]);
    assert_eq!(auditor.waiting(), 1);
    assert_eq!(settle(&mut auditor).await, [run("Gap", 5, 5)]);
    assert_eq!(auditor.waiting(), 0);
}

#[tokio::test]
async fn the_number_of_lags_is_limited() {
    let database = Database::start().await;
    let mut auditor = auditor(&database, versions(1..=1)).await;
    auditor.entity(&entity("E"), None).await.unwrap();
    let mut rounds = 0;
    while auditor.waiting() > 0 {
        rounds += 1;
        assert!(rounds < 20, "it is deferred again and again");
        database.put("Table", version(rounds + 1)).await;
        settle(&mut auditor).await;
    }
    assert_eq!(rounds, 6);
}
