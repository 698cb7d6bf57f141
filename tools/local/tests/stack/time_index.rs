//! A stack with the index by time: each version is in it once, in each layout and write mode.

use serde_json::{Value, json};
use shared::domain::time_index::{self, LATE};
use testkit::database::{self, index_entries};

use crate::support::{settled, start_with, template, write};

#[tokio::test(flavor = "multi_thread")]
async fn each_version_is_in_the_index_once() {
    for (history, mode) in [
        ("same", "stream"),
        ("same", "inline"),
        ("same", "transaction"),
        ("own", "stream"),
        ("own", "inline"),
        ("own", "transaction"),
    ] {
        let parameters = [("TimeIndex", "true"), ("HistoryTable", history), ("WriteMode", mode)];
        let stack = start_with(template(&parameters)).await;
        for (id, number) in [("A", 1), ("B", 1), ("A", 2)] {
            let update = json!({"ID": id, "RequestId": format!("{id}{number}"), "N": number});
            assert_eq!(write(&stack, update).await.0, "Written", "{history} {mode}");
        }
        settled(&stack).await;
        let table = stack.store.history_table();
        let entries = index_entries(&stack.client(), table).await;
        let found: Vec<_> = entries
            .iter()
            .map(|[sort_key, id, ..]| format!("{id} {sort_key}"))
            .collect();
        assert_eq!(found, ["A v1", "B v1", "A v2"], "{history} {mode}");
        for [.., partition, inserted] in &entries {
            let (inserted, recorded) = time_index::parse(inserted).unwrap();
            let is_near = inserted < recorded.unwrap().after(LATE);
            assert!(!partition.starts_with("late") && is_near, "{history} {mode}");
        }
        let items = database::items(&stack.client(), table).await;
        let mut since = items.iter().filter_map(|item| item.get("TimeIndexSince"));
        assert_eq!(
            since.next(),
            Some(&json!({"S": "1970-01-01T00:00:00Z"})),
            "{history} {mode}"
        );
        let is_marked = |item: &&Value| item.get("InsertedAt").is_some();
        assert_eq!(items.iter().filter(is_marked).count(), 3, "{history} {mode}");
    }
}
