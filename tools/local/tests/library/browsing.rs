//! Reads of the history browser: latest items by key prefix, existing versions, and runs of versions.

use std::collections::BTreeSet;

use operations::{
    read::{
        scan_latest::{LatestFilter, LatestItem, scan_latest},
        version_run::version_run,
        versions_in_history::versions_in_history,
    },
    revision::{self, ChangeOptions},
    segments::scan::Segment,
};
use serde_json::json;
use shared::{
    config::{WriteMode, WriteOptions},
    domain::request_id::RequestId,
    dynamodb::Store,
};
use testkit::database::{Database, delete_item, entity, mode, update, version, write};

async fn put(store: &Store, id: &str, count: u64, text: &str) {
    for number in 1..=count {
        let update = update(json!({"ID": id, "n": number, "Text": text, "Time": "1970-01-01T00:00:09Z"}));
        write(store, &update, mode(WriteMode::Inline)).await.unwrap();
    }
}

/// Returns the latest items that pass the filter, scanned in `total` segments with this limit, and the number of items read.
async fn latest_items(store: &Store, filter: &LatestFilter, total: u32, limit: Option<i32>) -> (Vec<LatestItem>, u64) {
    let (mut items, mut read) = (Vec::new(), 0);
    for index in 0..total {
        let mut start = None;
        loop {
            let segment = Segment { index, total };
            let page = scan_latest(store, segment, filter, start, limit).await.unwrap();
            items.extend(page.items);
            read += page.read;
            start = page.next;
            if start.is_none() {
                break;
            }
        }
    }
    items.sort_by(|a, b| a.entity.cmp(&b.entity));
    (items, read)
}

#[tokio::test]
async fn latest_items_are_filtered_by_part_of_the_key() {
    let database = Database::start().await;
    for digits in [1, 10] {
        let store = database.store(&format!("Latest{digits}"), digits).await;
        for (id, versions) in [("A#1", 3), ("A#2", 1), ("B#1", 2), ("a#1", 1)] {
            put(&store, id, versions, "x").await;
        }
        let request = RequestId::new("gone").unwrap();
        let gone = entity("A#2");
        let deleted = revision::delete(
            &store,
            &gone,
            request,
            ChangeOptions::default(),
            WriteOptions::default(),
        );
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
            let filter = LatestFilter {
                text: text.to_owned(),
                deleted,
            };
            for (segments, limit) in [(1, None), (4, None), (3, Some(1))] {
                let (found, read) = latest_items(&store, &filter, segments, limit).await;
                let ids: Vec<_> = found.iter().map(|item| item.entity.as_str()).collect();
                assert_eq!(ids, expected, "{text} {deleted:?} {segments} {limit:?}");
                // Four latest items and, in the same table, seven version items: the one of the tombstone is not put here.
                let items = if store.has_own_history() { 4 } else { 11 };
                assert!(read >= items, "{read}");
            }
        }
        let (found, _) = latest_items(&store, &LatestFilter::default(), 1, None).await;
        let states: Vec<_> = found
            .iter()
            .map(|item| (item.version.unwrap().get(), item.deleted))
            .collect();
        assert_eq!(states, [(3, false), (2, true), (2, false), (1, false)]);
        for item in &found {
            let latest = store.latest(&item.entity, true).await.unwrap().unwrap();
            assert!(item.recorded_at.is_some() && item.recorded_at == latest.recorded_at);
        }
        // The entities whose latest version is in history.
        let versions: Vec<_> = found
            .iter()
            .map(|item| (item.entity.clone(), item.version.unwrap()))
            .collect();
        let recorded: BTreeSet<_> = versions_in_history(&store, &versions, true)
            .await
            .unwrap()
            .into_iter()
            .collect();
        assert_eq!(recorded, ["A#1", "B#1", "a#1"].map(entity).into());
        assert!(versions_in_history(&store, &[], true).await.unwrap().is_empty());
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
    for digits in [1, 2, 10] {
        let name = format!("Runs{digits}");
        let store = database.store(&name, digits).await;
        put(&store, "E", 120, "x").await;
        let gone = store.digits().version_key(version(98));
        delete_item(&database.client, &database.table_name(&name), "E", &gone).await;
        for (from, to, first, last, missing) in [
            (96, 105, 96, 105, Some(98)),
            (1, 1, 1, 1, None),
            (90, 99, 90, 99, Some(98)),
            (5, 120, 21, 120, Some(98)),
            (119, 125, 119, 120, None),
            (121, 130, 121, 120, None),
        ] {
            let run = version_run(&store, &entity("E"), version(from), version(to), 9, true)
                .await
                .unwrap();
            let found: Vec<_> = run.items.keys().copied().collect();
            let expected: Vec<u64> = (first..=last).filter(|number| Some(*number) != missing).collect();
            assert_eq!((run.from, found), (first, expected), "{digits}: {from} to {to}");
        }
    }
}

#[tokio::test]
async fn a_run_of_large_items_omits_the_oldest() {
    let database = Database::start().await;
    let store = database.store("Large", 10).await;
    put(&store, "E", 12, &"x".repeat(300_000)).await;
    let run = async |requests| {
        let run = version_run(&store, &entity("E"), version(1), version(12), requests, true)
            .await
            .unwrap();
        let found: Vec<_> = run.items.keys().copied().collect();
        assert_eq!(found, (run.from..=12).collect::<Vec<_>>());
        run.from
    };
    let (one, two) = (run(1).await, run(2).await);
    assert!(one > 1 && two < one, "{one} {two}");
    assert_eq!(run(12).await, 1);
}
