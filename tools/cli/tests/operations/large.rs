//! Documents of very many records, and versions in parts.

use std::{fs, time::Duration};

use operations::prune::requests::{Mark, mark_version};
use serde_json::json;
use shared::{
    domain::version::Version,
    dynamodb::{Store, put::put_version::PutOutcome},
};
use testkit::{command::members, database, hostile::incompressible, script, table::create_history};

use crate::new_table;

/// A document of 4 MB can name 2,000,000 records.
#[cfg(target_os = "linux")]
#[test]
fn a_document_of_very_many_records_needs_little_memory() {
    const MAX_KB: u32 = 1_000_000;
    let table = new_table();
    let folder = tempfile::tempdir().unwrap();
    // Four of them, and four within the limit, but with more malformed records than are named.
    for (number, count) in (0..8).zip([2_000_000, 10_000].into_iter().cycle()) {
        let text = format!("{{\"payload\": {{\"Records\": [{}]}}}}", vec!["7"; count].join(","));
        fs::write(folder.path().join(number.to_string()), text).unwrap();
    }
    let run = table.run_limited(MAX_KB, &["redrive", folder.path().to_str().unwrap(), "--dry-run"]);
    assert_eq!(run.code, 4, "{}", run.stderr);
    let answer = run.json();
    let counts = members(&answer, &["Documents", "NotDocuments", "Malformed", "Omitted"]);
    assert_eq!(counts, json!([4, 4, 40_000, 30_000]));
    assert_eq!(answer["MalformedRecords"].as_array().unwrap().len(), 10_000);
}

#[test]
fn a_version_in_parts_is_moved_with_its_parts_and_marks() {
    let table = new_table();
    if table.store.has_own_history() {
        return;
    }
    let entity = database::entity("Large");
    let read = |store: &Store| table.block_on(store.get(&entity, "v1", true)).unwrap().unwrap();
    table.block_on(async {
        let bytes = json!({"B": incompressible(409_500)});
        let latest = json!({"PK": {"S": "Large"}, "SK": {"S": "v0"}, "Latest": {"N": "1"}, "A": bytes});
        database::put_into(&table.client, &table.name, latest).await;
        assert_eq!(database::put_version(&table.store, &entity).await, PutOutcome::Recorded);
        let mark = Mark::Expires(table.store.clock().now() + Duration::from_secs(3600));
        assert!(mark_version(&table.store, &entity, Version::FIRST, mark).await.unwrap());
    });
    let before = read(&table.store);
    assert!(before.contains_key("TTL"));
    let history = table.endpoint.table("Own-history");
    table.block_on(create_history(&table.client, &history)).unwrap();
    let text = r#"
        @items_in TABLE => = ["Large part#v1#2", "Large v0", "Large v1"]
        admin table adopt --history-table HISTORY --yes => 0
        @items_in TABLE => = ["Large v0"]
        @items_in HISTORY => = ["Large part#v1#2", "Large v1"]
        "#;
    script::run(&table, &text.replace("TABLE", &table.name).replace("HISTORY", &history));
    assert!(read(&table.store.clone().with_history(Some(history.clone()))) == before);
    let mut stored = table.block_on(database::items(&table.client, &history));
    stored.retain(|item| item["PK"]["S"] != "#vzero");
    assert!(stored.iter().all(|item| item["TTL"] == stored[0]["TTL"]));
}
