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
use testkit::database::{Database, KEYS, at_second, index_entries, items, put_into};

/// Time of insertion of each version, and that of its second delivery.
const INSERTED: u64 = 1_000_000;
const AGAIN: u64 = 2_000_000;

/// Creates tables with the index, and returns their store, which finds the index.
pub(crate) async fn indexed(database: &Database, name: &str, history: Option<&str>) -> Store {
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

/// Returns versions, and their sets and times of insertion in the index.
fn versions() -> (Vec<VersionItem>, Vec<String>) {
    let random: Vec<_> = std::iter::repeat_with(|| fastrand::u8(..)).take(409_000).collect();
    let large = json!({"A": {"B": BASE64.encode(random)}});
    let marks = json!({"TimePartition": {"N": "1"}, "InsertedAt": {"BOOL": true}, "A": {"S": "a"}});
    let cases = [
        ("Ahead", Some(3600), json!({}), false, 3585),
        ("InTime", Some(-900), json!({"A": {"S": "a"}}), false, 0),
        ("Large", Some(0), large, false, 0),
        ("Late", Some(-901), json!({}), true, 0),
        // Of another program, which has written attributes with these names.
        ("Undated", None, marks, true, 0),
    ];
    let cases = cases.map(|(id, recorded_after, attributes, is_late, inserted_after)| {
        let time = RecordedAt::since_epoch(Duration::from_secs(INSERTED + inserted_after)).to_string();
        let entry = format!("{id} {is_late} {}", time.replace("000000Z", "Z"));
        (version(id, recorded_after, attributes), entry)
    });
    cases.into_iter().unzip()
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
        let (versions, entries) = versions();
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
            assert_eq!(found(&store).await, entries, "{name}");
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
    for version in versions().0 {
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
    assert_eq!(adopted.copied, 5);
    let entries = index_entries(&database.client, &history).await;
    // The only one without a `RecordedAt`.
    let is_undated = |[.., inserted]: &&[String; 4]| inserted.ends_with('/');
    assert_eq!(entries.iter().find(is_undated).unwrap()[1], "Undated");
    assert_eq!(entries.iter().filter(is_undated).count(), 1);
    assert!(
        entries.iter().all(|[_, _, partition, _]| partition.starts_with("late")),
        "{entries:?}"
    );
    assert_eq!(entries.len(), 5);
    assert!(found(&store).await.is_empty());
    // From one history table to another, in which the attributes of some are in `Image`, and to one without an index.
    indexed(&database, "Unused2", Some("Moved2")).await;
    database.table("Plain", &KEYS).await;
    for (table, count) in [("Moved2", 5), ("Plain", 0)] {
        let table = database.table_name(table);
        let adopted = adopt_table(&store, Some(&table), None, false).await.unwrap();
        // With the second part of the large one.
        assert_eq!(adopted.copied, 6);
        let items = items(&database.client, &table).await;
        let dated = items.iter().filter_map(|item| item["InsertedAt"]["S"].as_str());
        let (dated, undated): (Vec<_>, Vec<_>) = dated.partition(|inserted| inserted.contains("/1970"));
        assert_eq!((dated.len(), undated.len()), (count - count / 5, count / 5));
        // Settings stay with their table.
        assert!(items.iter().all(|item| item.get("TimeIndexSince").is_none()));
    }
}
