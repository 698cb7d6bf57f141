//! A stack with compressed versions, with each write mode.

use serde_json::{Value, json};
use testkit::database;

use crate::support::{settled, start_with, template, write};

fn document(number: u64) -> Value {
    let lines: Vec<_> = (0..40)
        .map(|line| json!({"Sku": format!("SKU-{line}"), "Quantity": line * number}))
        .collect();
    json!({"ID": "Order#1", "RequestId": format!("r-{number}"), "Lines": lines})
}

#[tokio::test(flavor = "multi_thread")]
async fn each_write_mode_stores_compressed_versions() {
    for mode in ["stream", "inline", "transaction"] {
        let parameters = [
            ("HistoryTable", "own"),
            ("HistoryCompression", "deflate"),
            ("WriteMode", mode),
        ];
        let stack = start_with(template(&parameters)).await;
        for update in [document(1), document(2), json!({"ID": "Small#1"})] {
            assert_eq!(write(&stack, update).await.0, "Written", "{mode}");
        }
        settled(&stack).await;
        let items = database::items(&stack.client(), stack.store.history_table()).await;
        // Without the item that names the owner of the table.
        let versions = items.iter().filter(|item| item["PK"]["S"] != "#vzero");
        let form = |item: &Value| json!([item["PK"]["S"], item.get("ImageDeflate").is_some()]).to_string();
        let mut forms: Vec<_> = versions.map(form).collect();
        forms.sort_unstable();
        let expected = r#"["Order#1",true] ["Order#1",true] ["Small#1",false]"#;
        assert_eq!(forms.join(" "), expected, "{mode}");
    }
}
