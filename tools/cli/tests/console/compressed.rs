//! Versions that are compressed beside others that are not: each command of `vzero` and each page reads both.

use serde_json::{Value, json};
use shared::domain::compression::Compression;
use testkit::{
    database, script,
    table::{self, Table},
};

use crate::{new_table, served::Console};

const COMPRESS: [(&str, &str); 1] = [("HISTORY_COMPRESSION", "deflate")];

/// Creates a table with a history table, and an entity whose versions 1 and 3 are compressed.
fn table() -> Table {
    let table = new_table().with_own_history();
    table.block_on(table.store.claim_layout()).unwrap();
    for (number, compression) in [
        (1, Compression::Deflate),
        (2, Compression::None),
        (3, Compression::Deflate),
    ] {
        let store = table.store.clone().with_compression(compression);
        table.runtime.block_on(table::write(&store, document(number)));
    }
    table
}

fn document(number: u64) -> Value {
    let lines: Vec<_> = (0..40)
        .map(|line| json!({"Sku": format!("SKU-{line}"), "Quantity": line * number}))
        .collect();
    json!({
        "ID": "E", "RequestId": format!("r-{number}"), "N": number, "Lines": lines, "Text": "some text ".repeat(100),
    })
}

/// Returns the sort keys of the history table's compressed versions.
fn compressed(table: &Table) -> Vec<String> {
    let items = table
        .runtime
        .block_on(database::items(&table.client, table.store.history_table()));
    let compressed = items.iter().filter(|item| item.get("ImageDeflate").is_some());
    let mut keys: Vec<_> = compressed
        .map(|item| item["SK"]["S"].as_str().unwrap().to_owned())
        .collect();
    keys.sort();
    keys
}

#[test]
fn every_command_and_page_reads_compressed_versions() {
    let table = table();
    let console = Console::of(&table);
    assert_eq!(compressed(&table), ["v1", "v3"]);
    assert_ne!(console.json("/compare?id=E&from=1&to=3")["Changes"], json!([]));
    for number in 1..=3 {
        let shown = table.json(&["get", "E", "--version", &number.to_string()], 0);
        assert_eq!(shown["Attributes"]["N"], json!(number));
        assert_eq!(shown["Attributes"]["Lines"][7]["Quantity"], json!(7 * number));
        let version = console.json(&format!("/version?id=E&version={number}"));
        assert_eq!(version["Attributes"], shown["Attributes"]);
    }
    let at = table.json("get E --version 1", 0)["RecordedAt"].clone();
    let text = format!(
        r#"
        log E --full => Version [3, 2, 1]
        get E --at {} => {{"Version": 1}}
        diff E 1 3 => ~ Quantity
        audit E --lag 0 => {{"Findings": {{}}}}
        pin E 1 => {{"Pinned": true}}
        prune E --keep 1 --grace 9d --yes => {{"Marked": 1}}
        audit E --lag 0 => {{"Findings": {{}}}}
        "#,
        at.as_str().unwrap()
    );
    script::run(&table, &text);
    assert_eq!(compressed(&table), ["v1", "v3"]);
    script::run(&table, r#"purge E --yes --wait 0s => {"ID": "E"}"#);
    assert_eq!(compressed(&table), Vec::<String>::new());
}

#[test]
fn a_restore_writes_the_state_of_a_compressed_version() {
    let table = table();
    for (environment, expected) in [(&[][..], &["v1", "v3"][..]), (&COMPRESS, &["v1", "v3", "v5"])] {
        let restore = table.start_with(environment, "restore E 1 --mode inline");
        assert!(restore.wait_with_output().unwrap().status.success());
        assert_eq!(compressed(&table), expected);
        assert_eq!(table.json("get E", 0)["Attributes"]["N"], 1);
        table.json("audit E --lag 0", 0);
    }
}
