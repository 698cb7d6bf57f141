//! `vzero admin backfill`.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::ScalarAttributeType as Kind;
use serde_json::{Value, json};
use shared::domain::Item;
use testkit::command::Run;

use crate::{
    killed, new_table,
    script::{self, other, script_tests},
};

/// Returns the counts of a run that are not 0.
pub(crate) fn summary(ran: &Run) -> BTreeMap<&str, u64> {
    let last = ran.lines.last().unwrap();
    ["Items", "Written", "AlreadyThere", "Conflicts", "Skipped", "Refused"]
        .into_iter()
        .map(|name| (name, last[name].as_u64().unwrap()))
        .filter(|(_, count)| *count > 0)
        .collect()
}

#[test]
fn items_of_another_table_become_version_1() {
    const TEST: &str = "items_of_another_table_become_version_1";
    for mode in ["inline", "transaction"] {
        let table = new_table();
        if table.endpoint.differs(TEST, &["type-names"]) {
            return;
        }
        let typed = json!({
            "Id": {"S": "a"}, "N": {"N": "12345678901234567890.5"}, "B": {"B": "AAE="}, "SS": {"SS": ["x", "y"]},
            "Null": {"NULL": true}, "M": {"M": {"x": {"L": [{"N": "1"}, {"BOOL": false}]}}}, "Empty": {"S": ""},
        });
        let items = [
            typed.clone(),
            json!({"Id": {"S": "taken"}, "A": {"S": "old"}}),
            json!({"Id": {"S": "mortal"}, "TTL": {"N": "1"}}),
        ];
        let old = other(&table, "Old", &[("Id", Kind::S)], &items);
        // Without a terminal it cannot ask, so it needs --yes.
        let backfill = format!("backfill --mode {mode} --from-table {old}");
        script::run(
            &table,
            &r#"
            @write {"ID": "taken", "A": "new"}
            BACKFILL => 2 error: cannot ask for confirmation: use --yes…
            BACKFILL --dry-run => {"Items": 3, "Written": 1, "Conflicts": 1, "Refused": 1} => 4
            @keys a => ~ []
            "#
            .replace("BACKFILL", &backfill),
        );
        let ran = table.run(&format!("{backfill} --yes"));
        assert_eq!(
            (ran.code, ran.stderr.as_str()),
            (4, "error: 2 items could not be put under versioning\n"),
            "{ran:?}"
        );
        let expected = BTreeMap::from([("Items", 3), ("Written", 1), ("Conflicts", 1), ("Refused", 1)]);
        assert_eq!(summary(&ran), expected);
        let first = "an update created its entity first, and its attributes are missing there";
        for line in [
            json!({"Key": {"Id": "mortal"}, "Refused": "TTL is reserved: give it another name"}),
            json!({"Key": {"Id": "taken"}, "Conflict": first}),
        ] {
            assert!(ran.lines.contains(&line), "{ran:?}");
        }
        let units = |name: &str| ran.lines[2][name].as_f64().unwrap();
        assert!(units("ReadUnits") > 0.0 && units("WriteUnits") >= 2.0, "{ran:?}");
        let mut made = table.items_of("a")["v1"].clone();
        for name in ["PK", "SK", "RequestId", "RequestPayload", "RecordedAt", "V0Id"] {
            made.as_object_mut().unwrap().remove(name);
        }
        let [made, typed] = [made, typed].map(|item| serde_json::from_value::<Item>(item).unwrap());
        assert_eq!(made, typed);
        // An earlier write wins. A second run creates nothing, except for what is renamed.
        script::run(
            &table,
            &r#"
            @item taken v0 => /A/S "new"
            audit --all --lag 0 => 0
            BACKFILL --yes --rename TTL=Expires => {"Items": 3, "Written": 1, "AlreadyThere": 1, "Conflicts": 1, "Refused": 0} => 4
            @item mortal v0 => /Expires/N "1"
            @item a v0 => /Latest/N "1"
            "#
            .replace("BACKFILL", &backfill),
        );
    }
}

#[test]
fn tables_with_a_sort_key_need_a_name_template() {
    let table = new_table();
    let item = |customer: &str, order: Value| json!({"Customer": {"S": customer}, "Order": order, "A": {"S": "x"}});
    let items = [1, 2, 3].map(|number: u64| item("c", json!({"N": number.to_string()})));
    let orders = other(&table, "Orders", &[("Customer", Kind::S), ("Order", Kind::N)], &items);
    let text = r#"
        BACKFILL => 2 error: ORDERS has two keys: name its entities, such as --id '{Customer}#{Order}'
        BACKFILL --id {Customer} => 2 error: --id: without {Order}, two items can be one entity
        BACKFILL --id Customer => 2 error: …
        BACKFILL --id {Customer}#{Order} --rename x => 2 error: …
        BACKFILL --id {Customer}#{Order} => {"Written": 3}
        get c#2 => {"Attributes": {"A": "x", "Customer": "c", "Order": 2}}
        backfill --yes --from-table Nowhere => 3
        "#;
    let backfill = format!("backfill --yes --mode inline --from-table {orders}");
    table.check(&text.replace("BACKFILL", &backfill).replace("ORDERS", &orders));
    // Two items with the same name: the first run writes one of them, later runs none.
    for mode in ["stream", "inline", "transaction"] {
        let table = new_table();
        let items = [item("a", json!({"S": "b#c"})), item("a#b", json!({"S": "c"}))];
        let orders = other(&table, "Orders", &[("Customer", Kind::S), ("Order", Kind::S)], &items);
        for counts in [
            r#""Written": 1, "AlreadyThere": 0"#,
            r#""Written": 0, "AlreadyThere": 1"#,
        ] {
            table.check(&format!(
                r#"backfill --yes --mode {mode} --from-table {orders} --id {{Customer}}#{{Order}} => {{{counts}, "Refused": 1}} => ~ another item of the table has the name of its entity => 4"#
            ));
        }
    }
}

script_tests! {
    fn items_of_the_same_table();
    fn a_latest_item_without_a_counter_continues_its_versions();
    fn updates_that_wait_for_the_backfill_lose_no_attribute();
}

#[test]
fn a_killed_backfill_during_writes_loses_nothing() {
    let table = new_table();
    let items: Vec<_> = (0..60)
        .map(|number| json!({"Id": {"S": format!("E{number}")}, "State": {"S": "old"}}))
        .collect();
    let old = other(&table, "Old", &[("Id", Kind::S)], &items);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.json");
    let backfill = format!(
        "backfill --yes --mode transaction --from-table {old} --segments 2 --max-read-units 10 --state {}",
        path.display()
    );
    let id = |number: usize| format!("E{}", number * 7 % 30);
    let (mut number, mut is_changed) = (0, killed::changes_of(&path));
    let runs = killed::run_killed(
        || table.start(&backfill),
        || {
            // The application continues to write.
            table.write(json!({"ID": id(number), "State": "new"}));
            number += 1;
            is_changed()
        },
    );
    assert!(runs.len() > 2 && !path.exists(), "{runs:?}");
    let (last, killed) = runs.split_last().unwrap();
    let mut lines = killed.iter().flat_map(|run| &run.lines);
    assert!(lines.all(|line| line.get("Conflict").is_some()), "{killed:?}");
    assert_eq!((last.code, summary(last)["Items"]), (4, 60), "{last:?}");
    // Entities that the application created first are conflicts.
    assert!(summary(last)["Conflicts"] > 0, "{last:?}");
    table.check("audit --all --lag 0 => 0");
    let all = table.items();
    for id in (0..number.min(30)).map(id) {
        assert_eq!(all[&format!("{id} v0")]["State"]["S"], "new", "{id}");
    }
    assert_eq!(all.keys().filter(|key| key.ends_with(" v0")).count(), 60);
    // Version 1 has the attributes from before, or it does not exist.
    let is_old = |(key, item): &(&String, &Value)| item["State"]["S"] == "old" && !key.ends_with(" v0");
    let old: Vec<_> = all.iter().filter(is_old).collect();
    assert!(
        !old.is_empty() && old.iter().all(|(key, _)| key.ends_with(" v1")),
        "{old:?}"
    );
}
