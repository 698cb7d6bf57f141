//! Copies of a table, whose layout names the history table of the original, and layouts that name a missing history table.

use serde_json::{Value, json};
use shared::{
    domain::keys::VersionDigits,
    dynamodb::{HistoryTable, Store, read::table_config::LayoutError},
};
use testkit::{database, table::Table};

use crate::new_table;

fn of(table: &Table, name: &str, history: Option<&str>) -> Store {
    let history = history.map(|name| HistoryTable {
        name: name.to_owned(),
        is_migrating: false,
    });
    Store::new(table.client.clone(), name, VersionDigits::default()).with_history(history)
}

fn claim(table: &Table, store: &Store) -> Result<bool, LayoutError> {
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
    assert_eq!(claim(table, &store), Ok(false));
    store
}

/// Creates a table with the items of this one, as a restore of a backup does.
fn copy(table: &Table, name: &str) -> String {
    let name = table.endpoint.table(name);
    table.runtime.block_on(async {
        testkit::table::create(&table.client, &name).await.unwrap();
        for item in database::items(&table.client, &table.name).await {
            database::put_into(&table.client, &name, item).await;
        }
    });
    name
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
    let untouched = (items(&table, &table.name), items(&table, &history));
    for arguments in [
        &["purge", "E", "--yes", "--wait", "0s"][..],
        &["put", "E", "--set", "A=1", "--mode", "inline"],
        &["get", "E"],
        &["history", "E"],
        &["prune", "E", "--keep", "1"],
        &["audit", "--all"],
        &["repair", "E", "--yes"],
        &["migrate"],
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
    assert_eq!(claim(&table, &of(&table, &restored, Some(&own))), Ok(false));
    let purged = run(&table, &restored, &["purge", "E", "--yes", "--wait", "0s"]);
    assert_eq!(purged.0, 0, "{}", purged.2);
    assert_eq!((items(&table, &table.name), items(&table, &history)), untouched);
    assert_eq!(versions(&table, &table.name), [5, 4, 3, 2, 1]);

    // The original is lost, and its history is not.
    let delete = table.client.delete_table().table_name(&table.name).send();
    table.runtime.block_on(delete).unwrap();
    let (code, _, stderr) = run(&table, &later, &["table", "adopt", "--history-table", &history]);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(versions(&table, &later), [5, 4, 3, 2, 1]);
    assert_eq!(items(&table, &history), untouched.1);
}

#[test]
fn a_copy_with_history_beside_the_latest_items_is_adopted_without_a_name() {
    if testkit::endpoint::is_about_one_table("a_copy_with_history_beside_the_latest_items_is_adopted_without_a_name") {
        return;
    }
    let table = new_table();
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

/// CloudFormation rolls a first deployment of a history table back after the writer has declared it.
#[test]
fn a_layout_that_names_a_missing_history_table_is_replaced() {
    for has_items in [false, true] {
        let table = new_table();
        if table.store.has_own_history() {
            return;
        }
        if has_items {
            table.write(json!({"ID": "E"}));
        }
        let missing = table.endpoint.table_name("Rolled-back");
        let rolled_back = of(&table, &table.name, Some(&missing));
        assert_eq!(claim(&table, &rolled_back), Ok(has_items));
        // The functions before the deployment only run if history is being moved.
        let same = claim(&table, &table.store);
        assert_eq!(same.is_ok(), has_items, "{same:?}");
        let next = table.endpoint.table("Next-history");
        let next_store = of(&table, &table.name, Some(&next));
        let refused = claim(&table, &next_store).unwrap_err();
        assert!(matches!(refused, LayoutError::History { .. }), "{refused}");
        let command = format!("vzero --table {} table adopt --history-table {next}", table.name);
        assert!(refused.to_string().contains(&command), "{refused}");

        let (code, lines, stderr) = run(&table, &table.name, &["table", "adopt", "--history-table", &next]);
        assert_eq!(code, 0, "{stderr}");
        assert_eq!(lines[0]["HistoryTableBefore"], json!(missing));
        assert_eq!(claim(&table, &next_store), Ok(has_items));
        let mut writer = next_store.clone();
        writer.set_migrating(has_items);
        table
            .runtime
            .block_on(testkit::table::write(&writer, json!({"ID": "E", "N": 1})));
        let expected = if has_items { vec![2, 1] } else { vec![1] };
        let moved = run(&table, &table.name, &["migrate", "--wait", "0s"]);
        assert_eq!(moved.0, 0, "{}", moved.2);
        assert_eq!(versions(&table, &table.name), expected);
        // Its versions would be lost.
        let (code, _, stderr) = run(&table, &table.name, &["table", "adopt", "--history-table", &table.name]);
        assert_eq!(code, 4, "{stderr}");
        assert!(stderr.contains("has items"), "{stderr}");
    }
    // Back to the layout before the deployment.
    let table = new_table();
    let missing = table.endpoint.table_name("Rolled-back-again");
    assert_eq!(claim(&table, &of(&table, &table.name, Some(&missing))), Ok(false));
    assert!(claim(&table, &table.store).is_err());
    let (code, _, stderr) = run(&table, &table.name, &["table", "adopt", "--history-table", &table.name]);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(claim(&table, &table.store), Ok(false));
    assert_eq!(table.write(json!({"ID": "E"})), 1);
}
