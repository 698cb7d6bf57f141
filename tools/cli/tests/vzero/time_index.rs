//! Reads of the index by time: they find what a scan finds, and an audit finds what differs.

use std::{
    io::{BufRead as _, BufReader},
    time::Duration,
};

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Value, json};
use shared::{
    domain::{recorded_at::RecordedAt, time_index::ALWAYS},
    dynamodb::Store,
};
use testkit::{
    Rng,
    attached::Orders,
    database::{add_time_index, at_second, entity, put_into, update},
    endpoint::is_skipped,
    table::Table,
    updates::{WriteMode, apply, mode, put_version},
    vzero::Vzero,
};

use crate::{change_order, random_update};

const SKIPPED: &str = "an index takes time to be created";

/// Creates a table with the index, in a layout with history in its own table or not.
pub(crate) fn indexed(is_own: bool) -> Table {
    let mut table = crate::table_with_history(is_own);
    table.block_on(add_time_index(&table.client, table.store.history_table()));
    table.block_on(table.store.claim_layout()).unwrap();
    table.store = table.store.clone().with_time_index(None);
    table
        .block_on(table.store.store_time_index_since(Some(ALWAYS)))
        .unwrap();
    table
}

/// Runs commands with the index, and then without it, and compares what they print.
fn check(vzero: &Vzero, store: &Store, [first, since, until]: [&str; 3]) {
    let commands = [
        format!("log --all --since {first}"),
        format!("log --all --since {since} --until {until}"),
        format!("log --all --since {since} --until {until} --actor amy --segments 70"),
        format!("log --all --since {since} --until {until} --path A --reverse -n 4"),
        format!("undo --since {since} --until {until} --actor amy --dry-run"),
        format!("undo --since {first} --actor amy --dry-run --conflicts overwrite"),
        format!("diff --all --from-time {since} --to-time {until}"),
        format!("diff --all --from-time {first} --to-time {until}"),
    ];
    let run = |way: &str| {
        let run = |command: &String| {
            let run = vzero.run(&format!("{command} --output json"));
            assert!([0, 4].contains(&run.code), "{command}: {}", run.stderr);
            assert!(run.stderr.contains(way), "{command}: {}", run.stderr);
            let mut lines = run.lines;
            // The index does not know the same of quarantine.
            lines.retain(|line| line.get("CompleteUntil").is_none());
            if !command.starts_with("log") {
                // Each undo has a change set of its own.
                for line in &mut lines {
                    line["ChangeSet"] = Value::Null;
                }
                lines.sort_by_key(Value::to_string);
            }
            lines
        };
        commands.iter().map(run).collect::<Vec<_>>()
    };
    let by_index = run("queries of the index TimeIndex of");
    vzero.block_on(store.store_time_index_since(None)).unwrap();
    let by_scan = run("is not used: stream-fn has not stored");
    for ((command, index), scan) in commands.iter().zip(&by_index).zip(&by_scan) {
        assert!(index.len() > 3, "{command}: {index:?}");
        assert_eq!(index, scan, "{command}");
    }
    let since = Some("1970-01-01T00:10:00Z");
    vzero.block_on(store.store_time_index_since(since)).unwrap();
    let run = vzero.run("log --all -n 0");
    assert!(
        run.stderr.contains("TimeIndex, which exists since 1970-01-01T00:10:00"),
        "{}",
        run.stderr
    );
}

const TIMES: [&str; 3] = ["1970-01-01T00:25:00Z", "1970-01-01T00:35:00Z", "1970-01-01T00:50:00Z"];

#[test]
fn the_index_finds_what_a_scan_finds() {
    if is_skipped(SKIPPED) {
        return;
    }
    for is_own in [false, true] {
        let (table, mut random) = (indexed(is_own), Rng::with_seed(0x2026_1128));
        for number in 0..150 {
            let id = format!("Equipment#{}", random.u64(..25));
            let json = random_update(&mut random, &id, number);
            // Clocks differ, so that some versions are ahead of the clock that inserts them, and some are late.
            let second = 1500 + random.u64(..1500);
            let store = at_second(&table.store, second);
            table
                .block_on(apply(&store, &update(json), mode(WriteMode::Stream)))
                .unwrap();
            let inserted = second + random.choice([0, 1, 899, 3000]).unwrap();
            table.block_on(put_version(&at_second(&store, inserted - 10), &entity(&id)));
        }
        check(&table, &table.store, TIMES);
    }
}

#[test]
fn the_index_of_an_attached_table_finds_what_a_scan_finds() {
    if is_skipped(SKIPPED) {
        return;
    }
    let (orders, mut random) = (
        Orders::with(crate::VZERO, &json!({"ActorAttribute": "by"})),
        Rng::with_seed(7),
    );
    orders.block_on(add_time_index(&orders.client, &orders.history));
    let store = orders.store().with_time_index(None);
    orders.block_on(store.store_time_index_since(Some(ALWAYS))).unwrap();
    for number in 0..100 {
        change_order(&orders, &mut random, number);
    }
    let now = store.clock().now().as_secs();
    // Some records come late, in both meanings.
    for (second, records) in [(now, orders.records()), (now + 3000, orders.records())] {
        let chosen = records.into_iter().filter(|_| second > now || random.u64(..4) > 0);
        orders.deliver_to(at_second(&store, second), &chosen.collect::<Vec<_>>());
    }
    let audited = orders.json("audit --index --lag 0", 0);
    assert_eq!(
        (&audited["Versions"], &audited["Findings"]),
        (&audited["Entries"], &json!({}))
    );
    let time = |seconds: u64| RecordedAt::since_epoch(Duration::from_secs(seconds)).to_string();
    let [first, since, until] = [now - 3600, now - 1800, now + 1800].map(time);
    check(&orders, &store, [&first, &since, &until]);
}

#[test]
fn new_versions_of_all_entities_are_followed() {
    if is_skipped(SKIPPED) {
        return;
    }
    for has_index in [true, false] {
        let table = indexed(false);
        if !has_index {
            table.block_on(table.store.store_time_index_since(None)).unwrap();
        }
        let put = |number: u64| table.write(json!({"ID": format!("E{}", number % 2), "N": number}));
        (1..=3).for_each(|number| assert!(put(number) > 0));
        let mut child = table.start("log --all --follow -n 2 --since 1970-01-01T01:00:00Z --output json");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut check = |id: &str, number: u64| {
            let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            let change = &line["Changes"][0];
            assert_eq!((&line["ID"], &change["To"]), (&json!(id), &json!(number)), "{line}");
        };
        check("E0", 2);
        check("E1", 3);
        // Each round reads again what it printed, so the next line is a new version.
        for number in 4..=6 {
            put(number);
            check(["E0", "E1"][usize::from(number % 2 == 1)], number);
        }
        if has_index {
            // It was recorded long ago.
            let (store, late) = (at_second(&table.store, 4000), update(json!({"ID": "Late", "N": 7})));
            table.block_on(apply(&store, &late, mode(WriteMode::Stream))).unwrap();
            table.block_on(put_version(&table.store, &entity("Late")));
            check("Late", 7);
        }
        // As `head` does.
        drop(lines);
        put(8);
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn an_audit_finds_what_differs_in_the_index() {
    if is_skipped(SKIPPED) {
        return;
    }
    let table = indexed(true);
    for number in 1..=4 {
        table.write(json!({"ID": "E", "N": number}));
    }
    let audit = "audit --index --lag 0 --segments 3 --output json";
    let summary = table.json(audit, 0);
    assert_eq!((&summary["Versions"], &summary["Entries"]), (&json!(4), &json!(4)));
    let set = |version: &str, change: &str, value: &str| {
        let key =
            [("PK", "E"), ("SK", version)].map(|(name, value)| (name.to_owned(), AttributeValue::S(value.to_owned())));
        let request = table.client.update_item().table_name(table.store.history_table());
        let request = request.set_key(Some(key.into())).update_expression(change);
        let value = (!value.is_empty()).then(|| AttributeValue::S(value.to_owned()));
        let values = value.map(|value| [(":value".to_owned(), value)].into());
        table
            .block_on(request.set_expression_attribute_values(values).send())
            .unwrap();
    };
    set("v1", "REMOVE TimePartition, InsertedAt", "");
    set("v2", "SET TimePartition = :value", "late64");
    set(
        "v3",
        "SET InsertedAt = :value",
        "1970-01-01T00:00:01.000Z/1970-01-01T00:00:01Z",
    );
    let other = json!({
        "PK": {"S": "E"}, "SK": {"S": "note"}, "TimePartition": {"S": "1"}, "InsertedAt": {"S": "2026-11-26T13:20:52.123Z/"},
    });
    table.block_on(put_into(&table.client, table.store.history_table(), other));
    // From before the index.
    let old =
        json!({"PK": {"S": "F"}, "SK": {"S": "v1"}, "Image": {"M": {"RecordedAt": {"S": "1970-01-01T00:00:01Z"}}}});
    table.block_on(put_into(&table.client, table.store.history_table(), old));
    let mut lines = table.lines(audit, 4);
    let summary = lines.pop().unwrap();
    assert_eq!(
        lines,
        [
            json!({"ID": "E", "SortKey": "note", "Finding": "NoVersion"}),
            json!({"ID": "E", "Version": 1, "Finding": "NotInIndex"}),
            json!({"ID": "E", "Version": 2, "Finding": "WrongPartition"}),
            json!({"ID": "E", "Version": 3, "Finding": "WrongTime"}),
        ]
    );
    assert_eq!(
        (&summary["OlderThanIndex"], &summary["Versions"]),
        (&json!(1), &json!(5))
    );
    assert_eq!(table.run("audit --index E").code, 2);
    assert_eq!(table.run("audit --index --state x").code, 2);
}
