//! `vzero admin backfill`.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::ScalarAttributeType as Kind;
use serde_json::{Value, json};
use shared::domain::Item;

use testkit::{
    command::{Run, json_lines},
    database::{create_table, put_into},
    table::Table,
};

use crate::{new_table, with_digits};

/// Creates another table with these keys and items, and returns its name.
pub(crate) fn other(table: &Table, name: &str, keys: &[(&str, Kind)], items: &[Value]) -> String {
    let name = table.endpoint.table(name);
    table.runtime.block_on(async {
        create_table(&table.client, &name, keys).await.unwrap();
        table.endpoint.wait_until_active(&name).await;
        for item in items {
            put_into(&table.client, &name, item.clone()).await;
        }
    });
    name
}

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
        table.write(json!({"ID": "taken", "A": "new"}));
        let run = |arguments: &str| table.run(&format!("backfill --mode {mode} --from-table {old} {arguments}"));
        // Without a terminal it cannot ask, so it needs --yes.
        let asked = run("");
        assert_eq!(asked.code, 2, "{asked:?}");
        assert!(asked.stderr.contains("--yes"), "{asked:?}");
        assert!(table.items_of("a").is_empty());
        let planned = run("--dry-run");
        assert_eq!(planned.code, 4);
        let expected = BTreeMap::from([("Items", 3), ("Written", 1), ("Conflicts", 1), ("Refused", 1)]);
        assert_eq!(summary(&planned), expected);
        assert!(table.items_of("a").is_empty());

        let ran = run("--yes");
        assert_eq!(ran.code, 4, "{ran:?}");
        assert_eq!(summary(&ran), expected);
        let reserved = "TTL is reserved: give it another name";
        let first = "an update created its entity first, and its attributes are missing there";
        for line in [
            json!({"Key": {"Id": "mortal"}, "Refused": reserved}),
            json!({"Key": {"Id": "taken"}, "Conflict": first}),
        ] {
            assert!(ran.lines.contains(&line), "{ran:?}");
        }
        assert_eq!(ran.stderr, "error: 2 items could not be put under versioning\n");
        let units = &ran.lines[2];
        assert!(
            units["ReadUnits"].as_f64().unwrap() > 0.0 && units["WriteUnits"].as_f64().unwrap() >= 2.0,
            "{units}"
        );
        let mut made = table.items_of("a")["v1"].clone();
        for name in ["PK", "SK", "RequestId", "RequestPayload", "RecordedAt", "V0Id"] {
            made.as_object_mut().unwrap().remove(name);
        }
        assert_eq!(
            serde_json::from_value::<Item>(made).unwrap(),
            serde_json::from_value::<Item>(typed).unwrap()
        );
        // An earlier write wins.
        assert_eq!(table.items_of("taken")["v0"]["A"]["S"], "new");
        assert_eq!(table.run("audit --all --lag 0").code, 0);

        // A second run creates nothing.
        let ran = run("--yes --rename TTL=Expires");
        assert_eq!(ran.code, 4, "{ran:?}");
        assert_eq!(
            summary(&ran),
            BTreeMap::from([("Items", 3), ("Written", 1), ("AlreadyThere", 1), ("Conflicts", 1)])
        );
        assert_eq!(table.items_of("mortal")["v0"]["Expires"]["N"], "1");
        assert_eq!(table.items_of("a")["v0"]["Latest"]["N"], "1");
    }
}

#[test]
fn tables_with_a_sort_key_need_a_name_template() {
    let table = new_table();
    let items: Vec<_> = (1..=3)
        .map(|number: u64| json!({"Customer": {"S": "c"}, "Order": {"N": number.to_string()}, "A": {"S": "x"}}))
        .collect();
    let orders = other(&table, "Orders", &[("Customer", Kind::S), ("Order", Kind::N)], &items);
    let backfill = format!("backfill --yes --mode inline --from-table {orders}");
    table.check(&format!(
        "
        {backfill} => 2 error: {orders} has two keys: name its entities, such as --id '{{Customer}}#{{Order}}'
        {backfill} --id {{Customer}} => 2 error: --id: without {{Order}}, two items can be one entity
        {backfill} --id Customer => 2 error: …
        {backfill} --id {{Customer}}#{{Order}} --rename x => 2 error: …
        "
    ));
    assert_eq!(
        summary(&table.run(&format!("{backfill} --id {{Customer}}#{{Order}}")))["Written"],
        3
    );
    table.check(
        r#"
        get c#2 => {"Attributes": {"A": "x", "Customer": "c", "Order": 2}}
        backfill --yes --from-table Nowhere => 3
        "#,
    );
}

#[test]
fn two_items_with_the_same_name_are_an_error() {
    for mode in ["stream", "inline", "transaction"] {
        let table = new_table();
        let item = |customer: &str, order: &str| json!({"Customer": {"S": customer}, "Order": {"S": order}});
        let items = [item("a", "b#c"), item("a#b", "c")];
        let orders = other(&table, "Orders", &[("Customer", Kind::S), ("Order", Kind::S)], &items);
        let arguments = format!("backfill --yes --mode {mode} --from-table {orders} --id {{Customer}}#{{Order}}");
        // The first run writes one of them, later runs none.
        for (written, there) in [(1, 0), (0, 1)] {
            let ran = table.run(&arguments);
            assert_eq!(ran.code, 4, "{mode}: {ran:?}");
            let summary = summary(&ran);
            let count = |name| summary.get(name).copied().unwrap_or_default();
            let counts = (count("Written"), count("AlreadyThere"), count("Refused"));
            assert_eq!(counts, (written, there, 1), "{mode}");
            assert_eq!(
                ran.lines[0]["Refused"],
                "another item of the table has the name of its entity"
            );
        }
    }
}

#[test]
fn items_of_the_same_table() {
    let table = new_table();
    table.put(json!({"PK": {"S": "Hand"}, "SK": {"S": "v0"}, "State": {"S": "x"}, "RequestId": {"S": "mine"}}));
    table.put(json!({"PK": {"S": "Mortal"}, "SK": {"S": "v0"}, "TTL": {"N": "9999999999"}}));
    table.put(json!({"PK": {"S": "Order"}, "SK": {"S": "2020-01-01T00:00:00"}, "A": {"S": "x"}}));
    table.put(json!({"PK": {"S": "Order"}, "SK": {"S": "Metadata"}}));
    table.write(json!({"ID": "Counted", "State": 1}));
    let run = |arguments: &str| table.run(&format!("backfill --yes --mode inline {arguments}"));
    let ran = run("");
    assert_eq!(
        (ran.code, summary(&ran)["Written"], summary(&ran)["Refused"]),
        (4, 1, 1),
        "{ran:?}"
    );
    let hand = table.items_of("Hand");
    assert_eq!(
        (&hand["v0"]["Latest"]["N"], &hand["v0"]["RequestId"]["S"]),
        (&json!("1"), &json!("mine"))
    );
    assert_eq!(hand["v1"]["State"]["S"], "x");
    assert_eq!(table.items_of("Order").len(), 2);
    assert!(table.items_of("Mortal")["v0"].get("Latest").is_none());
    // With a name, other items become entities too.
    table.put(json!({"PK": {"S": "Order"}, "SK": {"S": "mine"}, "A": {"S": "y"}}));
    let ran = run("--id {PK}/{SK}");
    assert_eq!(summary(&ran)["Written"], 1, "{ran:?}");
    assert_eq!(table.items_of("Order/mine")["v1"]["A"]["S"], "y");
    assert_eq!(table.items_of("Counted")["v0"]["Latest"]["N"], "1");
    // Later updates continue the versions.
    assert_eq!(table.write(json!({"ID": "Hand", "State": "z"})), 2);
    table.delete("Mortal", "v0");
    assert_eq!(table.run("audit --all --lag 0").code, 0);
}

#[test]
fn a_latest_item_without_a_counter_continues_its_versions() {
    let table = with_digits(2);
    for (id, latest, state) in [
        ("Same", "v0", "b"),
        ("Newer", "v0", "c"),
        ("Padded", "v00", "b"),
        ("Lost", "", ""),
    ] {
        for (key, state) in [("v01", "a"), ("v02", "b"), (latest, state)] {
            if !key.is_empty() {
                table.put(json!({"PK": {"S": id}, "SK": {"S": key}, "State": {"S": state}}));
            }
        }
    }
    let run = |arguments: &str| table.run(&format!("backfill --yes --mode inline {arguments}"));
    let planned = table.run("backfill --dry-run --mode inline");
    assert_eq!(summary(&planned)["Written"], 3);
    assert_eq!(summary(&run(""))["Written"], 3);
    for (id, latest) in [("Same", "2"), ("Newer", "3"), ("Padded", "2")] {
        let items = table.items_of(id);
        assert_eq!(items["v0"]["Latest"]["N"], latest, "{id}");
        assert_eq!(items["v02"]["State"]["S"], "b");
        assert_eq!(table.run(&format!("audit {id} --lag 0")).code, 0, "{id}");
    }
    assert!(!summary(&run("")).contains_key("Written"));
    // An item of another table does not start to count again.
    let source = other(
        &table,
        "source",
        &[("Name", Kind::S)],
        &[json!({"Name": {"S": "Lost"}, "A": {"S": "x"}})],
    );
    let ran = run(&format!("--from-table {source}"));
    assert_eq!((ran.code, summary(&ran)["Refused"]), (4, 1), "{ran:?}");
    assert!(!table.items_of("Lost").contains_key("v0"));
}

/// Items of a table with two attributes, of which an update names one.
pub(crate) fn machines(table: &Table) -> String {
    let item = |number: u64| json!({"Id": {"S": format!("M{number}")}, "Name": {"S": "Press"}, "State": {"S": "OK"}});
    other(table, "Machines", &[("Id", Kind::S)], &[1, 2, 3].map(item))
}

/// The documented order: updates wait in the queue until the backfill is complete.
#[test]
fn updates_that_wait_for_the_backfill_lose_no_attribute() {
    for mode in ["inline", "transaction"] {
        let table = new_table();
        let old = machines(&table);
        let queued = [
            json!({"ID": "M1", "State": "WARNING1"}),
            json!({"ID": "M3", "State": "OFF"}),
        ];
        let run = || table.run(&format!("backfill --yes --mode {mode} --from-table {old}"));
        let ran = run();
        assert_eq!((ran.code, summary(&ran)["Written"]), (0, 3), "{ran:?}");
        // The mapping of the queue is enabled.
        for update in queued {
            assert_eq!(table.write(update), 2);
        }
        for (id, state) in [("M1", "WARNING1"), ("M2", "OK"), ("M3", "OFF")] {
            let latest = &table.items_of(id)["v0"];
            assert_eq!(
                (&latest["Name"]["S"], &latest["State"]["S"]),
                (&json!("Press"), &json!(state))
            );
        }
        // Repeated, however many updates followed: also if the request of version 1 is no longer among the recent ones.
        for number in 0..120 {
            table.write(json!({"ID": "M2", "N": number}));
        }
        for _ in 0..2 {
            let ran = run();
            assert_eq!(ran.code, 0, "{ran:?}");
            assert_eq!(summary(&ran), BTreeMap::from([("Items", 3), ("AlreadyThere", 3)]));
        }
        // A deletion is an update too.
        assert_eq!(table.run("delete M1 --mode inline").code, 0);
        assert_eq!(run().code, 0);
        assert_eq!(table.items_of("M1")["v0"]["Deleted"]["BOOL"], true);
    }
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
    let arguments = format!(
        "backfill --yes --mode transaction --from-table {old} --segments 2 --max-read-units 10 --state {}",
        path.display()
    );
    let (mut kills, mut number) = (0, 0);
    let last = loop {
        let mut child = table.start(&arguments);
        let before = std::fs::read_to_string(&path).ok();
        let is_ended = loop {
            // The application continues to write.
            table.write(json!({"ID": format!("E{}", number * 7 % 30), "State": "new"}));
            number += 1;
            if child.try_wait().unwrap().is_some() {
                break true;
            }
            let now = std::fs::read_to_string(&path).ok();
            if now.is_some() && now != before {
                break false;
            }
        };
        if is_ended {
            break Run::wait(child);
        }
        child.kill().unwrap();
        let lines = json_lines(&Run::wait(child).stdout);
        assert!(lines.iter().all(|line| line.get("Conflict").is_some()), "{lines:?}");
        kills += 1;
        assert!(kills < 100, "it gets nowhere");
    };
    assert!(kills > 1 && !path.exists());
    assert_eq!((last.code, summary(&last)["Items"]), (4, 60), "{last:?}");
    // Entities that the application created first are conflicts.
    assert!(summary(&last)["Conflicts"] > 0, "{last:?}");
    let audited = table.run("audit --all --lag 0");
    assert_eq!(audited.code, 0, "{audited:?}");
    for written in 0..number.min(30) {
        let id = format!("E{}", written * 7 % 30);
        assert_eq!(table.items_of(&id)["v0"]["State"]["S"], "new", "{id}");
    }
    let all = table.runtime.block_on(table.store.scan_items()).unwrap();
    let all: Vec<_> = all.iter().map(|item| serde_json::to_value(item).unwrap()).collect();
    assert_eq!(all.iter().filter(|item| item["SK"]["S"] == "v0").count(), 60);
    // Version 1 has the attributes from before, or it does not exist.
    let old = all
        .iter()
        .filter(|item| item["State"]["S"] == "old" && item["SK"]["S"] != "v0");
    assert!(old.clone().count() > 0);
    for item in old {
        assert_eq!(item["SK"]["S"], "v1");
    }
}
