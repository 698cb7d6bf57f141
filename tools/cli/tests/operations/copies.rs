//! Copies of a table, whose layout names the history table of the original, and layouts that name a missing history table.

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};
use shared::{
    domain::keys::VersionDigits,
    dynamodb::{Store, read::table_config::LayoutError},
};
use testkit::{database, table::Table};

/// Creates a table without a layout.
fn new_table() -> Table {
    Table::new(env!("CARGO_BIN_EXE_vzero"))
}

fn of(table: &Table, name: &str, history: Option<&str>) -> Store {
    let history = history.map(str::to_owned);
    Store::new(table.client.clone(), name, VersionDigits::default()).with_history(history)
}

fn claim(table: &Table, store: &Store) -> Result<(), LayoutError> {
    table.runtime.block_on(store.claim_layout())
}

/// Returns a store with a history table, also if other tests have it in the table itself.
fn with_history(table: &Table, name: &str) -> Store {
    let store = if table.store.has_own_history() {
        table.store.clone()
    } else {
        let create = testkit::table::create_history(&table.client, name);
        table.runtime.block_on(create).unwrap();
        of(table, &table.name, Some(name))
    };
    assert_eq!(claim(table, &store), Ok(()));
    store
}

/// Creates a table with the items of this one, as a restore of a backup does.
fn copy(table: &Table, name: &str) -> String {
    let name = table.endpoint.table(name);
    create(table, &name, items(table, &table.name));
    name
}

fn create(table: &Table, name: &str, items: Vec<Value>) {
    table.runtime.block_on(async {
        testkit::table::create(&table.client, name).await.unwrap();
        for item in items {
            database::put_into(&table.client, name, item).await;
        }
    });
}

fn delete(table: &Table, name: &str) {
    let delete = table.client.delete_table().table_name(name).send();
    table.runtime.block_on(delete).unwrap();
}

/// Removes attributes of an item of the library itself.
fn remove(table: &Table, name: &str, sort_key: &str, attributes: &str) {
    let key = |text: &str| AttributeValue::S(text.to_owned());
    let request = table.client.update_item().table_name(name);
    let request = request.key("PK", key("#vzero")).key("SK", key(sort_key));
    let request = request.update_expression(format!("REMOVE {attributes}")).send();
    table.runtime.block_on(request).unwrap();
}

/// Returns the items of a history table without its owner.
fn versions_in(table: &Table, name: &str) -> Vec<Value> {
    let mut items = items(table, name);
    items.retain(|item| item["SK"]["S"] != "owner");
    items
}

/// Adopts a table, and returns the exit code and the error output.
fn adopt(table: &Table, name: &str, history: &str) -> (i32, String) {
    let (code, _, stderr) = run(table, name, &["table", "adopt", "--history-table", history]);
    (code, stderr)
}

fn items(table: &Table, name: &str) -> Vec<Value> {
    table.runtime.block_on(database::items(&table.client, name))
}

/// Runs a command on this table, and returns the exit code with both outputs.
fn run(table: &Table, name: &str, arguments: &[&str]) -> (i32, Vec<Value>, String) {
    let ran = table.run(&[&["--table", name], arguments].concat());
    (ran.code, ran.lines, ran.stderr)
}

fn versions(table: &Table, name: &str) -> Vec<u64> {
    let (code, lines, stderr) = run(table, name, &["history", "E"]);
    assert_eq!(code, 0, "{stderr}");
    lines.iter().map(|line| line["Version"].as_u64().unwrap()).collect()
}

#[test]
fn a_copy_leaves_the_history_of_the_original_alone() {
    let table = new_table();
    let history = table.endpoint.table("Original-history");
    let store = with_history(&table, &history);
    let history = store.history_table().to_owned();
    for n in 0..5 {
        let written = testkit::table::write(&store, json!({"ID": "E", "N": n}));
        assert_eq!(table.runtime.block_on(written), n + 1);
    }
    let (restored, later) = (copy(&table, "Restored"), copy(&table, "Later"));
    let untouched = (items(&table, &table.name), versions_in(&table, &history));
    for arguments in [
        &["purge", "E", "--yes", "--wait", "0s"][..],
        &["put", "E", "--set", "A=1", "--mode", "inline"],
        &["get", "E"],
        &["history", "E"],
        &["prune", "E", "--keep", "1"],
        &["audit", "--all"],
        &["repair", "E", "--yes"],
    ] {
        let (code, lines, stderr) = run(&table, &restored, arguments);
        assert_eq!((code, lines), (2, vec![]), "{arguments:?}: {stderr}");
        assert!(stderr.contains("is a copy of"), "{arguments:?}: {stderr}");
        assert!(stderr.contains("table adopt"), "{arguments:?}: {stderr}");
    }
    let refused = claim(&table, &of(&table, &restored, Some(&history)));
    assert!(matches!(refused, Err(LayoutError::Copy { .. })), "{refused:?}");

    // It gets a history table that no other table writes.
    for (arguments, code, message) in [
        (&["table", "adopt"][..], 2, "name the history table"),
        (
            &["table", "adopt", "--history-table", &history],
            4,
            "writes the history table",
        ),
        (
            &["table", "adopt", "--history-table", &table.name],
            4,
            "is a table of latest items",
        ),
    ] {
        let (ended, _, stderr) = run(&table, &restored, arguments);
        assert_eq!(ended, code, "{arguments:?}: {stderr}");
        assert!(stderr.contains(message), "{arguments:?}: {stderr}");
    }
    let own = table.endpoint.table("Restored-history");
    let adopt = ["table", "adopt", "--history-table", &own];
    let (code, lines, stderr) = run(&table, &restored, &adopt);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(
        lines,
        [json!({
            "Table": restored, "Outcome": "Adopted", "VersionDigits": 1, "HistoryTable": own, "Created": true,
            "CopyOf": table.name, "HistoryTableBefore": history,
        })]
    );
    // A second time changes nothing.
    assert_eq!(run(&table, &restored, &adopt).0, 0);
    let written = run(&table, &restored, &["put", "E", "--set", "A=1", "--mode", "inline"]);
    assert_eq!((written.0, &written.1[0]["Version"]), (0, &json!(6)), "{}", written.2);
    assert_eq!(claim(&table, &of(&table, &restored, Some(&own))), Ok(()));
    let purged = run(&table, &restored, &["purge", "E", "--yes", "--wait", "0s"]);
    assert_eq!(purged.0, 0, "{}", purged.2);
    assert_eq!((items(&table, &table.name), versions_in(&table, &history)), untouched);
    assert_eq!(versions(&table, &table.name), [5, 4, 3, 2, 1]);

    // The original is lost, and its history is not.
    let delete = table.client.delete_table().table_name(&table.name).send();
    table.runtime.block_on(delete).unwrap();
    let (code, _, stderr) = run(&table, &later, &["table", "adopt", "--history-table", &history]);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(versions(&table, &later), [5, 4, 3, 2, 1]);
    assert_eq!(versions_in(&table, &history), untouched.1);
}

#[test]
fn a_history_table_has_one_writer() {
    let table = new_table();
    let store = with_history(&table, &table.endpoint.table("Original-history"));
    let history = store.history_table().to_owned();
    let written = testkit::table::write(&store, json!({"ID": "E"}));
    assert_eq!(table.runtime.block_on(written), 1);
    let [older, other, before] = ["Older", "Other", "Before"].map(|name| copy(&table, name));
    // Of a time before the history was moved to its own table.
    remove(&table, &before, "config", "HistoryTable");
    let refused = |name: &str| {
        let (code, stderr) = adopt(&table, name, &history);
        assert_eq!(code, 4, "{name}: {stderr}");
        assert!(stderr.contains("writes the history table"), "{name}: {stderr}");
    };
    for _ in 0..2 {
        for name in [&older, &other, &before] {
            refused(name);
        }
        // A claim of an earlier release stored no owner.
        remove(&table, &history, "owner", "TableId");
    }
    // Another table whose functions are deployed with this history table.
    let another = table.endpoint.table("Another");
    create(&table, &another, vec![]);
    assert_eq!(adopt(&table, &table.name, &history).0, 0);
    let claimed = claim(&table, &of(&table, &another, Some(&history))).unwrap_err();
    assert!(matches!(claimed, LayoutError::Owned { .. }), "{claimed}");

    // The original is lost, and restored under its name.
    let saved = items(&table, &table.name);
    delete(&table, &table.name);
    create(&table, &table.name, saved);
    if run(&table, &table.name, &["get", "E"]).0 == 0 {
        // This database has no ids: the table is the same.
        return;
    }
    assert_eq!(adopt(&table, &table.name, &history).0, 0);
    for name in [&older, &other, &before] {
        refused(name);
        assert_eq!(run(&table, name, &["purge", "E", "--yes", "--wait", "0s"]).0, 2);
    }
    assert_eq!(versions(&table, &table.name), [1]);

    // Lost again: one of the copies continues the history, and the other one a copy of it.
    let history_copy = table.endpoint.table("History-copy");
    create(&table, &history_copy, items(&table, &history));
    delete(&table, &table.name);
    assert_eq!(adopt(&table, &older, &history).0, 0);
    refused(&other);
    refused(&before);
    assert_eq!(adopt(&table, &other, &history_copy).0, 0);
    assert_eq!((versions(&table, &older), versions(&table, &other)), (vec![1], vec![1]));
    let (code, stderr) = adopt(&table, &before, &history_copy);
    assert_eq!(code, 4, "{stderr}");
}

#[test]
fn a_layout_without_its_table_is_adopted_by_the_command_that_the_error_names() {
    for attributes in ["TableId", "TableName", "TableId, TableName"] {
        let table = new_table();
        let store = with_history(&table, &table.endpoint.table("Own-history"));
        let written = testkit::table::write(&store, json!({"ID": "E"}));
        assert_eq!(table.runtime.block_on(written), 1);
        remove(&table, &table.name, "config", attributes);
        let (code, _, stderr) = run(&table, &table.name, &["get", "E"]);
        assert_eq!(code, 2, "{stderr}");
        let history = store.history_table();
        let command = format!(
            "vzero --table {} admin table adopt --history-table {history}`",
            table.name
        );
        assert!(stderr.contains(&command), "{stderr}");
        assert_eq!(adopt(&table, &table.name, history), (0, String::new()));
        assert_eq!(versions(&table, &table.name), [1]);
    }
}

/// The functions of a deployment that is rolled back have written to its history table. The next one has another.
#[test]
fn versions_of_a_rolled_back_deployment_are_copied_into_the_next_history_table() {
    let table = new_table();
    let store = with_history(&table, &table.endpoint.table("Rolled-back"));
    let rolled_back = store.history_table().to_owned();
    for n in 0..3 {
        table
            .runtime
            .block_on(testkit::table::write(&store, json!({"ID": "E", "N": n})));
    }
    let purged = run(
        &table,
        &table.name,
        &["put", "Gone", "--set", "A=1", "--mode", "inline"],
    );
    assert_eq!(purged.0, 0, "{}", purged.2);
    assert_eq!(
        run(&table, &table.name, &["purge", "Gone", "--yes", "--wait", "0s"]).0,
        0
    );
    let stored = versions_in(&table, &rolled_back);
    let [next, occupied] = ["Next-history", "Occupied"].map(|name| table.endpoint.table(name));
    for name in [&next, &occupied] {
        let create = testkit::table::create_history(&table.client, name);
        table.runtime.block_on(create).unwrap();
    }
    let other = json!({"PK": {"S": "E"}, "SK": {"S": "v2"}, "Image": {"M": {}}});
    table
        .runtime
        .block_on(database::put_into(&table.client, &occupied, other));
    let (code, stderr) = adopt(&table, &table.name, &occupied);
    assert_eq!(code, 4, "{stderr}");
    assert!(stderr.contains("a different item"), "{stderr}");
    assert_eq!(claim(&table, &store), Ok(()), "the layout did not change");

    let next_store = of(&table, &table.name, Some(&next));
    let refused = claim(&table, &next_store).unwrap_err();
    let arguments = ["admin", "table", "adopt", "--history-table", &next];
    let command = format!("vzero --table {} {}", table.name, arguments.join(" "));
    assert!(refused.to_string().contains(&command), "{refused}");
    let (code, lines, stderr) = run(&table, &table.name, &arguments);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(lines[0]["Copied"], json!(stored.len()));
    assert_eq!(claim(&table, &next_store), Ok(()));
    assert_eq!(versions(&table, &table.name), [3, 2, 1]);
    let key = |item: &Value| item["PK"]["S"].to_string() + &item["SK"]["S"].to_string();
    let sorted = |mut items: Vec<Value>| {
        items.sort_by_key(key);
        items
    };
    assert_eq!(sorted(versions_in(&table, &next)), sorted(stored.clone()));
    assert_eq!(
        sorted(items(&table, &rolled_back)),
        sorted(stored),
        "it has no owner any more"
    );
}

#[test]
fn a_copy_with_history_beside_the_latest_items_is_adopted_without_a_name() {
    if testkit::endpoint::is_about_one_table("a_copy_with_history_beside_the_latest_items_is_adopted_without_a_name") {
        return;
    }
    let table = new_table();
    assert_eq!(claim(&table, &table.store), Ok(()));
    table.write(json!({"ID": "E"}));
    let restored = copy(&table, "Restored");
    assert_eq!(run(&table, &restored, &["get", "E"]).0, 2);
    assert_eq!(run(&table, &restored, &["table", "adopt"]).0, 0);
    assert_eq!(versions(&table, &restored), [1]);
    // The layout of a table that never had one.
    let other = table.endpoint.table("Other");
    table
        .runtime
        .block_on(testkit::table::create(&table.client, &other))
        .unwrap();
    let (code, lines, _) = run(&table, &other, &["--version-digits", "3", "table", "adopt"]);
    assert_eq!((code, &lines[0]["VersionDigits"]), (0, &json!(3)));
}

/// Deploys the functions of this table with a history table.
fn deployed(table: &Table, history: &str) -> Store {
    let history = table.endpoint.table(history);
    let create = testkit::table::create_history(&table.client, &history);
    table.runtime.block_on(create).unwrap();
    let store = of(table, &table.name, Some(&history));
    assert_eq!(claim(table, &store), Ok(()));
    store
}

/// CloudFormation rolls a first deployment of a history table back after the writer has declared it.
#[test]
fn a_layout_that_names_a_missing_history_table_is_replaced() {
    let table = new_table();
    if table.store.has_own_history() {
        return;
    }
    let rolled_back = deployed(&table, "Rolled-back");
    let missing = rolled_back.history_table().to_owned();
    delete(&table, &missing);
    assert!(claim(&table, &table.store).is_err());
    let next = table.endpoint.table("Next-history");
    let next_store = of(&table, &table.name, Some(&next));
    let refused = claim(&table, &next_store).unwrap_err();
    assert!(matches!(refused, LayoutError::History { .. }), "{refused}");
    let command = format!("vzero --table {} admin table adopt --history-table {next}", table.name);
    assert!(refused.to_string().contains(&command), "{refused}");

    let (code, lines, stderr) = run(&table, &table.name, &["table", "adopt", "--history-table", &next]);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(lines[0]["HistoryTableBefore"], json!(missing));
    assert_eq!(claim(&table, &next_store), Ok(()));
    table
        .runtime
        .block_on(testkit::table::write(&next_store, json!({"ID": "E", "N": 1})));
    assert_eq!(versions(&table, &table.name), [1]);
    // Its versions would be lost.
    let (code, _, stderr) = run(&table, &table.name, &["table", "adopt", "--history-table", &table.name]);
    assert_eq!(code, 4, "{stderr}");
    assert!(stderr.contains("has items"), "{stderr}");
    // Back to the layout before the deployment.
    let table = new_table();
    let rolled_back = deployed(&table, "Rolled-back-again");
    delete(&table, rolled_back.history_table());
    assert!(claim(&table, &table.store).is_err());
    let (code, _, stderr) = run(&table, &table.name, &["table", "adopt", "--history-table", &table.name]);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(claim(&table, &table.store), Ok(()));
    assert_eq!(table.write(json!({"ID": "E"})), 1);
}
