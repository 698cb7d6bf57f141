//! A stack with compressed versions, with each write mode.

use serde_json::{Value, json};
use shared::{
    domain::{Item, keys::VersionDigits, version_item::VersionItem},
    dynamodb::put::put_version::PutOutcome,
};
use testkit::database;

use crate::support::{RunningStack, failed, insert, invoke, item, settled, start_with, template, write};

const PARAMETERS: [(&str, &str); 2] = [("HistoryTable", "own"), ("HistoryCompression", "deflate")];

fn document(number: u64) -> Value {
    let lines: Vec<_> = (0..40)
        .map(|line| json!({"Sku": format!("SKU-{line}"), "Quantity": line * number}))
        .collect();
    json!({"ID": "Order#1", "RequestId": format!("r-{number}"), "Lines": lines})
}

#[tokio::test(flavor = "multi_thread")]
async fn each_write_mode_stores_compressed_versions() {
    for mode in ["stream", "inline", "transaction"] {
        let parameters = [&PARAMETERS[..], &[("WriteMode", mode)]].concat();
        let stack = start_with(template(&parameters)).await;
        for number in 1..=3 {
            assert_eq!(
                write(&stack, document(number)).await,
                ("Written".to_owned(), json!(number)),
                "{mode}"
            );
        }
        assert_eq!(write(&stack, json!({"ID": "Small#1"})).await.0, "Written");
        settled(&stack).await;
        let history = versions(&stack).await;
        let mut forms: Vec<_> = history
            .iter()
            .map(|item| (item["PK"]["S"].as_str().unwrap(), item.get("ImageDeflate").is_some()))
            .collect();
        forms.sort_unstable();
        assert_eq!(
            forms,
            [
                ("Order#1", true),
                ("Order#1", true),
                ("Order#1", true),
                ("Small#1", false)
            ],
            "{mode}"
        );
        let latest: Item = serde_json::from_value(item(&stack, "Order#1", "v0").await).unwrap();
        let newest: Item = serde_json::from_value(item(&stack, "Order#1", "v3").await).unwrap();
        let version = VersionItem::from_image(latest, VersionDigits::default()).unwrap();
        assert!(version.is_same_as(&newest), "{mode}");
        let again = stack.store.put_version(&version).await.unwrap();
        assert_eq!(again, PutOutcome::AlreadyRecorded, "{mode}");
    }
}

/// Returns the items of the history table, without the one that names its owner.
async fn versions(stack: &RunningStack) -> Vec<Value> {
    let mut items = database::items(&stack.client(), stack.store.history_table()).await;
    items.retain(|item| item["PK"]["S"] != "#vzero");
    items
}

/// A record that is delivered again finds its version, although the version is stored in the other form.
#[tokio::test(flavor = "multi_thread")]
async fn a_redelivered_record_equals_a_version_in_the_other_form() {
    let stack = start_with(template(&PARAMETERS)).await;
    write(&stack, document(1)).await;
    settled(&stack).await;
    let image = item(&stack, "Order#1", "v0").await;
    let version =
        VersionItem::from_image(serde_json::from_value(image.clone()).unwrap(), VersionDigits::default()).unwrap();
    let client = stack.client();
    let history = stack.store.history_table();
    let record = json!({"Records": [insert("100", &image)]});
    let plain =
        shared::domain::layout::stored(version.item(), shared::domain::compression::Compression::None).remove(0);
    database::put_into(&client, history, serde_json::to_value(&plain).unwrap()).await;
    assert_eq!(invoke(&stack, "stream-fn", &record).await, failed(&[]));
    let stored = versions(&stack).await;
    assert_eq!(stored.len(), 1, "nothing is in quarantine");
    assert!(stored[0].get("Image").is_some());
}
