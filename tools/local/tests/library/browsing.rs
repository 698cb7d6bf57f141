//! Reads of the history browser: latest items by key prefix, existing versions, and runs of versions.

use std::collections::BTreeSet;

use operations::{
    read::{
        scans::{LatestFilter, LatestItem, scan_latest},
        version_run::version_run,
        versions_in_history::versions_in_history,
    },
    segments::scan::Segment,
};
use serde_json::json;
use shared::{domain::request_id::RequestId, dynamodb::Store};
use testkit::{
    database::{Database, entity},
    updates::{ChangeOptions, WriteMode, WriteOptions, revision, version},
    world::World,
};

async fn world<'a>(database: &'a Database, name: &str, digits: u8) -> World<'a> {
    World::new(database, name, digits).await.in_mode(WriteMode::Inline)
}

async fn put(world: &World<'_>, id: &str, count: u64, text: &str) {
    for number in 1..=count {
        let update = json!({"ID": id, "n": number, "Text": text, "Time": "1970-01-01T00:00:09Z"});
        world.writes(update, number).await;
    }
}

/// Returns the latest items that pass the filter, scanned in `total` segments with this limit, and the number of items read.
async fn latest_items(store: &Store, filter: &LatestFilter, total: u32, limit: Option<i32>) -> (Vec<LatestItem>, u64) {
    let (mut items, mut read) = (Vec::new(), 0);
    for index in 0..total {
        let mut next = Some(None);
        while let Some(start) = next {
            let page = scan_latest(store, Segment { index, total }, filter, start, limit).await;
            let page = page.unwrap();
            items.extend(page.items);
            read += page.read;
            next = page.next.map(Some);
        }
    }
    items.sort_by(|a, b| a.entity.cmp(&b.entity));
    (items, read)
}

#[tokio::test]
async fn latest_items_are_filtered_by_part_of_the_key() {
    let database = Database::start().await;
    for digits in [1, 10] {
        let world = world(&database, &format!("Latest{digits}"), digits).await;
        let store = &world.store;
        for (id, versions) in [("A#1", 3), ("A#2", 1), ("B#1", 2), ("a#1", 1)] {
            put(&world, id, versions, "x").await;
        }
        let (request, options) = (RequestId::new("gone").unwrap(), WriteOptions::default());
        let gone = entity("A#2");
        let deleted = revision::delete(store, &gone, request, ChangeOptions::default(), options);
        deleted.await.unwrap();
        for (text, deleted, expected) in [
            ("", None, &["A#1", "A#2", "B#1", "a#1"][..]),
            ("A", None, &["A#1", "A#2"]),
            ("A#1", None, &["A#1"]),
            ("#1", None, &["A#1", "B#1", "a#1"]),
            ("A", Some(false), &["A#1"]),
            ("", Some(false), &["A#1", "B#1", "a#1"]),
            ("", Some(true), &["A#2"]),
            ("v", None, &[]),
        ] {
            let text = text.to_owned();
            let filter = LatestFilter { text, deleted };
            for (segments, limit) in [(1, None), (4, None), (3, Some(1))] {
                let (found, read) = latest_items(store, &filter, segments, limit).await;
                let ids: Vec<_> = found.iter().map(|item| item.entity.as_str()).collect();
                assert_eq!(ids, expected, "{filter:?} {segments} {limit:?}");
                // Four latest items and, in the same table, seven version items, which pages of one item skip.
                assert_eq!(read >= 11, limit.is_none() && !store.has_own_history(), "{read}");
            }
        }
        let (found, _) = latest_items(store, &LatestFilter::default(), 1, None).await;
        let states = found.iter().map(|item| (item.version.unwrap().get(), item.deleted));
        assert!(states.eq([(3, false), (2, true), (2, false), (1, false)]));
        for item in &found {
            let latest = store.latest(&item.entity, true).await.unwrap().unwrap();
            assert!(item.recorded_at.is_some() && item.recorded_at == latest.recorded_at);
        }
        // The entities whose latest version is in history.
        let versions = found.iter().map(|item| (item.entity.clone(), item.version.unwrap()));
        let versions: Vec<_> = versions.collect();
        let recorded = versions_in_history(store, &versions, true).await.unwrap();
        let recorded: BTreeSet<_> = recorded.into_iter().collect();
        assert_eq!(recorded, ["A#1", "B#1", "a#1"].map(entity).into());
        assert!(versions_in_history(store, &[], true).await.unwrap().is_empty());
        // Version numbers of more entities than exist, and than one request accepts.
        let mut entities: Vec<_> = (0..150).map(|number| entity(&format!("none#{number}"))).collect();
        entities.extend(versions.iter().map(|(entity, _)| entity.clone()));
        let latest = store.latest_versions(&entities, true).await.unwrap();
        assert_eq!(latest, versions.into_iter().collect());
    }
}

#[tokio::test]
async fn a_run_contains_the_versions_that_exist() {
    let database = Database::start().await;
    let run = async |world: &World<'_>, from, to, requests| {
        let (from, to) = (version(from), version(to));
        let run = version_run(&world.store, &world.entity(), from, to, requests, true).await;
        let run = run.unwrap();
        (run.from, run.items.keys().copied().collect::<Vec<_>>())
    };
    for digits in [1, 2, 10] {
        let world = world(&database, &format!("Runs{digits}"), digits).await;
        put(&world, "E", 120, "x").await;
        let missing = world.store.digits().version_key(version(98));
        world.delete("E", &missing).await;
        for (from, to, first, last) in [
            (96, 105, 96, 105),
            (1, 1, 1, 1),
            (90, 99, 90, 99),
            (5, 120, 21, 120),
            (119, 125, 119, 120),
            (121, 130, 121, 120),
        ] {
            let expected: Vec<u64> = (first..=last).filter(|number| *number != 98).collect();
            let found = run(&world, from, to, 9).await;
            assert_eq!(found, (first, expected), "{digits}: {from} to {to}");
        }
    }
    // Of large items, the oldest are omitted.
    let large = world(&database, "Large", 10).await;
    put(&large, "E", 12, &"x".repeat(300_000)).await;
    let first = async |requests| {
        let (first, found) = run(&large, 1, 12, requests).await;
        assert_eq!(found, (first..=12).collect::<Vec<_>>());
        first
    };
    let (one, two) = (first(1).await, first(2).await);
    assert!(one > 1 && two < one, "{one} {two}");
    assert_eq!(first(12).await, 1);
}
