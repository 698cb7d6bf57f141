//! What each layout and write mode stores: each version is in the index by time once, and those in a history table are compressed.

use serde_json::{Value, json};
use shared::domain::time_index::{self, LATE};
use testkit::database::{self, index_entries};

use crate::support::{settled, start_with, template, write};

#[tokio::test(flavor = "multi_thread")]
async fn each_version_is_in_the_index_once() {
    let long: Vec<_> = (0..40)
        .map(|line| json!({"Sku": format!("SKU-{line}"), "Quantity": line}))
        .collect();
    for (history, compression, mode) in [
        ("same", "none", "stream"),
        ("same", "none", "inline"),
        ("same", "none", "transaction"),
        ("own", "deflate", "stream"),
        ("own", "deflate", "inline"),
        ("own", "deflate", "transaction"),
    ] {
        let stack = start_with(template(&[
            ("TimeIndex", "true"),
            ("HistoryTable", history),
            ("HistoryCompression", compression),
            ("WriteMode", mode),
        ]))
        .await;
        for (id, number, lines) in [("A", 1, json!(long)), ("B", 1, json!([])), ("A", 2, json!(long))] {
            let update = json!({"ID": id, "RequestId": format!("{id}{number}"), "N": number, "Lines": lines});
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
        // The version of `B` is too short.
        let is_compressed = |item: &Value| history == "own" && item["PK"]["S"] == "A";
        let marked = items.iter().filter(|item| item.get("InsertedAt").is_some());
        let forms = marked.map(|item| item.get("ImageDeflate").is_some() == is_compressed(item));
        assert_eq!(forms.collect::<Vec<_>>(), [true; 3], "{history} {mode}");
    }
}
