//! Copies of a table, whose layout names the history table of the original, and layouts that name a missing history table.

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};
use shared::{
    domain::keys::VersionDigits,
    dynamodb::{Store, read::layout_error::LayoutError},
};
use testkit::{command::Run, database, table::Table};

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
    let store = match table.store.has_own_history() {
        true => table.store.clone(),
        false => of(table, &table.name, Some(&create_history(table, name))),
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

fn items(table: &Table, name: &str) -> Vec<Value> {
    table.runtime.block_on(database::items(&table.client, name))
}

fn run(table: &Table, name: &str, arguments: &str) -> Run {
    table.run(&format!("--table {name} {arguments}"))
}

/// Runs a command that succeeds, and returns its lines.
fn done(table: &Table, name: &str, arguments: &str) -> Vec<Value> {
    table.lines(&format!("--table {name} {arguments}"), 0)
}

/// Runs a command that fails with this code and message, and prints nothing.
fn refused(table: &Table, name: &str, arguments: &str, code: i32, message: &str) {
    let run = run(table, name, arguments);
    assert_eq!(
        (run.code, run.stdout.as_str()),
        (code, ""),
        "{arguments:?} of {name}: {run:?}"
    );
    assert!(run.stderr.contains(message), "{arguments:?} of {name}: {run:?}");
}

fn adopt(history: &str) -> String {
    format!("table adopt --history-table {history}")
}

const PURGE: &str = "purge E --yes --wait 0s";

/// Writes an update of the entity E with the functions of this store. Returns its version.
fn write(table: &Table, store: &Store, n: u64) -> u64 {
    let written = testkit::table::write(store, json!({"ID": "E", "N": n}));
    table.runtime.block_on(written)
}

fn create_history(table: &Table, name: &str) -> String {
    let name = table.endpoint.table(name);
    let create = testkit::table::create_history(&table.client, &name);
    table.runtime.block_on(create).unwrap();
    name
}

fn versions(table: &Table, name: &str) -> Vec<u64> {
    let lines = done(table, name, "history E");
    lines.iter().map(|line| line["Version"].as_u64().unwrap()).collect()
}

#[test]
fn a_copy_leaves_the_history_of_the_original_alone() {
    let table = new_table();
    let store = with_history(&table, "Original-history");
    let history = store.history_table().to_owned();
    for n in 0..5 {
        assert_eq!(write(&table, &store, n), n + 1);
    }
    let (restored, later) = (copy(&table, "Restored"), copy(&table, "Later"));
    let untouched = (items(&table, &table.name), versions_in(&table, &history));
    let commands = "put E --set A=1 --mode inline; get E; history E; prune E --keep 1; audit --all; repair E --yes";
    for arguments in commands.split("; ").chain([PURGE]) {
        refused(&table, &restored, arguments, 2, "is a copy of");
        refused(&table, &restored, arguments, 2, "table adopt");
    }
    let claimed = claim(&table, &of(&table, &restored, Some(&history)));
    assert!(matches!(claimed, Err(LayoutError::Copy { .. })), "{claimed:?}");

    // It gets a history table that no other table writes.
    refused(&table, &restored, "table adopt", 2, "name the history table");
    refused(&table, &restored, &adopt(&history), 4, "writes the history table");
    refused(&table, &restored, &adopt(&table.name), 4, "is a table of latest items");
    let own = table.endpoint.table("Restored-history");
    let adopted = json!({
        "Table": restored, "Outcome": "Adopted", "VersionDigits": 1, "HistoryTable": own, "Created": true,
        "CopyOf": table.name, "HistoryTableBefore": history,
    });
    assert_eq!(done(&table, &restored, &adopt(&own)), [adopted]);
    // A second time changes nothing.
    done(&table, &restored, &adopt(&own));
    let written = done(&table, &restored, "put E --set A=1 --mode inline");
    assert_eq!(written[0]["Version"], 6);
    assert_eq!(claim(&table, &of(&table, &restored, Some(&own))), Ok(()));
    done(&table, &restored, PURGE);
    assert_eq!((items(&table, &table.name), versions_in(&table, &history)), untouched);
    assert_eq!(versions(&table, &table.name), [5, 4, 3, 2, 1]);

    // The original is lost, and its history is not.
    delete(&table, &table.name);
    done(&table, &later, &adopt(&history));
    assert_eq!(versions(&table, &later), [5, 4, 3, 2, 1]);
    assert_eq!(versions_in(&table, &history), untouched.1);
}

#[test]
fn a_history_table_has_one_writer() {
    let table = new_table();
    let store = with_history(&table, "Original-history");
    let history = store.history_table().to_owned();
    assert_eq!(write(&table, &store, 0), 1);
    let [older, other, before] = ["Older", "Other", "Before"].map(|name| copy(&table, name));
    // Of a time before the history was moved to its own table.
    remove(&table, &before, "config", "HistoryTable");
    let is_owned = |name: &str| refused(&table, name, &adopt(&history), 4, "writes the history table");
    for _ in 0..2 {
        for name in [&older, &other, &before] {
            is_owned(name);
        }
        // A claim of an earlier release stored no owner.
        remove(&table, &history, "owner", "TableId");
    }
    // Another table whose functions are deployed with this history table.
    let another = table.endpoint.table("Another");
    create(&table, &another, vec![]);
    done(&table, &table.name, &adopt(&history));
    let claimed = claim(&table, &of(&table, &another, Some(&history))).unwrap_err();
    assert!(matches!(claimed, LayoutError::Owned { .. }), "{claimed}");

    // The original is lost, and restored under its name.
    let saved = items(&table, &table.name);
    delete(&table, &table.name);
    create(&table, &table.name, saved);
    if run(&table, &table.name, "get E").code == 0 {
        // This database has no ids: the table is the same.
        return;
    }
    done(&table, &table.name, &adopt(&history));
    for name in [&older, &other, &before] {
        is_owned(name);
        refused(&table, name, PURGE, 2, "");
    }
    assert_eq!(versions(&table, &table.name), [1]);

    // Lost again: one of the copies continues the history, and the other one a copy of it.
    let history_copy = table.endpoint.table("History-copy");
    create(&table, &history_copy, items(&table, &history));
    delete(&table, &table.name);
    done(&table, &older, &adopt(&history));
    is_owned(&other);
    is_owned(&before);
    done(&table, &other, &adopt(&history_copy));
    assert_eq!((versions(&table, &older), versions(&table, &other)), (vec![1], vec![1]));
    refused(&table, &before, &adopt(&history_copy), 4, "");
}

#[test]
fn a_layout_without_its_table_is_adopted_by_the_command_that_the_error_names() {
    for attributes in ["TableId", "TableName", "TableId, TableName"] {
        let table = new_table();
        let store = with_history(&table, "Own-history");
        assert_eq!(write(&table, &store, 0), 1);
        remove(&table, &table.name, "config", attributes);
        let history = store.history_table();
        let command = format!(
            "vzero --table {} admin table adopt --history-table {history}`",
            table.name
        );
        refused(&table, &table.name, "get E", 2, &command);
        let adopted = run(&table, &table.name, &adopt(history));
        assert_eq!((adopted.code, &*adopted.stderr), (0, ""));
        assert_eq!(versions(&table, &table.name), [1]);
    }
}

/// The functions of a deployment that is rolled back have written to its history table. The next one has another.
#[test]
fn versions_of_a_rolled_back_deployment_are_copied_into_the_next_history_table() {
    let table = new_table();
    let store = with_history(&table, "Rolled-back");
    let rolled_back = store.history_table().to_owned();
    (0..3).for_each(|n| assert_eq!(write(&table, &store, n), n + 1));
    table.check("put Gone --set A=1 --mode inline => 0\npurge Gone --yes --wait 0s => 0");
    let stored = versions_in(&table, &rolled_back);
    let [next, occupied] = ["Next-history", "Occupied"].map(|name| create_history(&table, name));
    let other = json!({"PK": {"S": "E"}, "SK": {"S": "v2"}, "Image": {"M": {}}});
    table
        .runtime
        .block_on(database::put_into(&table.client, &occupied, other));
    refused(&table, &table.name, &adopt(&occupied), 4, "a different item");
    assert_eq!(claim(&table, &store), Ok(()), "the layout did not change");

    let next_store = of(&table, &table.name, Some(&next));
    let claimed = claim(&table, &next_store).unwrap_err();
    let arguments = format!("admin {}", adopt(&next));
    let command = format!("vzero --table {} {arguments}", table.name);
    assert!(claimed.to_string().contains(&command), "{claimed}");
    let lines = done(&table, &table.name, &arguments);
    assert_eq!(lines[0]["Copied"], json!(stored.len()));
    assert_eq!(claim(&table, &next_store), Ok(()));
    assert_eq!(versions(&table, &table.name), [3, 2, 1]);
    let sorted = |mut items: Vec<Value>| {
        items.sort_by_key(|item| item["PK"]["S"].to_string() + &item["SK"]["S"].to_string());
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
    refused(&table, &restored, "get E", 2, "is a copy of");
    done(&table, &restored, "table adopt");
    assert_eq!(versions(&table, &restored), [1]);
    // The layout of a table that never had one.
    let other = table.endpoint.table("Other");
    create(&table, &other, vec![]);
    let lines = done(&table, &other, "--version-digits 3 table adopt");
    assert_eq!(lines[0]["VersionDigits"], 3);
}

/// Deploys the functions of this table with a history table, which is then deleted: CloudFormation rolls a first deployment back after
/// the writer has declared it. Returns the name of the history table.
fn rolled_back(table: &Table) -> String {
    let history = create_history(table, "Rolled-back");
    assert_eq!(claim(table, &of(table, &table.name, Some(&history))), Ok(()));
    delete(table, &history);
    assert!(claim(table, &table.store).is_err());
    history
}

#[test]
fn a_layout_that_names_a_missing_history_table_is_replaced() {
    let table = new_table();
    if table.store.has_own_history() {
        return;
    }
    let missing = rolled_back(&table);
    let next = table.endpoint.table("Next-history");
    let next_store = of(&table, &table.name, Some(&next));
    let claimed = claim(&table, &next_store).unwrap_err();
    assert!(matches!(claimed, LayoutError::History { .. }), "{claimed}");
    let command = format!("vzero --table {} admin table adopt --history-table {next}", table.name);
    assert!(claimed.to_string().contains(&command), "{claimed}");

    let lines = done(&table, &table.name, &adopt(&next));
    assert_eq!(lines[0]["HistoryTableBefore"], json!(missing));
    assert_eq!(claim(&table, &next_store), Ok(()));
    write(&table, &next_store, 1);
    assert_eq!(versions(&table, &table.name), [1]);
    // Its versions would be lost.
    refused(&table, &table.name, &adopt(&table.name), 4, "has items");
    // Back to the layout before the deployment.
    let table = new_table();
    rolled_back(&table);
    done(&table, &table.name, &adopt(&table.name));
    assert_eq!(claim(&table, &table.store), Ok(()));
    assert_eq!(table.write(json!({"ID": "E"})), 1);
}
