//! Audit of an entity whose counter does not fit its versions, while the stream is behind. The clock of the lag is advanced.

use std::time::Duration;

use operations::{audit::auditor::Auditor, rate_limit::RateLimiter};
use serde_json::{Value, json};
use testkit::{database::Database, world::World};

const LAG: Duration = Duration::from_secs(60);

fn version(number: u64) -> Value {
    json!({"PK": {"S": "E"}, "SK": {"S": format!("v{number}")}, "State": {"N": number.to_string()}})
}

fn versions(numbers: impl IntoIterator<Item = u64>) -> Vec<Value> {
    numbers.into_iter().map(version).collect()
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

/// Puts the items of `first`, audits the entity, and then puts each batch of `arrivals` within a lag after the check before. Checks the
/// findings after each lag; the number of deferred checks is 0 only after the last one.
async fn check(first: Vec<Value>, arrivals: &[(Vec<Value>, Vec<Value>)]) {
    let database = Database::start().await;
    let world = World::new(&database, "Table", 1).await;
    for item in first {
        world.put(item).await;
    }
    let mut auditor = Auditor::new(world.store.clone(), RateLimiter::unlimited(), LAG, Vec::new());
    let (_, findings) = auditor.entity(&world.entity(), None).await.unwrap().unwrap();
    assert_eq!((findings.len(), auditor.waiting()), (0, 1));
    for (left, (items, expected)) in (0..arrivals.len()).rev().zip(arrivals) {
        for item in items {
            world.put(item.clone()).await;
        }
        tokio::time::pause();
        tokio::time::advance(LAG).await;
        tokio::time::resume();
        let settled = auditor.settle().await.unwrap().unwrap();
        let findings = settled.findings.iter().map(|finding| finding.to_json(&settled.entity));
        assert_eq!(findings.collect::<Vec<_>>(), *expected, "{arrivals:?}");
        assert_eq!(auditor.waiting(), left.min(1), "{arrivals:?}");
    }
}

/// In the first cases, version 7 was acknowledged, but its stream record is not processed yet.
#[tokio::test]
async fn a_finding_about_the_counter_counts_after_a_lag_without_a_higher_version() {
    let differs = |version: u64| json!({"ID": "E", "Finding": "LatestDiffers", "Version": version});
    let no_version = || json!({"ID": "E", "Finding": "NoVersion", "Why": "Latest is missing"});
    let with = |latest: Value| [vec![latest], versions(1..=6)].concat();
    for (items, expected) in [
        // The latest item was deleted.
        (versions(1..=6), vec![run("Orphan", 1, 7)]),
        // Its counter was set back, to a lower version and to the highest one that is known.
        (with(latest(Some(2))), vec![differs(2), run("Stray", 3, 7)]),
        (with(latest(Some(6))), vec![differs(6), run("Stray", 7, 7)]),
        // Another program replaced it.
        (with(latest(None)), vec![no_version(), run("Orphan", 1, 7)]),
    ] {
        // The record arrives within the lag: the entity is read again after another lag.
        let arrivals = [(vec![version(7)], vec![]), (vec![], expected.clone())];
        check(items.clone(), &arrivals).await;
        check([items, vec![version(7)]].concat(), &[(vec![], expected)]).await;
    }
    // A latest item without a counter may have versions that arrive.
    let orphan = vec![no_version(), run("Orphan", 1, 1)];
    check(vec![latest(None)], &[(vec![version(1)], vec![]), (vec![], orphan)]).await;
    // Another operator repaired the counter.
    let repaired = json!({"PK": {"S": "E"}, "SK": {"S": "v0"}, "Latest": {"N": "3"}, "State": {"N": "3"}});
    check(versions(1..=3), &[(vec![repaired], vec![])]).await;
    // Versions 2 and 4 are missing, and the counter was set back from 6. Version 4 arrives, and a writer adds version 5.
    let items = [vec![latest(Some(4))], versions([1, 3, 6])].concat();
    let arrived = vec![version(4), latest(Some(5))];
    let findings = vec![run("Gap", 2, 2), run("Stray", 6, 6)];
    check(items, &[(arrived, findings), (vec![], vec![run("Gap", 5, 5)])]).await;
    // The number of lags is limited.
    let mut arrivals: Vec<_> = (2..=7).map(|number| (vec![version(number)], vec![])).collect();
    arrivals[5].1 = vec![run("Orphan", 1, 7)];
    check(versions(1..=1), &arrivals).await;
}
