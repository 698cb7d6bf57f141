//! With the index by time, each version is in it once, with the time of its insertion, and equal to a version without its marks.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use operations::table::{adopt::adopt_table, create::create_table, settings::TableSettings};
use serde_json::{Value, json};
use shared::{
    clock::Deadline,
    domain::{keys::VersionDigits, recorded_at::RecordedAt, version_item::VersionItem},
    dynamodb::{
        Store,
        put::{put_version::PutOutcome, put_versions::BatchOutcome},
    },
};
use testkit::database::{Database, at_second, index_entries, put_into};

/// Time of insertion of each version, and that of its second delivery.
const INSERTED: u64 = 1_000_000;
const AGAIN: u64 = 2_000_000;

/// Creates tables with the index, and returns their store, which finds the index.
async fn indexed(database: &Database, name: &str, history: Option<&str>) -> Store {
    let table = |name: &str| {
        Store::new(
            database.client.clone(),
            database.table_name(name),
            VersionDigits::default(),
        )
    };
    for (name, is_latest) in [(Some(name), true), (history, false)] {
        let Some(name) = name else { continue };
        let settings = TableSettings {
            ttl: None,
            deletion_protection: false,
            point_in_time_recovery: false,
            encryption: false,
            time_index: history.is_none() || !is_latest,
            ..TableSettings::default()
        };
        assert!(create_table(&table(name), &settings).await.unwrap().is_some());
    }
    let history = history.map(|history| database.table_name(history));
    table(name).with_history(history).with_time_index(None)
}

/// Returns a version that was recorded this number of seconds after its insertion.
fn version(id: &str, recorded_after: Option<i64>, attributes: Value) -> VersionItem {
    let mut image = attributes;
    (image["PK"], image["SK"], image["Latest"]) = (json!({"S": id}), json!({"S": "v0"}), json!({"N": "1"}));
    if let Some(after) = recorded_after {
        let recorded = Duration::from_secs(INSERTED.saturating_add_signed(after));
        image["RecordedAt"] = json!({"S": RecordedAt::since_epoch(recorded).to_string()});
        image["RecordedVersion"] = json!({"N": "1"});
    }
    VersionItem::from_image(serde_json::from_value(image).unwrap(), VersionDigits::default()).unwrap()
}

fn versions() -> Vec<VersionItem> {
    let random: Vec<_> = std::iter::repeat_with(|| fastrand::u8(..)).take(409_000).collect();
    let large = json!({"A": {"B": BASE64.encode(random)}});
    let marks = json!({"TimePartition": {"N": "1"}, "InsertedAt": {"BOOL": true}, "A": {"S": "a"}});
    vec![
        version("Ahead", Some(3600), json!({})),
        version("InTime", Some(-900), json!({"A": {"S": "a"}})),
        version("Large", Some(0), large),
        version("Late", Some(-901), json!({})),
        // Of another program, which has written attributes with these names.
        version("Undated", None, marks),
    ]
}

/// Times of insertion and the sets of [`versions`] that were inserted at this second.
fn expected(second: u64) -> Vec<String> {
    let time = |second: u64| {
        RecordedAt::since_epoch(Duration::from_secs(second))
            .to_string()
            .replace("000000Z", "Z")
    };
    let is_late = second == AGAIN;
    [
        format!(
            "Ahead {} {}",
            is_late,
            time(if is_late { AGAIN } else { INSERTED + 3585 })
        ),
        format!("InTime {} {}", is_late, time(second)),
        format!("Large {} {}", is_late, time(second)),
        format!("Late true {}", time(second)),
        format!("Undated true {}", time(second)),
    ]
    .into()
}

async fn found(store: &Store) -> Vec<String> {
    let entries = index_entries(store.client(), store.history_table()).await;
    let shown = entries.into_iter().map(|[sort_key, id, partition, inserted]| {
        assert_eq!(sort_key, "v1");
        let (inserted, _) = inserted.split_once('/').unwrap();
        format!("{id} {} {inserted}", partition.starts_with("late"))
    });
    shown.collect()
}

#[tokio::test]
async fn each_version_is_in_the_index_once_and_a_second_delivery_finds_it() {
    let database = Database::start().await;
    for (name, history, is_batch) in [
        ("Same", None, false),
        ("SameBatch", None, true),
        ("Own", Some("Own-log"), false),
        ("OwnBatch", Some("OwnBatch-log"), true),
    ] {
        let store = indexed(&database, name, history).await;
        let versions = versions();
        for (second, expected) in [(INSERTED, PutOutcome::Recorded), (AGAIN, PutOutcome::AlreadyRecorded)] {
            let store = at_second(&store, second);
            let put = async |version: &VersionItem| store.put_version(version).await.unwrap();
            for version in versions.iter().filter(|_| !is_batch) {
                assert_eq!(put(version).await, expected, "{name} {:?}", version.entity());
            }
            if is_batch {
                let batch: Vec<_> = versions.iter().collect();
                let outcomes = store
                    .put_versions(&batch, Deadline::after(Duration::from_secs(60)))
                    .await;
                for (outcome, version) in outcomes.into_iter().zip(&versions) {
                    let outcome = match outcome {
                        BatchOutcome::Done(done) => done.unwrap(),
                        // In parts.
                        _ => put(version).await,
                    };
                    assert_eq!(outcome, expected, "{name} {:?}", version.entity());
                }
            }
            assert_eq!(found(&store).await, self::expected(INSERTED), "{name}");
        }
        let undated = &versions[4];
        let stored = store
            .version(undated.entity(), undated.version(), true)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            serde_json::to_value(stored.attributes).unwrap(),
            json!({"A": {"S": "a"}})
        );
    }
}

#[tokio::test]
async fn history_that_moves_to_another_table_is_in_its_index_with_the_time_of_the_copy() {
    let database = Database::start().await;
    let store = indexed(&database, "Moving", None).await;
    // The latest items of the versions, without which adoption has nothing to do.
    for version in versions() {
        at_second(&store, INSERTED).put_version(&version).await.unwrap();
        let id = version.entity().as_str();
        let latest = json!({"PK": {"S": id}, "SK": {"S": "v0"}, "Latest": {"N": "1"}});
        put_into(&database.client, store.latest_table(), latest).await;
    }
    store.claim_layout().await.unwrap();
    let moved = indexed(&database, "Unused", Some("Moved")).await;
    let history = database.table_name("Moved");
    moved
        .store_time_index_since(Some("2026-11-26T00:00:00Z"))
        .await
        .unwrap();
    let adopted = adopt_table(&store, Some(&history), None, false).await.unwrap();
    assert_eq!(adopted.copied, 6);
    let entries = index_entries(&database.client, &history).await;
    assert!(
        entries.iter().all(|[_, _, partition, _]| partition.starts_with("late")),
        "{entries:?}"
    );
    assert_eq!(entries.len(), 5);
    assert!(found(&store).await.is_empty());
    // A second move, from one history table to another, which has no index. Settings stay with their table.
    database.table("Plain", &testkit::database::KEYS).await;
    let plain = database.table_name("Plain");
    let adopted = adopt_table(&store, Some(&plain), None, false).await.unwrap();
    assert_eq!(adopted.copied, 6);
    let items = testkit::database::items(&database.client, &plain).await;
    for name in ["TimePartition", "InsertedAt", "TimeIndexSince"] {
        assert!(items.iter().all(|item| item.get(name).is_none()), "{name}");
    }
}
